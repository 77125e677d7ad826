//! Answers and their bodies.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body on its way into a sandbox.
pub type Content = UnsyncBoxBody<Bytes, BoxError>;

pub type Answer = Response<Content>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Content {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Something we say ourselves.
pub(crate) fn say(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

pub(crate) fn retry_after(answer: &mut Answer, wait: std::time::Duration) {
    // Rounded up: who comes back a moment early is sent away again.
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    answer
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
}
