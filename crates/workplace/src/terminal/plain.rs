//! Our own protocol for a terminal on a WebSocket. Binary frames are keystrokes and output as they
//! are; text frames are JSON about the terminal. So nothing that is typed is ever taken for an order.
//!
//! ```text
//! client  {"type":"resize","columns":80,"rows":24} · {"type":"close"}
//! server  {"type":"ready","name":…,"pid":…,"columns":…,"rows":…} · {"type":"exit","code":…}
//! ```
//!
//! A binary frame that begins with `ESC c` shows the screen anew.

use std::rc::Rc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use wire::guest::WindowSize;

use super::viewer::Viewer;
use super::{Input, Terminal, Terminals};

/// A paste may be long; more is cut into frames by whoever sends it.
pub(super) const MAX_FRAME: usize = 256 << 10;
/// One who takes nothing for so long is gone.
pub(super) const STUCK: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Order {
    Resize {
        #[serde(alias = "cols")]
        columns: u16,
        rows: u16,
    },
    Close,
}

/// Serves one viewer on a stream that was upgraded to a WebSocket already.
pub async fn serve<S>(terminals: &Terminals, name: &str, size: Option<WindowSize>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut socket = accept(stream).await;
    let opened = terminals.open(name, size).await.and_then(Viewer::new);
    let mut viewer = match opened {
        Ok(viewer) => viewer,
        Err(error) => return refuse(&mut socket, &error.to_string()).await,
    };
    let terminal = Rc::clone(&viewer.terminal);
    let mut waiting = size.and_then(|size| terminal.resized(size));
    let info = terminal.info();
    let ready = json!({
        "type": "ready",
        "name": info.name,
        "pid": info.pid,
        "columns": info.columns,
        "rows": info.rows,
    });
    if !send(&mut socket, Message::text(ready.to_string())).await {
        return;
    }
    loop {
        tokio::select! {
            shown = viewer.next() => match shown {
                Some(bytes) => {
                    if !send(&mut socket, Message::binary(bytes)).await {
                        return;
                    }
                }
                None => return farewell(&mut socket, &terminal).await,
            },
            () = terminal.deliver(&mut waiting), if waiting.is_some() => {}
            // While the shell takes no more, nothing more is taken for it.
            message = socket.next(), if waiting.is_none() => match message {
                Some(Ok(Message::Binary(keys))) if !keys.is_empty() => {
                    terminals.notice(&terminal, &keys);
                    waiting = Some(Input::Keys(keys.into()));
                }
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(Order::Resize { columns, rows }) => {
                        waiting = terminal.resized(WindowSize { rows, columns });
                    }
                    Ok(Order::Close) => terminal.close.cancel(),
                    // From a newer client.
                    Err(_) => {}
                },
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
}

pub(super) async fn accept<S>(stream: S) -> WebSocketStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(8 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MAX_FRAME)
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME));
    WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await
}

/// Whether it went through.
pub(super) async fn send<S>(socket: &mut WebSocketStream<S>, message: Message) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    matches!(
        tokio::time::timeout(STUCK, socket.send(message)).await,
        Ok(Ok(()))
    )
}

pub(super) async fn refuse<S>(socket: &mut WebSocketStream<S>, reason: &str)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    close(socket, CloseCode::Error, reason).await;
}

pub(super) async fn close<S>(socket: &mut WebSocketStream<S>, code: CloseCode, reason: &str)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // A control frame holds 125 bytes, two of them the code.
    let mut end = reason.len().min(120);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = CloseFrame {
        code,
        reason: reason[..end].into(),
    };
    let _ = tokio::time::timeout(STUCK, socket.close(Some(frame))).await;
}

async fn farewell<S>(socket: &mut WebSocketStream<S>, terminal: &Terminal)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let code = terminal.exited.borrow().map(|exited| exited.code);
    let exit = json!({"type": "exit", "code": code});
    if send(socket, Message::text(exit.to_string())).await {
        close(socket, CloseCode::Normal, "the shell ended").await;
    }
}
