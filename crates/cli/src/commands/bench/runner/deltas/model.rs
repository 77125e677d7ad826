//! A model that counts. Its name says how far and how fast.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

pub(super) const PROVIDER: &str = "bench";
/// Of a request; an agent's first holds its whole instructions.
const MOST: u64 = 8 << 20;

/// What it says: `10000x1000` are ten thousand deltas, a thousand of them a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Speech {
    pub(super) deltas: u32,
    pub(super) per_second: u32,
}

impl Speech {
    /// As prompts name it.
    pub(super) fn model(self) -> String {
        format!("{PROVIDER}/{self}")
    }

    /// Every piece differs, so that one that is missing or doubled shows.
    pub(super) fn text(self) -> String {
        (0..self.deltas).map(piece).collect()
    }

    pub(super) fn lasts(self) -> Duration {
        self.due(self.deltas)
    }

    /// When a piece is said, after the first.
    fn due(self, number: u32) -> Duration {
        Duration::from_secs(1) * number / self.per_second.max(1)
    }
}

impl fmt::Display for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.deltas, self.per_second)
    }
}

impl FromStr for Speech {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (deltas, per_second) = text
            .split_once('x')
            .ok_or_else(|| anyhow::anyhow!("{text} is no model here"))?;
        Ok(Self {
            deltas: deltas.parse()?,
            per_second: per_second.parse()?,
        })
    }
}

/// No piece ends with a space: the agent takes it off the end of an answer.
fn piece(number: u32) -> String {
    if number == 0 {
        "0".to_owned()
    } else {
        format!(" {number}")
    }
}

/// Answers chat completions, streamed, to whoever comes.
pub(super) async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            // An agent that goes has heard enough.
            let _ = answer(stream).await;
        });
    }
}

async fn answer(stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader.take(MOST));
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).await? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).await?;
    let request: Value = serde_json::from_slice(&body)?;
    let speech: Speech = request["model"].as_str().unwrap_or_default().parse()?;

    writer
        .write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )
        .await?;
    let begun = Instant::now();
    for number in 0..speech.deltas {
        sleep_until(begun + speech.due(number)).await;
        let event = event(&json!({ "content": piece(number) }), None);
        writer.write_all(event.as_bytes()).await?;
    }
    let end = event(&json!({}), Some("stop"));
    writer.write_all(end.as_bytes()).await?;
    writer.write_all(b"data: [DONE]\n\n").await?;
    Ok(())
}

fn event(delta: &Value, finish: Option<&str>) -> String {
    let event = json!({
        "id": "bench",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "bench",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
    });
    format!("data: {event}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_name_says_what_it_says() {
        let speech = Speech {
            deltas: 3,
            per_second: 1000,
        };
        assert_eq!(speech.model(), "bench/3x1000");
        assert_eq!("3x1000".parse::<Speech>().unwrap(), speech);
        assert_eq!(speech.text(), "0 1 2");
        assert!("three".parse::<Speech>().is_err());
    }
}
