//! What listens in a session's sandbox: its dev tools, its gateway, and whatever people run there.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use model::session::Place;
use provider::{Provider, ProviderError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sessions::{Handle, HubError};
use tokio::time::timeout;
use wire::keys::token::{Audience, Claims};
use wire::keys::{Key, Purpose};
use wire::workplace::DEVTOOLS_PORT;

use crate::Shared;

/// What the dev tools say at most.
const MOST: usize = 4 << 20;

const CONNECT: Duration = Duration::from_secs(10);

/// Of what the tools say, for people.
const LONGEST_WORDS: usize = 500;

/// A session's sandbox, as it is reached from here.
#[derive(Debug, Clone)]
pub struct Inside {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) place: Place,
}

#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    #[error("nothing answers on port {port} of the sandbox: {source}")]
    Dial { port: u16, source: ProviderError },
    #[error("the sandbox has no workplace that lets anybody in")]
    NoEdge,
    #[error("what runs in the sandbox does not speak HTTP")]
    Http(#[from] hyper::Error),
    #[error("what is asked for is no path")]
    Path,
    #[error("the sandbox answered with more than can be read")]
    TooLong,
    #[error("what the tools inside answer cannot be read")]
    Unreadable,
    #[error("the sandbox does not answer: try again")]
    Late,
    /// Why not, in the words of the tools.
    #[error("{message}")]
    Said { status: u16, message: String },
}

impl Shared {
    /// By the provider that the session has its sandboxes from.
    pub(crate) fn inside(&self, handle: &Handle, place: Place) -> Result<Inside, HubError> {
        let name = handle.provider();
        let provider = self.providers.get(name).cloned();
        let provider = provider.ok_or_else(|| HubError::NoProvider(name.to_owned()))?;
        Ok(Inside { provider, place })
    }
}

impl Inside {
    pub fn new(provider: Arc<dyn Provider>, place: Place) -> Self {
        Self { provider, place }
    }

    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }

    pub fn place(&self) -> Place {
        self.place
    }

    pub async fn dial(&self, port: u16) -> Result<Box<dyn provider::Stream>, InsideError> {
        let dialled = self.provider.dial(self.place.sandbox, port);
        let dialled = timeout(CONNECT, dialled)
            .await
            .map_err(|_| InsideError::Late)?;
        dialled.map_err(|source| InsideError::Dial { port, source })
    }

    /// Lets in at the dev tools.
    pub async fn devtools_bearer(&self) -> Result<HeaderValue, InsideError> {
        let secret = self.edge().await?.secret;
        let bearer = wire::keys::devtools_bearer(secret.expose()).ok_or(InsideError::NoEdge)?;
        sensitive(&bearer)
    }

    /// Lets a user in at the sandbox's gateway.
    pub async fn gateway_bearer(&self, user: &str, now: u64) -> Result<HeaderValue, InsideError> {
        let edge = self.edge().await?;
        let key = Key::derive(edge.secret.expose(), Purpose::Token).ok_or(InsideError::NoEdge)?;
        let claims = Claims::new(user, &edge.session, Audience::Gateway, now);
        sensitive(&claims.sign(&key))
    }

    async fn edge(&self) -> Result<provider::Edge, InsideError> {
        let edge = timeout(CONNECT, self.provider.edge(self.place.sandbox))
            .await
            .map_err(|_| InsideError::Late)?;
        edge.ok().flatten().ok_or(InsideError::NoEdge)
    }

    /// Asks the dev tools something. The answer begins within that time, or it is none; one that is
    /// no success is told as such. `path` begins with `/api/`, and is [encoded](encode) already.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
        within: Duration,
    ) -> Result<Response<Carried>, InsideError> {
        let begun = timeout(within, self.begin(method, path, body.into())).await;
        let answer = begun.map_err(|_| InsideError::Late)??;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = timeout(within, whole(answer.into_body(), MOST)).await;
        let body = body.map_err(|_| InsideError::Late)??;
        Err(InsideError::Said {
            status,
            message: words(&body),
        })
    }

    /// The same, with the answer read whole.
    pub async fn read(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
        within: Duration,
    ) -> Result<Bytes, InsideError> {
        let answer = self.send(method, path, body, within).await?;
        let body = timeout(within, whole(answer.into_body(), MOST)).await;
        body.map_err(|_| InsideError::Late)?
    }

    /// The same, of what is JSON both ways.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<T, InsideError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.read(method, path, body, within).await?;
        // What comes from inside may be anything.
        serde_json::from_slice(&answer).map_err(|_| InsideError::Unreadable)
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Carried>, InsideError> {
        let bearer = self.devtools_bearer().await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| InsideError::Path)?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:4000"));
        headers.insert(header::AUTHORIZATION, bearer);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let stream = self.dial(DEVTOOLS_PORT).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut connection: Connection = Box::pin(connection);
        let mut answer = std::pin::pin!(sender.send_request(request));
        // The connection is driven by whoever waits for the answer, and then by its body.
        let (answer, connection) = tokio::select! {
            answer = &mut answer => (answer?, Some(connection)),
            ended = &mut connection => {
                ended?;
                (answer.await?, None)
            }
        };
        Ok(answer.map(|body| Carried { body, connection }))
    }
}

type Connection = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// A body with the connection that brings it; both end together.
pub struct Carried {
    body: Incoming,
    connection: Option<Connection>,
}

impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carried")
    }
}

impl hyper::body::Body for Carried {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(context).is_ready()
        {
            // How it ended, the body says.
            self.connection = None;
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

async fn whole(body: Carried, most: usize) -> Result<Bytes, InsideError> {
    let body = Limited::new(body, most).collect().await;
    Ok(body.map_err(|_| InsideError::TooLong)?.to_bytes())
}

/// Why the tools refuse, as far as it is fit for people.
fn words(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Refused {
        error: String,
    }
    let said = serde_json::from_slice::<Refused>(body);
    let said = said.map_or_else(|_| "the tools inside refuse".to_owned(), |one| one.error);
    let plain = said.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_WORDS).collect()
}

fn sensitive(token: &str) -> Result<HeaderValue, InsideError> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| InsideError::NoEdge)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Text as one part of an address, or one value in its query.
pub fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_query_is_one_value() {
        assert_eq!(encode("a b&c=d/e.rs"), "a%20b%26c%3Dd%2Fe.rs");
        assert_eq!(encode("ü\n"), "%C3%BC%0A");
    }

    #[test]
    fn what_the_tools_say_is_short_and_plain() {
        assert_eq!(words(br#"{"error":"no\u0007 such file"}"#), "no such file");
        assert_eq!(words(b"<html>"), "the tools inside refuse");
        let long = format!(r#"{{"error":"{}"}}"#, "x".repeat(10_000));
        assert_eq!(words(long.as_bytes()).len(), LONGEST_WORDS);
    }
}
