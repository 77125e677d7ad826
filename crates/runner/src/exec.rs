//! One command, from the request to its end.

use std::os::fd::AsFd as _;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitStatus};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wire::Frame;
use wire::guest::{Exec, Exited, Failed, Reply};

use crate::command::{Command, Cwd};
use crate::failure::{cannot, exhausted, not_found, refused};
use crate::group::Group;
use crate::identity::Identity;
use crate::pump::{Sink, send_output, take_input};
use crate::serve::{Runner, send_signal};
use crate::spawn::{self, REPORT, Stage};
use crate::stdio::{self, Ends, Streams};
use crate::stream::Stream;
use crate::users;

/// What becomes of the processes that a command leaves behind when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    Live,
    Die,
}

/// Fails only when nothing was started.
pub(crate) async fn run(
    runner: &Rc<Runner>,
    host: UnixStream,
    exec: Exec,
    leftovers: Leftovers,
    permit: OwnedSemaphorePermit,
) -> Result<(), (UnixStream, Failed)> {
    match start(runner, &exec).await {
        Err(failed) => Err((host, failed)),
        Ok((started, None)) => {
            detach(host, started, permit).await;
            Ok(())
        }
        Ok((started, Some(streams))) => {
            accompany(runner, host, started, streams, leftovers).await;
            Ok(())
        }
    }
}

struct Started {
    pid: Pid,
    group: Group,
    exit: oneshot::Receiver<WaitStatus>,
    timeout: Option<Duration>,
}

async fn start(runner: &Runner, exec: &Exec) -> Result<(Started, Option<Streams>), Failed> {
    let user = users::find(exec.user.as_deref())?;
    let mut command = Command::new(exec, &user, &runner.config.env)?;
    let identity = Identity::new(&user);
    let (streams, ends) = match exec.pty {
        _ if exec.detach => (None, Ends::Null(runner.null.as_fd())),
        Some(size) => stdio::terminal(&user, size).map(|(streams, ends)| (Some(streams), ends))?,
        None => stdio::pipes(&user).map(|(streams, ends)| (Some(streams), ends))?,
    };
    let group = runner.groups.make()?;
    command.env.extend(group.mark().cloned());
    let (pid, reports) = spawn::command(&command, &identity, &ends, runner.descriptors, &group)
        .map_err(cannot_fork)?;
    let exit = runner.reaper.expect(pid);
    drop(ends);

    let reports =
        Stream::reader(reports).map_err(|error| exhausted(format!("cannot watch it: {error}")))?;
    let mut report = [0; REPORT];
    let mut oom_score_is_ours = false;
    while let Ok(REPORT) = reports.read(&mut report).await {
        match spawn::parse_report(report) {
            Some((Stage::OomScore, _)) => oom_score_is_ours = true,
            Some((stage, errno)) => return Err(explain(stage, errno, exec, &command)),
            None => break,
        }
    }
    if oom_score_is_ours && runner.reaper.still_awaits(pid) {
        spawn::raise_oom_score(pid);
    }
    let timeout = exec.timeout_ms.map(Duration::from_millis);
    Ok((
        Started {
            pid,
            group,
            exit,
            timeout,
        },
        streams,
    ))
}

fn cannot_fork(errno: Errno) -> Failed {
    match errno {
        Errno::AGAIN => {
            exhausted("the sandbox's limit of processes is reached; the command was not started")
        }
        Errno::NOMEM => exhausted("the sandbox is out of memory; the command was not started"),
        other => cannot("start a process", other),
    }
}

fn explain(stage: Stage, errno: Errno, exec: &Exec, command: &Command) -> Failed {
    let program = &exec.argv[0];
    match (stage, errno) {
        (Stage::Exec, Errno::NOENT) => not_found(format!("there is no program {program:?}")),
        (Stage::Exec, Errno::ACCESS) => {
            refused(format!("{program:?} may not be run: permission denied"))
        }
        (Stage::Exec, Errno::NOEXEC) => refused(format!(
            "{program:?} is not a program; a script needs a first line with #!"
        )),
        (Stage::Exec, Errno::TOOBIG) => refused("the arguments and the environment are too long"),
        (Stage::Exec, errno) => cannot(&format!("run {program:?}"), errno),
        (Stage::Interpreter, _) => not_found(format!(
            "{program:?} needs an interpreter or loader that is not there"
        )),
        (Stage::Cwd, errno) => {
            let (Cwd::Asked(cwd) | Cwd::Home(cwd)) = &command.cwd;
            cannot(&format!("work in the directory {cwd:?}"), errno)
        }
        (Stage::Identity, Errno::INVAL) => {
            let user = exec.user.as_deref().unwrap_or("root");
            refused(format!("user {user:?} is beyond the ids this sandbox has"))
        }
        (Stage::Identity, errno) => cannot("become the user", errno),
        (Stage::Session | Stage::Stdio | Stage::OomScore, errno) => {
            cannot("set up its terminal", errno)
        }
    }
}

async fn detach(mut host: UnixStream, started: Started, permit: OwnedSemaphorePermit) {
    let Started {
        pid,
        group,
        exit,
        timeout,
    } = started;
    group.let_live();
    let _ = host
        .write_all(
            &Frame::control(&Reply::Started {
                pid: pid.as_raw_pid(),
            })
            .encode(),
        )
        .await;
    drop(host);
    drop(permit);
    tokio::select! {
        _ = exit => {}
        () = expiry(timeout) => group.kill(),
    }
}

/// Leaving early drops the group, which kills the command and everything it started.
async fn accompany(
    runner: &Rc<Runner>,
    mut host: UnixStream,
    started: Started,
    streams: Streams,
    leftovers: Leftovers,
) {
    let Started {
        pid,
        group,
        exit,
        timeout,
    } = started;
    let (mut from_host, mut to_host) = host.split();
    let greeting = Frame::control(&Reply::Started {
        pid: pid.as_raw_pid(),
    })
    .encode();
    if to_host.write_all(&greeting).await.is_err() {
        return;
    }
    let terminal;
    let (sink, stdout, stderr) = match streams {
        Streams::Pipes {
            stdin,
            ref stdout,
            ref stderr,
        } => (Sink::Pipe(stdin), stdout, Some(stderr)),
        Streams::Terminal(stream) => {
            terminal = stream;
            (Sink::Terminal(&terminal), &terminal, None)
        }
    };
    let resize = |size| {
        if stderr.is_none() {
            stdio::resize(stdout, size);
        }
    };
    let signal = |number| {
        if runner.reaper.still_awaits(pid) {
            send_signal(pid, number);
        }
    };
    let mut timed_out = false;
    let ended = {
        let mut output = pin!(send_output(&mut to_host, Some(stdout), stderr, exit));
        let mut input = pin!(take_input(&mut from_host, sink, resize, signal));
        let mut expiry = pin!(expiry(timeout));
        loop {
            tokio::select! {
                biased;
                ended = &mut output => break ended,
                () = &mut input => return,
                () = &mut expiry, if !timed_out => {
                    timed_out = true;
                    group.kill();
                }
            }
        }
    };
    let Ok(status) = ended else { return };
    match leftovers {
        Leftovers::Live if !timed_out => group.let_live(),
        _ => group.kill(),
    }
    let exited = Reply::Exited(exited(status, timed_out));
    let _ = to_host.write_all(&Frame::control(&exited).encode()).await;
}

async fn expiry(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn exited(status: WaitStatus, timed_out: bool) -> Exited {
    let signal = status.terminating_signal();
    let code = signal.map_or_else(|| status.exit_status().unwrap_or(-1), |signal| 128 + signal);
    Exited {
        code,
        signal,
        timed_out,
    }
}
