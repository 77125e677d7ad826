//! What we say ourselves, and what comes from a backend.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::patience::Patient;

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

pub(super) type Answer = Response<Content>;

/// `{"error": …}`, as everything of ours that is not as asked.
pub(super) fn error(status: StatusCode, message: &str) -> Answer {
    json(status, &serde_json::json!({ "error": message }))
}

pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    let mut answer = Response::new(Content::of(value.to_string().into()));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, "application/json");
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    answer
}

/// The same request, elsewhere.
pub(super) fn redirect(to: &str) -> Answer {
    let mut answer = Response::new(Content::NONE);
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    set(&mut answer, header::LOCATION, to);
    set(&mut answer, header::CACHE_CONTROL, "no-store");
    // The address that led here may have held a code.
    set(&mut answer, header::REFERRER_POLICY, "no-referrer");
    answer
}

pub(super) fn set(answer: &mut Answer, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().append(name, value);
    }
}

/// A service of hyper's may fail; ours answers.
pub(super) type Answered = Result<Answer, Infallible>;
