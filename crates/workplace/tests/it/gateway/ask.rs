//! A client: well-behaved ([`Ask`]), or one that says exactly what it is told ([`raw`]).

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

pub(super) const HOST: &str = "box.example";

#[derive(Debug)]
pub(super) struct Ask {
    address: SocketAddr,
    request: Request<Full<Bytes>>,
}

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn new(address: SocketAddr, method: Method, path: &str) -> Self {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, HOST)
            .body(Full::default())
            .unwrap();
        Self { address, request }
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.request
            .headers_mut()
            .append(name, value.parse().unwrap());
        self
    }

    pub(super) fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(super) fn cookie(self, cookie: &str) -> Self {
        self.header("cookie", &format!("__Host-gateway_session={cookie}"))
    }

    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.request.body_mut() = Full::new(body.into());
        self
    }

    pub(super) async fn send(self) -> Reply {
        let mut tasks = JoinSet::new();
        let (parts, body) = self.open(&mut tasks).await.into_parts();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(super) async fn status(self) -> StatusCode {
        self.send().await.status
    }

    /// The answer as soon as it has begun.
    pub(super) async fn open(self, tasks: &mut JoinSet<()>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tasks.spawn_local(async move {
            let _ = connection.await;
        });
        sender.send_request(self.request).await.unwrap()
    }
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {} {:?}", self.status, self.body))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// What the echo backend got of this header.
    pub(super) fn got(&self, name: &str) -> Vec<String> {
        let json = self.json();
        let headers = json["headers"].as_array().unwrap();
        headers
            .iter()
            .filter(|pair| pair[0] == name)
            .map(|pair| pair[1].as_str().unwrap().to_owned())
            .collect()
    }

    /// The value of our cookie.
    pub(super) fn cookie(&self) -> String {
        self.headers
            .get_all("set-cookie")
            .iter()
            .find_map(|value| {
                let rest = value
                    .to_str()
                    .unwrap()
                    .strip_prefix("__Host-gateway_session=")?;
                Some(rest.split(';').next().unwrap().to_owned())
            })
            .unwrap_or_else(|| panic!("no cookie: {self:?}"))
    }
}

/// Everything that comes back for these bytes.
pub(super) async fn raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has heard enough closes while we still talk.
    let _ = stream.write_all(bytes.as_ref()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
