//! How frames travel to and from a runner.

use std::fmt;
use std::io;

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf,
};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use wire::link::{Close, FromHub, HubFrame};

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As at the link door.
    Lines,
    /// The runner has dialled and been upgraded.
    WebSocketServer,
    /// We have dialled the runner and been upgraded.
    WebSocketClient,
}

/// One connection to a runner.
pub struct Carrier(Kind);

enum Kind {
    Lines {
        reader: BufReader<ReadHalf<Box<dyn Io>>>,
        writer: WriteHalf<Box<dyn Io>>,
        line: Vec<u8>,
    },
    WebSocket(Box<WebSocketStream<Box<dyn Io>>>),
}

pub(super) enum Received {
    Frame(Vec<u8>),
    Closed(Close),
    End,
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carrier")
    }
}

impl Carrier {
    pub async fn new(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, way: Way) -> Self {
        let io: Box<dyn Io> = Box::new(io);
        let role = match way {
            Way::Lines => {
                let (reader, writer) = tokio::io::split(io);
                return Self(Kind::Lines {
                    reader: BufReader::new(reader),
                    writer,
                    line: Vec::new(),
                });
            }
            Way::WebSocketServer => Role::Server,
            Way::WebSocketClient => Role::Client,
        };
        let socket = WebSocketStream::from_raw_socket(io, role, None).await;
        Self(Kind::WebSocket(Box::new(socket)))
    }

    /// What was read of a line stays when this is dropped.
    pub(super) async fn receive(&mut self) -> Received {
        match &mut self.0 {
            Kind::Lines { reader, line, .. } => match reader.read_until(b'\n', line).await {
                Ok(0) | Err(_) => Received::End,
                Ok(_) => {
                    let mut line = std::mem::take(line);
                    if line.pop() != Some(b'\n') {
                        return Received::End;
                    }
                    Received::Frame(line)
                }
            },
            Kind::WebSocket(socket) => loop {
                match socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Received::Frame(text.as_bytes().to_vec());
                    }
                    Some(Ok(Message::Close(close))) => {
                        return Received::Closed(Close {
                            code: close.as_ref().map_or(1005, |close| close.code.into()),
                            reason: close.map_or_else(String::new, |c| c.reason.to_string()),
                        });
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Received::End,
                }
            },
        }
    }

    /// Bytes as they are, good or bad.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Kind::Lines { writer, .. } => {
                let line = [bytes, b"\n"].concat();
                writer.write_all(&line).await?;
                writer.flush().await
            }
            Kind::WebSocket(socket) => {
                let text = Utf8Bytes::try_from(bytes.to_vec()).map_err(io::Error::other)?;
                let sent = socket.send(Message::Text(text)).await;
                sent.map_err(io::Error::other)
            }
        }
    }

    pub(super) async fn close(&mut self, term: u64, close: Close) {
        match &mut self.0 {
            Kind::Lines { .. } => {
                let last = HubFrame::new(term, FromHub::Close(close));
                let _ = self.send(&wire::link::write(&last)).await;
            }
            Kind::WebSocket(socket) => {
                let close = CloseFrame {
                    code: close.code.into(),
                    reason: close.reason.into(),
                };
                let _ = socket.send(Message::Close(Some(close))).await;
            }
        }
    }
}
