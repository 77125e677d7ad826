use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitCode;

use bytes::Bytes;
use provider::{Exec, ExecInput, ExecOutput, ExecSpec, Exit, ProviderError};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender};

use super::raw_key_and_value;
use super::terminal::{BROKEN_PIPE, Endings, RawMode, window_size};
use crate::app::App;
use crate::config::Span;
use crate::error::{CommandError, Kind};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// Who runs it: a name the sandbox knows, UID or UID:GID [default: root]
    #[arg(long)]
    user: Option<String>,
    /// Where it runs [default: the user's home]
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    /// A variable in its environment
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<OsString>,
    /// Kill it and everything it started after this long, such as 30s
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    timeout: Option<Span>,
    /// Forward standard input
    #[arg(short, long)]
    interactive: bool,
    /// Give it a terminal
    #[arg(short, long)]
    tty: bool,
    /// Start it, print its process id, and leave it running
    #[arg(long, conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What ended it.
enum Ending {
    Exit(Exit),
    /// One of ours: the command goes with the handle.
    Signal(u8),
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let (sandbox, interactive, tty, timeout) = (
        arguments.sandbox.clone(),
        arguments.interactive,
        arguments.tty,
        arguments.timeout,
    );
    let detach = arguments.detach;
    let spec = arguments.spec()?;
    let engine = app.engine()?;
    let id = engine.sandbox(&sandbox)?;
    // From here on a signal must end the command in the sandbox too.
    let endings = Endings::listen()?;
    let exec = engine.provider().exec(id, spec).await?;
    if detach {
        app.output.result(&json!({ "pid": exec.pid }), || {
            exec.pid
                .map_or_else(|| "started".to_owned(), |pid| pid.to_string())
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    match attach(exec, interactive, tty, endings).await? {
        Ending::Signal(number) => Ok(ExitCode::from(128 + number)),
        Ending::Exit(Exit {
            timed_out: true, ..
        }) => {
            let limit = timeout.map_or_else(String::new, |limit| format!(" of {limit}"));
            Err(CommandError::new(
                Kind::TimeLimit,
                format!("the command reached its time limit{limit} and was killed"),
            ))
        }
        Ending::Exit(exit) => Ok(ExitCode::from(
            u8::try_from(exit.code & 0xff).unwrap_or(u8::MAX),
        )),
    }
}

impl Arguments {
    fn spec(self) -> Result<ExecSpec, CommandError> {
        let env: BTreeMap<Vec<u8>, Vec<u8>> = self
            .env
            .into_iter()
            .map(raw_key_and_value)
            .collect::<Result<_, _>>()?;
        Ok(ExecSpec {
            argv: self.command.into_iter().map(OsString::into_vec).collect(),
            cwd: self.cwd.map(OsString::into_vec),
            env,
            user: self.user,
            pty: self.tty.then(window_size),
            timeout: self.timeout.map(|limit| limit.0),
            detach: self.detach,
        })
    }
}

/// Carries input and output until the command ends or we are told to. The handle is dropped on the
/// way out, and the command with it.
async fn attach(
    exec: Exec,
    interactive: bool,
    tty: bool,
    mut endings: Endings,
) -> Result<Ending, CommandError> {
    let Exec { input, output, .. } = exec;
    // Without input of ours the terminal stays as it is, and Ctrl-C is the user's to us.
    let _raw = if tty && interactive {
        RawMode::enter()?
    } else {
        None
    };
    if interactive {
        forward_stdin(input.clone());
    } else if !tty {
        // Whoever reads finds the end at once. The command may have ended already.
        let _ = input.send(ExecInput::Eof).await;
    }
    tokio::select! {
        ending = print(output) => ending,
        number = endings.next() => Ok(Ending::Signal(number)),
        Err(error) = follow_window(input, tty) => Err(error.into()),
    }
}

/// A thread of its own, because a read from a terminal cannot be cancelled; it ends with us.
fn forward_stdin(input: Sender<ExecInput>) {
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let piece = match stdin.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => ExecInput::Eof,
                Ok(length) => ExecInput::Data(Bytes::copy_from_slice(&buffer[..length])),
            };
            let last = piece == ExecInput::Eof;
            if input.blocking_send(piece).is_err() || last {
                return;
            }
        }
    });
}

/// Never ends well: the command does, or a signal comes.
async fn follow_window(input: Sender<ExecInput>, tty: bool) -> io::Result<()> {
    if tty {
        let mut changes = signal(SignalKind::window_change())?;
        while changes.recv().await.is_some() {
            // The command may have ended already.
            let _ = input.send(ExecInput::Resize(window_size())).await;
        }
    }
    std::future::pending().await
}

async fn print(
    mut output: Receiver<Result<ExecOutput, ProviderError>>,
) -> Result<Ending, CommandError> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(piece) = output.recv().await {
        let written = match piece? {
            ExecOutput::Stdout(bytes) => write(&mut stdout, &bytes).await,
            ExecOutput::Stderr(bytes) => write(&mut stderr, &bytes).await,
            ExecOutput::Exit(exit) => return Ok(Ending::Exit(exit)),
        };
        match written {
            // As if the command had written to the closed pipe itself.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Ending::Signal(BROKEN_PIPE));
            }
            written => written?,
        }
    }
    Err(ProviderError::unavailable("exec", "the sandbox went away before the command ended").into())
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

fn time_limit(text: &str) -> Result<Span, String> {
    let limit: Span = text.parse()?;
    if limit.0.is_zero() {
        Err("it must be more than nothing".to_owned())
    } else {
        Ok(limit)
    }
}
