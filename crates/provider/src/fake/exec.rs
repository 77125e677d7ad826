//! Starting a simulated command, and everything around it: input, signals, its end.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::machine::Machine;
use super::node::Who;
use super::process::{End, Process};
use crate::probe::{self, Command, escape};
use crate::{EXEC_QUEUE, Exec, ExecInput, ExecOutput, ExecSpec, Exit, ProviderError, WindowSize};

const SIGKILL: i32 = 9;

pub(super) fn start(machine: &mut Machine, spec: ExecSpec) -> Result<Exec, ProviderError> {
    let inside = machine.inside.clone();
    let who = who(spec.user.as_deref())?;
    let (program, args) = spec
        .argv
        .split_first()
        .ok_or_else(|| ProviderError::refused("there is no program to run"))?;
    if program != probe::PATH.as_bytes() || inside.disk().find(program).is_err() {
        return Err(ProviderError::refused(format!(
            "program {} is not there",
            escape(program)
        )));
    }
    let command = Command::parse(args);
    let cwd = spec.cwd.clone().unwrap_or_else(|| b"/".to_vec());
    let is_directory = {
        let disk = inside.disk();
        disk.find(&cwd)
            .is_ok_and(|inode| disk.entries(inode).is_ok())
    };
    if !is_directory {
        return Err(ProviderError::refused(format!(
            "directory {} is not there",
            escape(&cwd)
        )));
    }
    let sandboxs = inside
        .env
        .iter()
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
    let env = sandboxs.chain(spec.env.clone()).collect();

    let (input, inputs) = mpsc::channel(EXEC_QUEUE);
    let (outputs, output) = mpsc::channel(EXEC_QUEUE);
    let (stdin, stdin_end) = mpsc::channel(1);
    let (size, size_end) = watch::channel(spec.pty);
    let pid = inside.next_pid();
    let process = Process {
        inside,
        who,
        env,
        cwd,
        pid,
        stdin: stdin_end,
        size: size_end,
        output: (!spec.detach).then(|| outputs.clone()),
    };
    machine.spawn(supervise(
        spec,
        process,
        command,
        outputs,
        listen(inputs, stdin, size),
    ));
    Ok(Exec {
        pid: Some(pid),
        input,
        output,
    })
}

/// `root`, `user`, `uid` or `uid:gid`.
pub(super) fn who(user: Option<&str>) -> Result<Who, ProviderError> {
    let unknown = || ProviderError::refused("that user is not known in the sandbox");
    match user {
        None | Some("root") => Ok(Who::SUPERUSER),
        Some("user") => Ok(Who {
            uid: 1000,
            gid: 1000,
        }),
        Some(ids) => {
            let (uid, gid) = ids.split_once(':').unwrap_or((ids, ids));
            let number = |text: &str| text.parse().map_err(|_| unknown());
            Ok(Who {
                uid: number(uid)?,
                gid: number(gid)?,
            })
        }
    }
}

async fn supervise(
    spec: ExecSpec,
    process: Process,
    command: Result<Command, probe::NotUnderstood>,
    outputs: mpsc::Sender<Result<ExecOutput, ProviderError>>,
    signalled: impl Future<Output = i32>,
) {
    let inside = process.inside.clone();
    let _pid = inside.pids.take(1);
    let timeout = async {
        match spec.timeout {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let dropped = async {
        if spec.detach {
            std::future::pending::<()>().await;
        }
        outputs.closed().await;
    };
    let by_signal = |signal| Exit {
        code: 128 + signal,
        signal: Some(signal),
        timed_out: false,
    };
    // Whichever way this ends, the process and its children end with it.
    let exit = tokio::select! {
        end = process.run(command) => match end {
            End::Exited(code) => Exit { code, signal: None, timed_out: false },
            End::Killed(signal) => by_signal(signal),
        },
        () = timeout => Exit { timed_out: true, ..by_signal(SIGKILL) },
        signal = signalled => by_signal(signal),
        () = dropped => return,
    };
    let end = inside.save().map(|()| ExecOutput::Exit(exit));
    // Nobody may be waiting for it any more.
    let _ = outputs.send(end).await;
}

/// Passes input on; answers with the signal that ends the command.
async fn listen(
    mut inputs: mpsc::Receiver<ExecInput>,
    stdin: mpsc::Sender<Bytes>,
    size: watch::Sender<Option<WindowSize>>,
) -> i32 {
    let mut stdin = Some(stdin);
    while let Some(input) = inputs.recv().await {
        match input {
            ExecInput::Data(data) => {
                if let Some(stdin) = &stdin {
                    // A command that reads no more loses nothing.
                    let _ = stdin.send(data).await;
                }
            }
            ExecInput::Eof => stdin = None,
            ExecInput::Resize(to) => {
                size.send_if_modified(|size| {
                    size.as_mut()
                        .is_some_and(|size| std::mem::replace(size, to) != to)
                });
            }
            ExecInput::Signal(signal) => return signal,
        }
    }
    drop(stdin);
    // The watcher of the size must not end before the command does.
    let _size = size;
    std::future::pending().await
}
