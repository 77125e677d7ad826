use std::collections::BTreeMap;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use model::{Id, Session};
use serde_json::Value;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::world::{Io, World, watched};

/// A client by the book: frames in order and offsets are all that it needs.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<Box<dyn Io>>,
    pub(crate) frames: Vec<Value>,
    pub(crate) text: Text,
    /// With which it was closed.
    pub(crate) closed: Option<u16>,
}

/// Text as it grows.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Text(pub(crate) BTreeMap<(String, String), String>);

impl Text {
    pub(crate) fn apply(&mut self, frame: &Value) {
        let key = || {
            let field = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
            (field("message_id"), field("part_id"))
        };
        match frame["type"].as_str().unwrap_or_default() {
            "part" => {
                let text = frame["content"]["text"].as_str().unwrap_or_default();
                self.0.insert(key(), text.to_owned());
            }
            "part.delta" => {
                let held = self.0.entry(key()).or_default();
                if frame["offset"].as_u64() == Some(held.len() as u64) {
                    held.push_str(frame["text"].as_str().unwrap_or_default());
                }
            }
            "part.removed" => drop(self.0.remove(&key())),
            _ => {}
        }
    }
}

impl Client {
    pub(crate) async fn connect(
        world: &mut World,
        session: Id<Session>,
        since: Option<u64>,
    ) -> Self {
        // Now by one way, now by the other.
        world.connected += 1;
        if world.connected.is_multiple_of(2) {
            Self::over(world.wire(watched(session, since), 64 << 10).await).await
        } else {
            Self::over(world.tcp(watched(session, since), 64 << 10).await).await
        }
    }

    pub(crate) async fn over(stream: impl Io + 'static) -> Self {
        let stream: Box<dyn Io> = Box::new(stream);
        Self {
            socket: WebSocketStream::from_raw_socket(stream, Role::Client, None).await,
            frames: Vec::new(),
            text: Text::default(),
            closed: None,
        }
    }

    pub(crate) async fn say(&mut self, frame: Value) {
        let message = Message::text(frame.to_string());
        self.socket.send(message).await.unwrap();
    }

    /// The next frame; none when it was closed.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await? {
                Ok(Message::Text(text)) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    self.text.apply(&frame);
                    self.frames.push(frame.clone());
                    return Some(frame);
                }
                Ok(Message::Close(close)) => {
                    self.closed = close.map(|close| close.code.into());
                    return None;
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    pub(crate) async fn hear_until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let heard = self.hear().await.expect("the socket was closed");
                if is_it(&heard) {
                    return heard;
                }
            }
        };
        match timeout(Duration::from_secs(20), waiting).await {
            Ok(heard) => heard,
            Err(late) => panic!(
                "not heard, {late}; the last were {:?}",
                self.frames.iter().rev().take(5).collect::<Vec<_>>()
            ),
        }
    }

    pub(crate) async fn hear_type(&mut self, kind: &str) -> Value {
        self.hear_until(|frame| frame["type"] == kind).await
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        let numbers = self.frames.iter().filter_map(|frame| frame["seq"].as_u64());
        let is_init = |frame: &&Value| frame["type"] == "init";
        let inits = self.frames.iter().filter(is_init).count();
        numbers.skip(inits).collect()
    }
}
