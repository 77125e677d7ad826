//! What goes back.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::{HubError, TunnelRefused};
use crate::env_files::{EnvError, SpecError};
use crate::files::FileError;
use crate::git::GitError;
use crate::services::{BadName, ServiceError};
use crate::terminal::TerminalError;

pub(super) type Answer = Response<Content>;

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Option<Bytes>),
    /// Ends when its sender goes.
    Stream(mpsc::Receiver<Bytes>),
    /// As `Stream`, and how long it will be.
    Sized(mpsc::Receiver<Bytes>, u64),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(receiver) | Self::Sized(receiver, _) => receiver.poll_recv(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => SizeHint::default(),
            Self::Sized(_, length) => SizeHint::with_exact(*length),
        }
    }
}

pub(super) fn json(value: &impl Serialize) -> Answer {
    with_status(StatusCode::OK, value)
}

pub(super) fn with_status(status: StatusCode, value: &impl Serialize) -> Answer {
    let text = serde_json::to_vec(value).expect("our own types serialise");
    let mut answer = bytes(text.into(), "application/json");
    *answer.status_mut() = status;
    answer
}

pub(super) fn bytes(content: Bytes, content_type: &'static str) -> Answer {
    typed(Content::Whole(Some(content)), content_type)
}

pub(super) fn stream(receiver: mpsc::Receiver<Bytes>, content_type: &'static str) -> Answer {
    typed(Content::Stream(receiver), content_type)
}

pub(super) fn sized(
    receiver: mpsc::Receiver<Bytes>,
    length: u64,
    content_type: &'static str,
) -> Answer {
    typed(Content::Sized(receiver, length), content_type)
}

fn typed(content: Content, content_type: &'static str) -> Answer {
    let mut answer = Response::new(content);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // What a sandbox holds is not to be taken for a page of ours.
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        "content-security-policy",
        HeaderValue::from_static("sandbox"),
    );
    answer
}

/// Why something was not done.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn no_route() -> Self {
        let message = "there is no such route; docs/dev-tools.md lists them";
        Self::new(StatusCode::NOT_FOUND, "no_route", message)
    }

    pub(super) fn unauthorized() -> Self {
        let message = "the bearer token is missing or wrong";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(super) fn forbidden() -> Self {
        let message = "only the sandbox's user and root may ask here";
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(super) fn answer(&self) -> Answer {
        let body = json!({"error": self.message, "code": self.code});
        let mut answer = with_status(self.status, &body);
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        answer
    }
}

/// With what is behind it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

impl From<BadName> for Failure {
    fn from(error: BadName) -> Self {
        Self::bad(format!("`name`: {error}"))
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let (status, code) = match &error {
            ServiceError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            ServiceError::Bad(_) | ServiceError::OurPort(_) => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
            ServiceError::TooMany => (StatusCode::CONFLICT, "too_many"),
            ServiceError::Expose(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, told(&error))
    }
}

impl From<TerminalError> for Failure {
    fn from(error: TerminalError) -> Self {
        let (status, code) = match &error {
            TerminalError::BadName => (StatusCode::BAD_REQUEST, "bad_request"),
            TerminalError::TooMany | TerminalError::TooManyViewers => {
                (StatusCode::CONFLICT, "too_many")
            }
            TerminalError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            TerminalError::Shell(_) | TerminalError::Fails(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "failed")
            }
        };
        Self::new(status, code, told(&error))
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let (status, code) = match &error {
            FileError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            FileError::Refused(_) => (StatusCode::FORBIDDEN, "refused"),
            FileError::Exhausted(_) => (StatusCode::SERVICE_UNAVAILABLE, "exhausted"),
            FileError::TooLong => (StatusCode::PAYLOAD_TOO_LARGE, "too_long"),
            FileError::Hands(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Self::new(status, code, told(&error))
    }
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        let (status, code) = match error {
            GitError::NotARepo(_) => (StatusCode::NOT_FOUND, "not_a_repo"),
            GitError::NotACommit(_) => (StatusCode::BAD_REQUEST, "not_a_commit"),
            GitError::Outside(_) => (StatusCode::BAD_REQUEST, "outside"),
            GitError::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timed_out"),
            GitError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            GitError::Files(error) => return error.into(),
            GitError::Hands(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Self::new(status, code, told(&error))
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::bad(format!("`spec`: {}", told(&error)))
    }
}

impl From<EnvError> for Failure {
    fn from(error: EnvError) -> Self {
        let (status, code) = match error {
            EnvError::Spec(error) => return error.into(),
            EnvError::Write { source, .. } => return source.into(),
            EnvError::Missing(_) => (StatusCode::UNPROCESSABLE_ENTITY, "missing"),
            EnvError::Value(_) | EnvError::TooLong => (StatusCode::BAD_REQUEST, "bad_request"),
            EnvError::InTheWay(_) => (StatusCode::CONFLICT, "in_the_way"),
            EnvError::Keep(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, told(&error))
    }
}

impl From<TunnelRefused> for Failure {
    fn from(error: TunnelRefused) -> Self {
        let (status, code) = match &error {
            TunnelRefused::Unknown(_) => (StatusCode::NOT_FOUND, "not_found"),
            TunnelRefused::Bad(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            TunnelRefused::Full(_) => (StatusCode::CONFLICT, "too_many"),
            TunnelRefused::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, told(&error))
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let (status, code) = match &error {
            HubError::NotConfigured => (StatusCode::NOT_IMPLEMENTED, "not_configured"),
            HubError::Full => (StatusCode::SERVICE_UNAVAILABLE, "journal_full"),
            HubError::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "timed_out"),
            HubError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            HubError::Bad(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            HubError::Refused(_) => (StatusCode::FORBIDDEN, "refused"),
        };
        Self::new(status, code, told(&error))
    }
}
