//! A model door with its keys and its meter, and a sandbox's end of a connection to it.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::Secret;
use nacre_doors::models::{Api, Config, Limited, Upstream as Definition, Used};
use nacre_doors::{Keys, Meter, Models, Visitor};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub(crate) const KEY: &str = "sk-very-secret-key-0123456789";

pub(crate) fn visitor() -> Visitor {
    Visitor {
        organisation: "org_1".to_owned(),
        session: "ses_1".to_owned(),
        generation: 3,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) used: Mutex<Vec<(Visitor, Used)>>,
    pub(crate) limited: Mutex<Option<Limited>>,
    pub(crate) has_no_key: bool,
    pub(crate) told: Notify,
}

#[async_trait]
impl Keys for Book {
    async fn key(&self, _: &Visitor, _: &str) -> Result<Option<Secret>, String> {
        Ok((!self.has_no_key).then(|| Secret::new(KEY)))
    }
}

#[async_trait]
impl Meter for Book {
    async fn may(&self, _: &Visitor) -> Result<(), Limited> {
        let limited = self.limited.lock().unwrap().clone();
        limited.map_or(Ok(()), Err)
    }

    fn used(&self, visitor: &Visitor, used: Used) {
        self.used.lock().unwrap().push((visitor.clone(), used));
        self.told.notify_one();
    }
}

impl Book {
    /// The only thing it was told, once it was told something.
    pub(crate) async fn only(&self) -> Used {
        loop {
            let told = self.told.notified();
            let used = self.used.lock().unwrap().clone();
            match &used[..] {
                [] => tokio::time::timeout(Duration::from_secs(10), told)
                    .await
                    .expect("the meter is told"),
                [(by, used)] => {
                    assert_eq!(*by, visitor());
                    return used.clone();
                }
                more => panic!("told more than once: {more:?}"),
            }
        }
    }
}

pub(crate) struct World {
    pub(crate) models: Arc<Models>,
    pub(crate) book: Arc<Book>,
    pub(crate) tasks: JoinSet<()>,
}

pub(crate) fn definition(id: &str, api: Api, base_url: String) -> Definition {
    Definition {
        id: id.to_owned(),
        api,
        base_url,
        ..Definition::openai()
    }
}

pub(crate) fn config(base_url: &str) -> Config {
    Config {
        upstreams: vec![
            definition("anthropic", Api::Anthropic, base_url.to_owned()),
            definition("openai", Api::OpenAi, base_url.to_owned()),
        ],
        demo: Some(nacre_doors::demo::Pace::AT_ONCE),
        ..Config::default()
    }
}

impl World {
    pub(crate) fn new(base_url: &str) -> Self {
        Self::with(config(base_url), Book::default())
    }

    pub(crate) fn with(config: Config, book: Book) -> Self {
        let book = Arc::new(book);
        let models = Models::new(config, Arc::clone(&book) as _, Arc::clone(&book) as _).unwrap();
        Self {
            models: Arc::new(models),
            book,
            tasks: JoinSet::new(),
        }
    }

    /// A stream as a provider hands it over; this is the sandbox's end.
    pub(crate) fn stream(&mut self) -> tokio::io::DuplexStream {
        let (inside, outside) = tokio::io::duplex(64 << 10);
        let models = Arc::clone(&self.models);
        self.tasks
            .spawn(async move { models.serve(visitor(), outside).await });
        inside
    }

    pub(crate) async fn connect(&mut self) -> SendRequest<Full<Bytes>> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.stream())).await.unwrap();
        self.tasks.spawn(async move {
            let _ended = connection.await;
        });
        sender
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Response<Incoming> {
        let request = post(path, body);
        self.connect().await.send_request(request).await.unwrap()
    }
}

/// As an agent asks, with whatever credentials it has.
pub(crate) fn post(path: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::post(path)
        .header("host", "127.0.0.1:4002")
        .header("content-type", "application/json")
        .header("authorization", "Bearer inside-token")
        .header("x-api-key", "inside-token")
        .header("cookie", "inside=token")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(body.to_string().into()))
        .unwrap()
}

pub(crate) async fn text(answer: Response<Incoming>) -> String {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Everything that came into the sandbox.
pub(crate) async fn all(answer: Response<Incoming>) -> String {
    let mut all = format!("{}\n{}", answer.status(), shown(answer.headers()));
    all.push_str(&text(answer).await);
    all
}

pub(crate) fn shown(headers: &HeaderMap) -> String {
    headers
        .iter()
        .fold(String::new(), |mut all, (name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            writeln!(all, "{name}: {value}").unwrap();
            all
        })
}
