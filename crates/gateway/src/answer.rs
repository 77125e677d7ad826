//! Answers of our own.

use std::io;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;

/// What every answer of the gateway carries.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// A problem document, as every route of `/v1` answers one.
pub(crate) fn problem(status: StatusCode, code: &str, detail: &str) -> Response<Body> {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "type": "about:blank",
        "title": title,
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
    });
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    no_store(&mut response);
    response
}

pub(crate) fn no_store(response: &mut Response<Body>) {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
}

/// What a hub refuses or cannot do, as an answer.
pub(crate) fn of_hub(error: &sessions::HubError) -> Response<Body> {
    let (code, message) = crate::deeds::told(error);
    let status = match error {
        sessions::HubError::Refused(_) => StatusCode::CONFLICT,
        sessions::HubError::Store(store::Error::NotFound(_)) => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    problem(status, code, &message)
}
