//! ttyd's sub-protocol, so that its page and whatever else speaks it can be used. The first byte of
//! a message says what it is.
//!
//! ```text
//! client  {"AuthToken":"","columns":80,"rows":24} · '0' keys · '1' {"columns":…,"rows":…}
//!         · '2' pause · '3' resume
//! server  '0' output · '1' title · '2' preferences
//! ```
//!
//! Whoever gets here was let in already; its token is not looked at.

use std::rc::Rc;

use futures::StreamExt as _;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use wire::guest::WindowSize;

use super::plain::{STUCK, accept, close, refuse, send};
use super::viewer::Viewer;
use super::{Input, Terminals};

/// What both sides name when they upgrade.
pub const SUBPROTOCOL: &str = "tty";

const OUTPUT: u8 = b'0';
const TITLE: u8 = b'1';
const PREFERENCES: u8 = b'2';

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Keys(Vec<u8>),
    Size(WindowSize),
    Pause,
    Resume,
    Nothing,
}

#[derive(Debug, Deserialize)]
struct Size {
    columns: u16,
    rows: u16,
}

/// Serves one viewer on a stream that was upgraded to a WebSocket already.
pub async fn serve<S>(terminals: &Terminals, name: &str, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut socket = accept(stream).await;
    let Ok(Some(size)) = tokio::time::timeout(STUCK, greeting(&mut socket)).await else {
        return;
    };
    let opened = terminals.open(name, size).await.and_then(Viewer::new);
    let mut viewer = match opened {
        Ok(viewer) => viewer,
        Err(error) => return refuse(&mut socket, &error.to_string()).await,
    };
    let title = format!("{name} ({})", viewer.terminal.info().pid);
    for (kind, text) in [(TITLE, title.as_str()), (PREFERENCES, "{}")] {
        if !send(&mut socket, message(kind, text.as_bytes())).await {
            return;
        }
    }
    let terminal = Rc::clone(&viewer.terminal);
    let mut waiting = size.and_then(|size| terminal.resized(size));
    let mut paused = false;
    loop {
        tokio::select! {
            shown = viewer.next(), if !paused => match shown {
                Some(bytes) => {
                    if !send(&mut socket, message(OUTPUT, &bytes)).await {
                        return;
                    }
                }
                None => return close(&mut socket, CloseCode::Normal, "the shell ended").await,
            },
            () = terminal.deliver(&mut waiting), if waiting.is_some() => {}
            // While the shell takes no more, nothing more is taken for it.
            received = next(&mut socket), if waiting.is_none() => match received {
                None => return,
                Some(Said::Keys(keys)) => {
                    terminals.notice(&terminal, &keys);
                    waiting = Some(Input::Keys(keys));
                }
                Some(Said::Size(size)) => waiting = terminal.resized(size),
                Some(Said::Pause) => {
                    paused = true;
                    viewer.pause();
                }
                Some(Said::Resume) => paused = false,
                Some(Said::Nothing) => {}
            },
        }
    }
}

/// The first message; `None` when the client left.
async fn greeting<S>(socket: &mut WebSocketStream<S>) -> Option<Option<WindowSize>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return Some(window(text.as_bytes())),
            Ok(Message::Binary(bytes)) => return Some(window(&bytes)),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// `None` at the end.
async fn next<S>(socket: &mut WebSocketStream<S>) -> Option<Said>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match socket.next().await? {
        Ok(Message::Text(text)) => Some(parse(text.as_bytes())),
        Ok(Message::Binary(bytes)) => Some(parse(&bytes)),
        Ok(Message::Close(_)) | Err(_) => None,
        Ok(_) => Some(Said::Nothing),
    }
}

fn parse(message: &[u8]) -> Said {
    match message.split_first() {
        Some((b'0', keys)) if !keys.is_empty() => Said::Keys(keys.to_vec()),
        Some((b'1', size)) => window(size).map_or(Said::Nothing, Said::Size),
        Some((b'2', _)) => Said::Pause,
        Some((b'3', _)) => Said::Resume,
        _ => Said::Nothing,
    }
}

fn window(json: &[u8]) -> Option<WindowSize> {
    let Size { columns, rows } = serde_json::from_slice(json).ok()?;
    Some(WindowSize { rows, columns })
}

fn message(kind: u8, payload: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(payload.len() + 1);
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    Message::binary(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_client_says_is_told_by_its_first_byte() {
        assert_eq!(parse(b"0ls\xff\n"), Said::Keys(b"ls\xff\n".to_vec()));
        let size = WindowSize {
            rows: 40,
            columns: 120,
        };
        assert_eq!(parse(br#"1{"columns":120,"rows":40}"#), Said::Size(size));
        assert_eq!(parse(b"1{}"), Said::Nothing);
        assert_eq!((parse(b"2"), parse(b"3")), (Said::Pause, Said::Resume));
        assert_eq!(
            parse(br#"0{"columns":1,"rows":1}"#),
            Said::Keys(br#"{"columns":1,"rows":1}"#.to_vec())
        );
    }

    proptest! {
        #[test]
        fn no_message_makes_it_fail(bytes: Vec<u8>) {
            parse(&bytes);
        }
    }
}
