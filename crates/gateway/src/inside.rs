//! What listens in a session's sandbox: its dev tools, its gateway, and whatever people run there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use model::session::Place;
use provider::{Provider, ProviderError};
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
    #[error("the sandbox answered with more than can be read")]
    Body,
    #[error("the sandbox does not answer")]
    Late,
    #[error("{message}")]
    Said {
        status: u16,
        code: String,
        message: String,
    },
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

    /// Asks the dev tools something, and reads the answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Value, InsideError> {
        timeout(within, self.ask_now(method, path, body))
            .await
            .map_err(|_| InsideError::Late)?
    }

    async fn ask_now(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, InsideError> {
        let bearer = self.devtools_bearer().await?;
        let content = body.map(Value::to_string).unwrap_or_default();
        let mut request = Request::new(Full::new(Bytes::from(content)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| InsideError::Body)?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:4000"));
        headers.insert(header::AUTHORIZATION, bearer);
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        let stream = self.dial(DEVTOOLS_PORT).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            read(response).await
        };
        // The connection is driven for as long as the answer is awaited.
        tokio::select! {
            read = exchange => read,
            ended = connection => match ended {
                Ok(()) => Err(InsideError::Late),
                Err(error) => Err(error.into()),
            },
        }
    }
}

async fn read(response: Response<Incoming>) -> Result<Value, InsideError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST).collect().await;
    let body = body.map_err(|_| InsideError::Body)?.to_bytes();
    let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(value);
    }
    let field = |name: &str| value[name].as_str().map(|text| cut(text).to_owned());
    Err(InsideError::Said {
        status: status.as_u16(),
        code: field("code").unwrap_or_else(|| "devtools-failed".to_owned()),
        message: field("error").unwrap_or_else(|| format!("the dev tools answered {status}")),
    })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(2000)]
}

fn sensitive(token: &str) -> Result<HeaderValue, InsideError> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| InsideError::NoEdge)?;
    value.set_sensitive(true);
    Ok(value)
}
