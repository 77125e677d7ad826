//! A server that a door leads to: what it was asked, and what a test makes it answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// As in `GET /path?query`.
    pub(crate) what: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn token(&self) -> &str {
        let value = self.headers.get("authorization");
        value.map_or("", |value| value.to_str().unwrap())
    }
}

/// Status, kind, body.
pub(crate) type Said = (u16, &'static str, String);

pub(crate) struct StandIn {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    _serving: JoinSet<()>,
}

impl StandIn {
    pub(crate) async fn start<F>(answers: F) -> Self
    where
        F: Fn(&Asked) -> Said + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (of_server, answers) = (Arc::clone(&asked), Arc::new(answers));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (asked, answers) = (Arc::clone(&of_server), Arc::clone(&answers));
                connections.spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        answer(request, Arc::clone(&asked), Arc::clone(&answers))
                    });
                    let _ended = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            address,
            asked,
            _serving: serving,
        }
    }

    /// All so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

async fn answer<F: Fn(&Asked) -> Said>(
    request: Request<Incoming>,
    asked: Arc<Mutex<Vec<Asked>>>,
    answers: Arc<F>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let one = Asked {
        what: format!("{} {}", head.method, head.uri),
        headers: head.headers,
        body: body.collect().await?.to_bytes().to_vec(),
    };
    let (status, kind, text) = answers(&one);
    asked.lock().unwrap().push(one);
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status.try_into().unwrap();
    response
        .headers_mut()
        .insert("content-type", kind.parse().unwrap());
    Ok(response)
}
