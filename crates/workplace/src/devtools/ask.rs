//! What comes in: a query, a body, both bounded.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::answer::Failure;

const MAX_JSON: usize = 1 << 20;
/// One who sends nothing for so long is gone.
const STUCK: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) request: Request<Incoming>,
}

impl Ask {
    /// Of the query; the last one counts.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let query = self.request.uri().query()?;
        let pairs = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .rev()
            .find(|(key, _)| decode(key) == name)
            .map(|(_, value)| decode(value))
    }

    pub(super) fn required(&self, name: &str) -> Result<String, Failure> {
        self.parameter(name)
            .ok_or_else(|| Failure::bad(format!("`{name}` is missing from the query")))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        self.parameter(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| Failure::bad(format!("`{name}` is not a number")))
            })
            .transpose()
    }

    pub(super) async fn json<T: DeserializeOwned>(self) -> Result<T, Failure> {
        let body = self.body(MAX_JSON).await?;
        let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
        serde_json::from_slice(text).map_err(|error| Failure::bad(error.to_string()))
    }

    async fn body(self, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        let mut pieces = self.pieces();
        while let Some(piece) = pieces.next().await? {
            if body.len() + piece.len() > limit {
                return Err(Failure::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "too_long",
                    format!("the body is longer than {limit} bytes"),
                ));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    pub(super) fn pieces(self) -> Pieces {
        Pieces(self.request.into_body())
    }
}

/// A body, as it comes.
#[derive(Debug)]
pub(super) struct Pieces(Incoming);

impl Pieces {
    /// `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = match timeout(STUCK, self.0.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(Failure::bad("the body broke off")),
                Err(_) => {
                    let message = "the body did not go on";
                    return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "stuck", message));
                }
            };
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
    }
}

/// `%41` and `+`. What is no text afterwards is no name of ours.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match (bytes[at], code) {
            (b'%', Some(code)) => {
                decoded.push(code);
                at += 3;
                continue;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(decode("a%2Fb+c%20d"), "a/b c d");
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("%ff"), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_fail(text: String) {
            decode(&text);
        }
    }
}
