//! What we say ourselves, and what comes from a backend.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::headers::put_upgrade;
use super::patience::Patient;
use super::socket;

pub(super) type Answer = Response<Content>;

/// An answer that is not what was asked for. In a box, since it is the rarer one.
pub(super) type Refusal = Box<Answer>;

/// A response's body: ours, or a backend's on its way.
#[derive(Debug)]
pub(super) enum Content {
    Ours(Option<Bytes>),
    Backend(Patient),
}

impl Content {
    pub(super) const NONE: Self = Self::Ours(None);

    pub(super) fn of(bytes: Bytes) -> Self {
        Self::Ours((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Ours(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Backend(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ours(bytes) => bytes.is_none(),
            Self::Backend(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Backend(body) => body.size_hint(),
        }
    }
}

pub(super) fn health(method: &Method) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return *refusal(StatusCode::METHOD_NOT_ALLOWED, "Only to be read");
    }
    say(
        StatusCode::OK,
        &json!({ "status": "ok", "service": "gateway" }),
    )
}

/// The same request, elsewhere.
pub(super) fn redirect(to: &str) -> Answer {
    let mut answer = Response::new(Content::NONE);
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    add(&mut answer, header::LOCATION, to);
    add(&mut answer, header::CACHE_CONTROL, "no-store");
    // The address that led here may have held a code.
    add(&mut answer, header::REFERRER_POLICY, "no-referrer");
    answer
}

/// Agrees to a socket that we serve ourselves.
pub(super) fn switch(headers: &HeaderMap, protocol: Option<&str>) -> Result<Answer, Refusal> {
    let accept = socket::accept(headers).ok_or_else(no_handshake)?;
    let mut answer = Response::new(Content::NONE);
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    put_upgrade(answer.headers_mut());
    answer
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol {
        add(&mut answer, header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(answer)
}

pub(super) fn challenge(message: &str) -> Refusal {
    let mut answer = refusal(StatusCode::UNAUTHORIZED, message);
    add(&mut answer, header::WWW_AUTHENTICATE, "Bearer");
    answer
}

pub(super) fn too_many_tries() -> Refusal {
    let mut answer = refusal(StatusCode::TOO_MANY_REQUESTS, "Too many bad tries");
    add(&mut answer, header::RETRY_AFTER, "3");
    answer
}

pub(super) fn no_handshake() -> Refusal {
    let mut answer = refusal(StatusCode::BAD_REQUEST, "Not a WebSocket handshake");
    add(&mut answer, header::SEC_WEBSOCKET_VERSION, "13");
    answer
}

pub(super) fn upgrade_required() -> Refusal {
    let mut answer = refusal(StatusCode::UPGRADE_REQUIRED, "Only for WebSockets");
    put_upgrade(answer.headers_mut());
    answer
}

/// `{"error": …}`, as everything of ours that is not as asked.
pub(super) fn refusal(status: StatusCode, message: &str) -> Refusal {
    Box::new(say(status, &json!({ "error": message })))
}

fn say(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Content::of(value.to_string().into()));
    *answer.status_mut() = status;
    add(&mut answer, header::CONTENT_TYPE, "application/json");
    add(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

pub(super) fn add(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().append(name, value);
    }
}
