//! Two byte streams made one: what passes is nobody's business but theirs.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Refusal;

/// How long the other side may take to end after one has.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

const PIECE: usize = 16 << 10;

/// Carries bytes both ways until both sides have ended, or neither said anything for so long.
pub(crate) async fn join(
    one: impl AsyncRead + AsyncWrite,
    other: impl AsyncRead + AsyncWrite,
    silence: Duration,
) {
    let (mut from_one, mut to_one) = tokio::io::split(one);
    let (mut from_other, mut to_other) = tokio::io::split(other);
    let heard = Heard::now(silence);
    let mut there = std::pin::pin!(carry(&mut from_one, &mut to_other, &heard));
    let mut back = std::pin::pin!(carry(&mut from_other, &mut to_one, &heard));
    tokio::select! {
        () = &mut there => { let _ = timeout(FAREWELL, back).await; }
        () = &mut back => { let _ = timeout(FAREWELL, there).await; }
    }
}

/// When either side was last heard.
pub(crate) struct Heard {
    last: Mutex<Instant>,
    silence: Duration,
}

impl Heard {
    pub(crate) fn now(silence: Duration) -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            silence,
        }
    }

    fn end(&self) -> Instant {
        *self.last.lock().expect("no holder of this lock panics") + self.silence
    }

    /// Waits as long as the other direction is alive. None where there is nothing more to wait for.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = io::Result<T>>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let end = self.end();
            match timeout_at(end, &mut work).await {
                Ok(done) => {
                    *self.last.lock().expect("no holder of this lock panics") = Instant::now();
                    return done.ok();
                }
                Err(_) if self.end() > end => {}
                Err(_) => return None,
            }
        }
    }
}

async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    heard: &Heard,
) {
    let mut buffer = vec![0; PIECE];
    while let Some(length @ 1..) = heard.wait(from.read(&mut buffer)).await {
        if heard.wait(to.write_all(&buffer[..length])).await.is_none() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// The words of a list, without the space around them.
pub(crate) fn words(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
}

/// Whether the client wants to go on as a WebSocket.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let says = |name: HeaderName, word: &[u8]| {
        let values = headers.get_all(name);
        values
            .iter()
            .flat_map(words)
            .any(|w| w.eq_ignore_ascii_case(word))
    };
    says(header::CONNECTION, b"upgrade") && says(header::UPGRADE, b"websocket")
}

/// For whoever comes to a socket's address without one.
pub(crate) fn not_a_socket() -> Refusal {
    let message = "this address speaks WebSocket, version 13";
    Refusal::new(StatusCode::UPGRADE_REQUIRED, "upgrade-required", message)
}

/// Whether this is a handshake that can be answered.
pub(crate) fn is_handshake(headers: &HeaderMap) -> bool {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).cloned()
    };
    is_upgrade(headers)
        && one(header::SEC_WEBSOCKET_VERSION).is_some_and(|value| value == "13")
        && one(header::SEC_WEBSOCKET_KEY).is_some_and(|value| value.len() == 24)
}

/// What proves to the client that we understood its handshake.
pub(crate) fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
    let digest = Sha1::new()
        .chain_update(key.as_bytes())
        .chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        .finalize();
    HeaderValue::from_str(&STANDARD.encode(digest)).ok()
}

pub(crate) fn put_upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_handshake_is_the_one_of_the_standard() {
        let mut headers = HeaderMap::new();
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
        assert_eq!(accept(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_lives_while_one_side_speaks_and_ends_when_neither_does() {
        let (mut browser, one) = tokio::io::duplex(64);
        let (mut program, other) = tokio::io::duplex(64);
        let minute = Duration::from_mins(1);
        let joined = join(one, other, minute);
        let speaking = async {
            let mut byte = [0];
            for _ in 0..10 {
                tokio::time::sleep(minute * 2 / 3).await;
                program.write_all(b"x").await.unwrap();
                browser.read_exact(&mut byte).await.unwrap();
            }
            assert_eq!(browser.read(&mut byte).await.unwrap(), 0);
        };
        tokio::join!(joined, speaking);
    }
}
