//! What goes on inside a session's sandbox, by its dev tools.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use model::session::Place;
use sessions::Handle;
use wire::keys::devtools_bearer;
use wire::workplace::DEVTOOLS_PORT;

use crate::app::App;
use crate::problem::{Answer, Problem};

/// For the tools to begin an answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// The longest answer that is read whole.
const LONGEST: usize = 4 << 20;

/// One request of the tools in the sandbox that serves a session, which is woken for it.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    app: &'a App,
    provider: String,
    place: Place,
}

impl<'a> Inside<'a> {
    pub(crate) async fn of(app: &'a App, hub: &Handle) -> Answer<Self> {
        let place = hub.ensure_ready().await?;
        let provider = hub.provider().to_owned();
        Ok(Self {
            app,
            provider,
            place,
        })
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn provider(&self) -> Answer<&std::sync::Arc<dyn provider::Provider>> {
        self.app.provider(&self.provider)
    }

    /// The answer as it is. `path` begins with `/api/`, and is encoded already.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Answer<Response<Incoming>> {
        let provider = self.provider()?;
        let sandbox = self.place.sandbox;
        let edge = provider.edge(sandbox).await?;
        let edge = edge.ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_IMPLEMENTED,
                "unsupported",
                "this session's sandbox has no tools inside",
            )
        })?;
        let bearer = devtools_bearer(edge.secret.expose())
            .ok_or_else(|| Problem::internal("a sandbox without a secret"))?;
        let stream = provider.dial(sandbox, DEVTOOLS_PORT).await?;
        let unreachable = |error: hyper::Error| {
            tracing::info!(%sandbox, %error, "the tools inside do not answer");
            Problem::unavailable("the tools inside the sandbox do not answer: try again")
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(unreachable)?;
        // It ends with the answer's body.
        self.app.tasks().spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, format!("Bearer {bearer}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_| Problem::invalid("the path is no path"))?;
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
        let answer = answer
            .map_err(|_| Problem::unavailable("the tools inside take too long: try again"))?;
        answer.map_err(unreachable)
    }

    /// Its body whole, or why there is none, in the tools' own words.
    pub(crate) async fn read(&self, method: Method, path: &str, body: Body) -> Answer<Vec<u8>> {
        let answer = self.ask(method, path, body).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST).collect().await;
        let body = body
            .map_err(|_| Problem::too_large("what the tools inside answer is too long"))?
            .to_bytes();
        if status.is_success() {
            return Ok(body.to_vec());
        }
        Err(refusal(status, &body))
    }

    pub(crate) async fn json<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Answer<T> {
        let body = self.read(method, path, body).await?;
        // What comes from inside may be anything.
        serde_json::from_slice(&body).map_err(|_| {
            Problem::new(
                StatusCode::BAD_GATEWAY,
                "inside-unreadable",
                "what the tools inside answer cannot be read",
            )
        })
    }
}

/// As the tools said it, with a status that means the same here.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> Problem {
    #[derive(serde::Deserialize)]
    struct Refused {
        error: String,
    }
    let words = serde_json::from_slice::<Refused>(body);
    let words = words.map_or_else(|_| "the tools inside refuse".to_owned(), |one| one.error);
    let words: String = words
        .chars()
        .filter(|c| !c.is_control())
        .take(500)
        .collect();
    match status {
        StatusCode::NOT_FOUND => Problem::new(status, "not-found", words),
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Problem::invalid(words),
        StatusCode::CONFLICT => Problem::conflict("inside-conflict", words),
        StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(words),
        StatusCode::FORBIDDEN => Problem::forbidden(words),
        _ => Problem::new(StatusCode::BAD_GATEWAY, "inside-failed", words),
    }
}

/// For a value in a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.extend(format!("%{byte:02X}").chars()),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_query_is_one_value() {
        assert_eq!(encode("a b&c=d/e.rs"), "a%20b%26c%3Dd/e.rs");
        assert_eq!(encode("ü\n"), "%C3%BC%0A");
    }
}
