//! One connection of the link, whichever way its frames travel: lines at the link door, WebSocket
//! messages elsewhere. It knows what a frame is, and neither who speaks nor what is said.

#![forbid(unsafe_code)]

use std::fmt;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use wire::link::{Close, MAX_LINK_FRAME};

/// Anything that bytes go through both ways.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Frames that are read before somebody takes them. Each may be as long as a frame can be.
const READ_AHEAD: usize = 4;
/// How much is read at a time.
const CHUNK: usize = 16 << 10;
/// Over a WebSocket a frame that is too long can be refused up to this length; a longer one ends
/// the connection.
const MAX_MESSAGE: usize = 4 * MAX_LINK_FRAME;

pub struct Connection {
    incoming: mpsc::Receiver<Incoming>,
    pub outgoing: mpsc::Sender<Outgoing>,
    /// Moves the bytes. Polled by whoever listens, so that nobody has to own a task.
    carrying: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    Frame(Bytes),
    TooLong(usize),
    Closed(Close),
}

#[derive(Debug)]
pub enum Outgoing {
    /// Written in one go.
    Frames(Vec<Bytes>),
    /// Nothing follows. Where there are only lines, `line` says it.
    Close { close: Close, line: Bytes },
}

impl Connection {
    /// Each frame a line.
    pub fn lines(io: impl Io + 'static) -> Self {
        Self::carried(|incoming, outgoing| {
            let (reader, writer) = tokio::io::split(io);
            Box::pin(async move {
                let mut reading = std::pin::pin!(read_lines(reader, incoming));
                tokio::select! {
                    () = &mut reading => {}
                    said = write_lines(writer, outgoing) => if said.is_ok() { reading.await },
                }
            })
        })
    }

    /// Each frame a text message. The upgrade is done; `read` is what came after it already.
    pub async fn upgraded(io: impl Io + 'static, read: Vec<u8>, role: Role) -> Self {
        let io: Box<dyn Io> = Box::new(io);
        let config = Some(web_socket_config());
        Self::web_socket(WebSocketStream::from_partially_read(io, read, role, config).await)
    }

    pub fn web_socket<S: Io + 'static>(socket: WebSocketStream<S>) -> Self {
        Self::carried(|incoming, outgoing| {
            let (writer, reader) = socket.split();
            Box::pin(async move {
                let mut reading = std::pin::pin!(read_messages(reader, incoming));
                tokio::select! {
                    () = &mut reading => {}
                    said = write_messages(writer, outgoing) => if said.is_ok() { reading.await },
                }
            })
        })
    }

    fn carried(
        carry: impl FnOnce(
            mpsc::Sender<Incoming>,
            mpsc::Receiver<Outgoing>,
        ) -> Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> Self {
        let (to_us, incoming) = mpsc::channel(READ_AHEAD);
        // One batch is on its way while the next is made.
        let (outgoing, from_us) = mpsc::channel(1);
        Self {
            incoming,
            outgoing,
            carrying: Some(carry(to_us, from_us)),
        }
    }

    /// The next thing that comes; `None` at the end. Moves outgoing bytes meanwhile.
    pub async fn hear(&mut self) -> Option<Incoming> {
        loop {
            let Some(carrying) = &mut self.carrying else {
                return self.incoming.recv().await;
            };
            tokio::select! {
                biased;
                heard = self.incoming.recv() => return heard,
                () = carrying => self.carrying = None,
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

pub fn web_socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(CHUNK)
        .write_buffer_size(CHUNK)
        .max_write_buffer_size(8 * MAX_LINK_FRAME)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

struct Broken;

async fn read_lines(mut reader: impl AsyncRead + Unpin, to: mpsc::Sender<Incoming>) {
    let mut buffer = BytesMut::new();
    let mut searched = 0;
    // Of a line that is too long: how much of it was thrown away.
    let mut skipped = 0;
    loop {
        if let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
            let mut line = buffer.split_to(searched + end + 1);
            line.truncate(searched + end);
            searched = 0;
            let length = skipped + line.len();
            skipped = 0;
            let heard = if length > MAX_LINK_FRAME {
                Incoming::TooLong(length)
            } else {
                Incoming::Frame(line.freeze())
            };
            if to.send(heard).await.is_err() {
                return;
            }
            continue;
        }
        searched = buffer.len();
        if buffer.len() > MAX_LINK_FRAME {
            skipped += buffer.len();
            buffer.clear();
            searched = 0;
        }
        buffer.reserve(CHUNK);
        match reader.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// `Ok` when we said our last.
async fn write_lines(
    mut writer: impl AsyncWrite + Unpin,
    mut from: mpsc::Receiver<Outgoing>,
) -> Result<(), Broken> {
    let mut bytes = Vec::new();
    while let Some(outgoing) = from.recv().await {
        bytes.clear();
        let frames = match &outgoing {
            Outgoing::Frames(frames) => frames.as_slice(),
            Outgoing::Close { line, .. } => std::slice::from_ref(line),
        };
        for frame in frames {
            bytes.extend_from_slice(frame);
            bytes.push(b'\n');
        }
        writer.write_all(&bytes).await.map_err(|_| Broken)?;
        writer.flush().await.map_err(|_| Broken)?;
        if matches!(outgoing, Outgoing::Close { .. }) {
            return writer.shutdown().await.map_err(|_| Broken);
        }
    }
    Err(Broken)
}

async fn read_messages<S: Io>(
    mut reader: SplitStream<WebSocketStream<S>>,
    to: mpsc::Sender<Incoming>,
) {
    while let Some(Ok(message)) = reader.next().await {
        let heard = match message {
            Message::Text(text) if text.len() > MAX_LINK_FRAME => Incoming::TooLong(text.len()),
            Message::Text(text) => Incoming::Frame(text.into()),
            Message::Binary(bytes) if bytes.len() > MAX_LINK_FRAME => {
                Incoming::TooLong(bytes.len())
            }
            Message::Binary(bytes) => Incoming::Frame(bytes),
            Message::Close(close) => Incoming::Closed(Close {
                code: close.as_ref().map_or(1005, |close| close.code.into()),
                reason: close.map_or_else(String::new, |close| close.reason.to_string()),
            }),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        if to.send(heard).await.is_err() {
            return;
        }
    }
}

async fn write_messages<S: Io>(
    mut writer: SplitSink<WebSocketStream<S>, Message>,
    mut from: mpsc::Receiver<Outgoing>,
) -> Result<(), Broken> {
    while let Some(outgoing) = from.recv().await {
        match outgoing {
            Outgoing::Frames(frames) => {
                for frame in frames {
                    let text = Utf8Bytes::try_from(frame).map_err(|_| Broken)?;
                    writer.feed(Message::Text(text)).await.map_err(|_| Broken)?;
                }
                writer.flush().await.map_err(|_| Broken)?;
            }
            Outgoing::Close { close, .. } => {
                let close = CloseFrame {
                    code: close.code.into(),
                    reason: close.reason.into(),
                };
                let last = Message::Close(Some(close));
                return writer.send(last).await.map_err(|_| Broken);
            }
        }
    }
    Err(Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_heard() {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut connection = Connection::lines(ours);
        let talking = async {
            let long = vec![b'x'; MAX_LINK_FRAME + 77];
            theirs.write_all(b"{}\n").await.unwrap();
            theirs.write_all(&long).await.unwrap();
            theirs.write_all(b"\n[]\n").await.unwrap();
            theirs
        };
        let listening = async {
            let mut heard = Vec::new();
            for _ in 0..3 {
                heard.push(connection.hear().await.unwrap());
            }
            heard
        };
        let (_theirs, heard) = tokio::join!(talking, listening);
        assert_eq!(
            heard,
            [
                Incoming::Frame("{}".into()),
                Incoming::TooLong(MAX_LINK_FRAME + 77),
                Incoming::Frame("[]".into()),
            ]
        );
    }
}
