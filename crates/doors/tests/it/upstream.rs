//! A server that a door leads to, and what it was asked.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// What it was asked.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Answers in order, then nothing but 500.
#[derive(Default)]
struct Script {
    answers: VecDeque<Response<Body>>,
    seen: Vec<Seen>,
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    script: Arc<Mutex<Script>>,
    _serving: JoinSet<()>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let mut serving = JoinSet::new();
        let of_server = Arc::clone(&script);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let script = Arc::clone(&of_server);
                connections.spawn(async move {
                    let service = service_fn(|request| answer(Arc::clone(&script), request));
                    let _ended = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            address,
            script,
            _serving: serving,
        }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn then(&self, answer: Response<Body>) {
        self.script.lock().unwrap().answers.push_back(answer);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.script.lock().unwrap().seen.clone()
    }
}

async fn answer(
    script: Arc<Mutex<Script>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    let mut script = script.lock().unwrap();
    script.seen.push(Seen {
        method: head.method.to_string(),
        uri: head.uri.to_string(),
        headers: head.headers,
        body: body.to_bytes(),
    });
    let next = script.answers.pop_front();
    Ok(next.unwrap_or_else(|| whole(500, "text/plain", "no answer is left")))
}

pub(crate) fn whole(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
        .headers_mut()
        .insert("content-type", kind.parse().unwrap());
    answer
}

pub(crate) fn json(status: u16, body: &serde_json::Value) -> Response<Body> {
    whole(status, "application/json", body.to_string())
}

/// What is sent when, the test decides. Dropping the sender ends the answer; an error cuts it.
pub(crate) type Sender = mpsc::Sender<Result<Bytes, std::io::Error>>;

pub(crate) fn stream() -> (Sender, Response<Body>) {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(16);
    let chunks = futures::stream::unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((chunk.map(Frame::data), receiver))
    });
    let mut answer = Response::new(StreamBody::new(chunks).boxed_unsync());
    answer
        .headers_mut()
        .insert("content-type", "text/event-stream".parse().unwrap());
    (sender, answer)
}
