//! Bytes into and out of a session's sandbox: a port there, or a command with its input and output.

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;
use wire::v1::{ExecRequest, PipeWord, STDERR};

use crate::call::refused;
use crate::error::problem_of;
use crate::{Client, ClientError, Socket};

/// The largest piece that is sent in one frame.
const PIECE: usize = 64 << 10;

/// What goes in.
#[derive(Debug)]
pub struct PipeInput {
    sink: SplitSink<Socket, Message>,
}

/// What comes out.
#[derive(Debug)]
pub struct PipeOutput {
    source: SplitStream<Socket>,
    url: String,
    /// What comes says where it was printed.
    is_marked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Bytes(Bytes),
    /// What a command printed as errors.
    Errors(Bytes),
    /// No more bytes come; they may still go in.
    Eof,
    /// The command ended.
    Exit {
        code: i32,
        timed_out: bool,
    },
}

impl Client {
    /// A connection to a port of the sandbox's loopback.
    pub async fn dial_port(
        &self,
        session: &str,
        port: u16,
    ) -> Result<(PipeInput, PipeOutput), ClientError> {
        let port = port.to_string();
        let path = ["v1", "sessions", session, "ports", &port];
        let socket = self.open_socket(&path, &[]).await?;
        Ok(self.pipe(socket, false))
    }

    /// Begins a command; it ends when its output is dropped.
    pub async fn run_command(
        &self,
        session: &str,
        request: &ExecRequest,
    ) -> Result<(PipeInput, PipeOutput), ClientError> {
        let path = ["v1", "sessions", session, "exec"];
        let socket = self.open_socket(&path, &[]).await?;
        let (mut input, output) = self.pipe(socket, true);
        let request =
            serde_json::to_string(request).map_err(|error| ClientError::Setup(error.into()))?;
        input.say(Message::text(request)).await?;
        Ok((input, output))
    }

    fn pipe(&self, socket: Socket, is_marked: bool) -> (PipeInput, PipeOutput) {
        let (sink, source) = socket.split();
        let url = self.url().to_owned();
        let output = PipeOutput {
            source,
            url,
            is_marked,
        };
        (PipeInput { sink }, output)
    }
}

impl PipeInput {
    /// Waits until there is room for it.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), ClientError> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.say(Message::binary(piece)).await?;
        }
        Ok(())
    }

    /// No more comes.
    pub async fn end(&mut self) -> Result<(), ClientError> {
        let word = serde_json::to_string(&PipeWord::Eof).unwrap_or_default();
        self.say(Message::text(word)).await
    }

    async fn say(&mut self, message: Message) -> Result<(), ClientError> {
        let said = self.sink.send(message).await;
        said.map_err(|_| ClientError::NotConnected)
    }
}

impl PipeOutput {
    /// None when the other side has closed. A line that breaks is an error, and no end.
    pub async fn next(&mut self) -> Result<Option<Piece>, ClientError> {
        loop {
            return Ok(match self.source.next().await {
                Some(Ok(Message::Binary(bytes))) => match self.piece(bytes) {
                    Some(piece) => Some(piece),
                    None => continue,
                },
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(PipeWord::Eof) => Some(Piece::Eof),
                    Ok(PipeWord::Exit {
                        exit_code,
                        timed_out,
                    }) => Some(Piece::Exit {
                        code: exit_code,
                        timed_out,
                    }),
                    Ok(PipeWord::Error { code, message }) => return Err(told(&code, message)),
                    // From a newer server.
                    Err(_) => continue,
                },
                Some(Ok(Message::Close(_))) | None => None,
                Some(Ok(_)) => continue,
                Some(Err(error)) => {
                    return Err(ClientError::Unreachable {
                        url: self.url.clone(),
                        sent: true,
                        source: error.into(),
                    });
                }
            });
        }
    }

    fn piece(&self, mut bytes: Bytes) -> Option<Piece> {
        if !self.is_marked {
            return (!bytes.is_empty()).then_some(Piece::Bytes(bytes));
        }
        let mark = *bytes.first()?;
        let rest = bytes.split_off(1);
        Some(if mark == STDERR {
            Piece::Errors(rest)
        } else {
            Piece::Bytes(rest)
        })
    }
}

/// What would have been a refusal, had the socket not been open already.
fn told(code: &str, message: String) -> ClientError {
    let status = match code {
        "not-found" => 404,
        "invalid" | "bad-frame" => 400,
        "unavailable" => 503,
        _ => 409,
    };
    let mut problem = problem_of(status, b"");
    problem.detail = message;
    code.clone_into(&mut problem.code);
    refused(problem, None)
}
