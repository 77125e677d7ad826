//! Answers of our own.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use hyper::header::{self, HeaderValue};
use wire::v1;

use crate::Refusal;

/// What every answer of the gateway carries.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A problem document, as every route of `/v1` answers one.
pub(crate) fn problem(refusal: &Refusal) -> Response<Body> {
    let title = refusal.status.canonical_reason().unwrap_or_default();
    let body = v1::Problem {
        r#type: "about:blank".to_owned(),
        title: title.to_owned(),
        status: refusal.status.as_u16(),
        detail: refusal.message.clone(),
        code: refusal.code.to_owned(),
        request_id: telemetry::current().request.map(|id| id.to_string()),
    };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut response = Response::new(full(body));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, kind);
    if let Some(seconds) = refusal.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    no_store(&mut response);
    response
}

pub(crate) fn no_store(response: &mut Response<Body>) {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
}
