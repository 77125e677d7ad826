//! Just enough of an HTTP server for the doubles.

use std::future::Future;
use std::io;

use agent::dial::Stream;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

const MOST_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Answers requests on one connection until it ends. Without an answer the connection is closed.
pub(crate) async fn serve<F, A>(stream: impl Stream + 'static, answer: F)
where
    F: Fn(Asked) -> A,
    A: Future<Output = Option<Response<Body>>>,
{
    let service = service_fn(|request: Request<Incoming>| async {
        let asked = read(request).await;
        answer(asked)
            .await
            .ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that goes away has its reasons.
    let _ = connection.await;
}

async fn read(request: Request<Incoming>) -> Asked {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        body: serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null),
    }
}

pub(crate) fn json(status: u16, value: &Value) -> Response<Body> {
    whole(status, "application/json", value.to_string())
}

pub(crate) fn whole(status: u16, kind: &str, text: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(text.into()).map_err(|never| match never {});
    respond(status, kind, body.boxed_unsync())
}

/// A body that comes piece by piece; an error cuts the connection.
pub(crate) fn stream(
    status: u16,
    kind: &str,
    pieces: impl futures::Stream<Item = io::Result<String>> + Send + 'static,
) -> Response<Body> {
    use futures::StreamExt as _;
    let frames = pieces.map(|piece| piece.map(|text| Frame::data(Bytes::from(text))));
    respond(status, kind, StreamBody::new(frames).boxed_unsync())
}

fn respond(status: u16, kind: &str, body: Body) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(body)
        .expect("statuses and headers of the doubles are right")
}
