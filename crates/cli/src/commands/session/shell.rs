//! A terminal in the sandbox, in this one. It runs on when it is left, and shows its screen again
//! to whoever comes back.

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, ClientError, Socket};
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use wire::v1::Status;

use super::{find, of_session};
use crate::app::App;
use crate::commands::remote;
use crate::commands::sandbox::terminal::{Endings, RawMode, window_size};
use crate::error::CommandError;

/// Ctrl-], as telnet has it: hardly anything else wants it.
const DETACH: u8 = 0x1d;
/// Between tries; the last one over and over.
const WAITS: [u64; 5] = [0, 1, 2, 5, 10];

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session shell ID
  nacre session shell ID --name tests      # another one, beside the first

Ctrl-] leaves it, and it runs on; the same command brings it back. The shell's own exit code is
passed on. A paused session is resumed first.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// Which of the session's terminals
    #[arg(long, default_value = "main")]
    name: String,
}

/// How a connection ended.
enum Ended {
    Shell(Option<i32>),
    Detached,
    Lost,
    Signal(u8),
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let id = &arguments.session;
    if app.output.is_json() || !io::stdin().is_terminal() {
        return Err(
            CommandError::usage("a shell needs a terminal").hint(format!(
                "a script runs commands by `nacre session exec {id} -- CMD`"
            )),
        );
    }
    let client = remote::connect()?;
    let progress = app.output.progress("opening a shell");
    let socket = open(&client, arguments).await.map_err(of_session)?;
    drop(progress);
    app.output.aside("· Ctrl-] leaves; what runs here runs on");
    let mut desk = Desk {
        keys: keyboard(),
        resized: signal(SignalKind::window_change())?,
        endings: Endings::listen()?,
    };
    let raw = RawMode::enter()?;
    let ended = desk.stay(&client, arguments, socket).await;
    drop(raw);
    match ended? {
        Ended::Shell(code) => Ok(ExitCode::from(
            u8::try_from(code.unwrap_or(0) & 0xff).unwrap_or(u8::MAX),
        )),
        Ended::Signal(number) => Ok(ExitCode::from(128 + number)),
        Ended::Detached | Ended::Lost => {
            app.output.aside("");
            app.output
                .aside(&format!("· back to it: nacre session shell {id}"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn open(client: &Client, arguments: &Arguments) -> Result<Socket, ClientError> {
    let size = window_size();
    let (columns, rows) = (size.columns.to_string(), size.rows.to_string());
    let path = ["v1", "sessions", &arguments.session, "terminal"];
    let query = [
        ("name", arguments.name.as_str()),
        ("columns", &columns),
        ("rows", &rows),
    ];
    client.open_socket(&path, &query).await
}

/// A thread of its own, because a read from a terminal cannot be cancelled; it ends with us.
fn keyboard() -> mpsc::Receiver<Bytes> {
    let (typed, keys) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match stdin.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    let piece = Bytes::copy_from_slice(&buffer[..length]);
                    if typed.blocking_send(piece).is_err() {
                        return;
                    }
                }
            }
        }
    });
    keys
}

/// What a person sits at.
struct Desk {
    keys: mpsc::Receiver<Bytes>,
    resized: Signal,
    endings: Endings,
}

impl Desk {
    /// Until somebody leaves or the shell ends, over as many connections as it takes.
    async fn stay(
        &mut self,
        client: &Client,
        arguments: &Arguments,
        mut socket: Socket,
    ) -> Result<Ended, CommandError> {
        loop {
            let ended = self.serve(socket).await?;
            if !matches!(ended, Ended::Lost) {
                return Ok(ended);
            }
            match self.again(client, arguments).await? {
                Ok(opened) => socket = opened,
                Err(ended) => return Ok(ended),
            }
        }
    }

    async fn serve(&mut self, socket: Socket) -> Result<Ended, CommandError> {
        let mut stdout = tokio::io::stdout();
        let (mut sink, mut source) = socket.split();
        loop {
            tokio::select! {
                message = source.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => {
                        stdout.write_all(&bytes).await?;
                        stdout.flush().await?;
                    }
                    Some(Ok(Message::Text(text))) => if let Word::Exit { code } = word(&text) {
                        return Ok(Ended::Shell(code));
                    },
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(Ended::Lost),
                    Some(Ok(_)) => {}
                },
                keys = self.keys.recv() => match keys {
                    Some(keys) => {
                        let (keys, leaves) = until_detached(&keys);
                        if !say(&mut sink, Message::binary(keys)).await {
                            return Ok(Ended::Lost);
                        }
                        if leaves {
                            return Ok(Ended::Detached);
                        }
                    }
                    None => return Ok(Ended::Detached),
                },
                _ = self.resized.recv() => {
                    let size = window_size();
                    let size = json!({"type": "resize", "columns": size.columns, "rows": size.rows});
                    if !say(&mut sink, Message::text(size.to_string())).await {
                        return Ok(Ended::Lost);
                    }
                }
                number = self.endings.next() => return Ok(Ended::Signal(number)),
            }
        }
    }

    /// Another connection, unless the session was put to sleep: then nobody wants it woken.
    async fn again(
        &mut self,
        client: &Client,
        arguments: &Arguments,
    ) -> Result<Result<Socket, Ended>, CommandError> {
        let mut waits = WAITS.into_iter();
        let mut wait = 0;
        note("the line is lost; trying again (Ctrl-] leaves)").await?;
        loop {
            wait = waits.next().unwrap_or(wait);
            let pause = tokio::time::sleep(Duration::from_secs(wait));
            let mut pause = std::pin::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    keys = self.keys.recv() => match keys {
                        Some(keys) if !until_detached(&keys).1 => {}
                        _ => return Ok(Err(Ended::Detached)),
                    },
                    number = self.endings.next() => return Ok(Err(Ended::Signal(number))),
                }
            }
            match find(client, &arguments.session).await {
                Ok(session) if session.status == Status::Running => {}
                Ok(session) => {
                    let status = super::word(session.client_status);
                    return Err(
                        CommandError::refused(format!("the session is {status} now")).hint(
                            format!("`nacre session shell {}` wakes it", arguments.session),
                        ),
                    );
                }
                Err(_) => continue,
            }
            match open(client, arguments).await {
                Ok(socket) => return Ok(Ok(socket)),
                Err(error) if error.can_retry() => {}
                Err(error) => return Err(of_session(error)),
            }
        }
    }
}

/// In a terminal that is raw, a line must go back to its beginning by itself.
async fn note(text: &str) -> Result<(), CommandError> {
    let mut stderr = tokio::io::stderr();
    stderr
        .write_all(format!("\r\n· {text}\r\n").as_bytes())
        .await?;
    stderr.flush().await?;
    Ok(())
}

async fn say(sink: &mut SplitSink<Socket, Message>, message: Message) -> bool {
    sink.send(message).await.is_ok()
}

/// What was typed before the key that leaves, and whether it was.
fn until_detached(keys: &Bytes) -> (Bytes, bool) {
    match keys.iter().position(|key| *key == DETACH) {
        Some(at) => (keys.slice(..at), true),
        None => (keys.clone(), false),
    }
}

/// What is said about the terminal.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Word {
    Exit {
        code: Option<i32>,
    },
    #[serde(other)]
    Other,
}

fn word(text: &str) -> Word {
    serde_json::from_str(text).unwrap_or(Word::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_leaves_goes_nowhere() {
        let keys = Bytes::from_static(b"ls\r\x1drm");
        assert_eq!(until_detached(&keys), (Bytes::from_static(b"ls\r"), true));
        let keys = Bytes::from_static(b"ls\r");
        assert_eq!(until_detached(&keys), (keys.clone(), false));
    }

    #[test]
    fn the_end_of_the_shell_is_told_by_one_frame_only() {
        let ended = |code| Word::Exit { code };
        assert_eq!(word(r#"{"type":"exit","code":3}"#), ended(Some(3)));
        assert_eq!(word(r#"{"type":"exit","code":null}"#), ended(None));
        assert_eq!(word(r#"{"type":"ready","pid":7}"#), Word::Other);
        assert_eq!(word("exit"), Word::Other);
    }
}
