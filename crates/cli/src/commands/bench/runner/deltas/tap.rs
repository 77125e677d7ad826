//! OpenCode's own stream of events, listened to beside the workplace.

use std::time::Instant;

use anyhow::{Context as _, bail};
use bytes::{Buf as _, Bytes};
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use provider::{Provider as _, SandboxId};
use provider_local::Local;
use serde::Deserialize;
use tokio::task::JoinSet;
use wire::workplace::AGENT_PORT;

use super::answer::Reached;

/// Of an event that is being read.
const MOST: usize = 16 << 20;

pub(super) struct Tap {
    body: Incoming,
    read: Vec<u8>,
    /// When the last of it came.
    at: Instant,
    _connection: JoinSet<()>,
}

#[derive(Deserialize)]
struct Event {
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    r#type: String,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    field: Option<String>,
    delta: Option<String>,
}

impl Tap {
    /// From here on nothing is missed.
    pub(super) async fn open(
        local: &Local,
        id: SandboxId,
        authorization: &str,
    ) -> anyhow::Result<Self> {
        let stream = TokioIo::new(local.dial(id, AGENT_PORT).await?);
        let (mut requests, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Its end is the body's.
            let _ = connection.await;
        });
        let (name, value) = authorization
            .trim_end()
            .split_once(": ")
            .context("a header has a name and a value")?;
        let request = Request::get("/global/event")
            .header("host", "localhost")
            .header(name, value)
            .body(Empty::<Bytes>::new())?;
        let answer = requests.send_request(request).await?;
        if !answer.status().is_success() {
            bail!("OpenCode answers {}", answer.status());
        }
        let mut tap = Self {
            body: answer.into_body(),
            read: Vec::new(),
            at: Instant::now(),
            _connection: task,
        };
        while tap.next().await?.payload.r#type != "server.connected" {}
        Ok(tap)
    }

    /// How far the text has come with each delta, until it is this long.
    pub(super) async fn until(&mut self, length: usize) -> anyhow::Result<Vec<Reached>> {
        let mut reached = Vec::new();
        let mut end = 0;
        while end < length {
            let event = self.next().await?;
            let Properties { field, delta } = event.payload.properties;
            if let (true, Some("text"), Some(delta)) = (
                event.payload.r#type == "message.part.delta",
                field.as_deref(),
                delta,
            ) {
                end += delta.len();
                reached.push((end, self.at));
            }
        }
        Ok(reached)
    }

    async fn next(&mut self) -> anyhow::Result<Event> {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data:") {
                    return Ok(serde_json::from_slice(data)?);
                }
            }
            let frame = self
                .body
                .frame()
                .await
                .context("OpenCode's stream ended")??;
            self.at = Instant::now();
            if let Ok(data) = frame.into_data() {
                if self.read.len() + data.remaining() > MOST {
                    bail!("an event of OpenCode's is too long");
                }
                self.read.extend_from_slice(&data);
            }
        }
    }
}
