//! The way in at a sandbox's ports: what opens them, and one request at a time.

use anyhow::{Context as _, bail};
use model::{Clock as _, SystemClock};
use provider::{Provider as _, SandboxId};
use provider_local::Local;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wire::keys::token::{Audience, Claims};
use wire::keys::{Key, Purpose, devtools_bearer};

use super::SESSION;

const USER: &str = "bench";
/// Of an answer; those asked for here are short.
const MOST: u64 = 1 << 20;

/// What lets in at the gateway.
pub(super) fn gateway_token(local: &Local, id: SandboxId) -> anyhow::Result<String> {
    let secret = secret(local, id)?;
    let key = Key::derive(&secret, Purpose::Token).context("the secret is empty")?;
    let now = u64::try_from(SystemClock.now().as_second())?;
    Ok(Claims::new(USER, SESSION, Audience::Gateway, now).sign(&key))
}

/// What lets in at the development tools' port.
pub(super) fn tools_token(local: &Local, id: SandboxId) -> anyhow::Result<String> {
    devtools_bearer(&secret(local, id)?).context("the secret is empty")
}

fn secret(local: &Local, id: SandboxId) -> anyhow::Result<String> {
    let secret = local.workplace_secret(id)?;
    let secret = secret.with_context(|| format!("sandbox {id} is no workplace"))?;
    Ok(secret.expose().to_owned())
}

/// An answer, whole: its head and its body as they came.
pub(super) struct Answer(String);

impl Answer {
    pub(super) fn is_ok(&self) -> bool {
        self.0.starts_with("HTTP/1.1 200 ")
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    pub(super) fn checked(self) -> anyhow::Result<Self> {
        if !self.is_ok() {
            let first: String = self.0.chars().take(200).collect();
            bail!("not what was asked for: {first}");
        }
        Ok(self)
    }
}

/// `line` is such as `GET /health`, `headers` end with a line's end each.
pub(super) async fn ask(
    local: &Local,
    id: SandboxId,
    port: u16,
    line: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<Answer> {
    let stream = local.dial(id, port).await?;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    );
    let (reader, mut writer) = tokio::io::split(stream);
    writer.write_all(request.as_bytes()).await?;
    let (mut answer, mut reader) = (Vec::new(), reader.take(MOST));
    // Not everybody closes when asked to.
    while !is_whole(&answer) && reader.read_buf(&mut answer).await? > 0 {}
    Ok(Answer(String::from_utf8_lossy(&answer).into_owned()))
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head = head.to_ascii_lowercase();
    let told = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    match told.map(|length| length.trim().parse::<usize>()) {
        Some(Ok(length)) => body.len() >= length,
        _ => head.contains("transfer-encoding: chunked") && body.ends_with("0\r\n\r\n"),
    }
}
