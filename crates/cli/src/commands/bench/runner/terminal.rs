use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{SinkExt as _, StreamExt as _};
use provider::{Provider as _, Stream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use wire::workplace::GATEWAY_PORT;

use super::super::stats::Samples;
use super::entry::gateway_token;
use super::{Ground, PATIENCE};
use crate::error::CommandError;

const NAME: &str = "terminal: a key and its echo";
/// A shell that has said nothing for so long waits for keys.
const QUIET: Duration = Duration::from_millis(500);
/// A letter, and what takes it away again, so that the line never ends.
const KEYS: [(u8, u8); 2] = [(b'x', b'x'), (0x7f, 0x08)];

/// Through the gateway into a login shell and back, one key at a time.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let (id, mut hub) = ground.greeted().await?;
    let keys = ground.runs.keys;
    // A WebSocket is too large to be carried about.
    let typing = Box::pin(async {
        let token = gateway_token(&ground.local, id)?;
        let stream = ground.local.dial(id, GATEWAY_PORT).await?;
        let mut shell = Shell::open(stream, &token).await?;
        shell.settle().await?;
        let mut samples = Samples::default();
        for (key, echo) in KEYS.into_iter().cycle().take(keys) {
            samples.add(shell.press(key, echo).await?);
        }
        anyhow::Ok(samples)
    });
    let samples = ground
        .wait("the echo", PATIENCE, async {
            tokio::select! {
                samples = typing => Ok(samples?),
                ended = hub.stay() => Err(ended.err().unwrap_or_else(|| {
                    CommandError::failed("the link ended")
                })),
            }
        })
        .await?;
    ground.local.remove(id).await?;
    if let Some(summary) = ground.report.times(NAME, &samples) {
        ground
            .report
            .goal(NAME, "p50_ms", summary.p50_ms, 2.0, "ms");
    }
    Ok(())
}

/// A terminal as ttyd's page has it.
struct Shell(WebSocketStream<Box<dyn Stream>>);

impl Shell {
    async fn open(stream: Box<dyn Stream>, token: &str) -> anyhow::Result<Self> {
        let mut request = "ws://localhost/ttyd/ws".into_client_request()?;
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", HeaderValue::from_static("tty"));
        let bearer = HeaderValue::from_str(&format!("Bearer {token}"))?;
        headers.insert("authorization", bearer);
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        let greeting = r#"{"AuthToken":"","columns":80,"rows":24}"#;
        socket.send(Message::text(greeting)).await?;
        Ok(Self(socket))
    }

    /// Until the shell has started and waits.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.0
            .send(Message::binary(&b"0echo $((40+2))y\r"[..]))
            .await?;
        let mut screen = Vec::new();
        while !screen.windows(3).any(|three| three == b"42y") {
            screen.extend(self.output().await?);
        }
        while let Ok(shown) = tokio::time::timeout(QUIET, self.output()).await {
            shown?;
        }
        Ok(())
    }

    async fn press(&mut self, key: u8, echo: u8) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.0.send(Message::binary(vec![b'0', key])).await?;
        while !self.output().await?.contains(&echo) {}
        Ok(begun.elapsed())
    }

    async fn output(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            let message = self.0.next().await.context("the terminal ended")??;
            if let Message::Binary(bytes) = message
                && let Some((b'0', shown)) = bytes.split_first()
            {
                return Ok(shown.to_vec());
            }
        }
    }
}
