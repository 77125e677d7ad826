//! A double of a model's provider: it says what the prompt tells it to say.
//!
//! Lines of the prompt that begin with `!!{` are its script, one JSON object for each step of the
//! agent; see [`script`] for what a step can be. A model whose id ends in `-429`, `-529`, `-500`,
//! `-401`, `-402`, `-403`, `-404`, `-long`, `-drop`, `-hang`, `-empty` or `-slow` fails in that way
//! whatever the script says. It speaks the Messages API, and both Chat and Responses, streaming or whole,
//! on loopback only. `GET /__requests` shows how often it was asked, and what.
//!
//! It thinks nothing and is no measure of an agent's wits.

pub mod script;
mod wire;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use hyper::{Method, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::script::{Fault, Plan};
use self::wire::{Format, Piece};
use crate::http::{self, Asked, Body};

/// Requests that are shown; older ones are only counted.
const MOST_SHOWN: usize = 200;
const MOST_CONNECTIONS: usize = 256;

#[derive(Debug)]
pub struct ScriptedModel {
    listener: TcpListener,
    log: RequestLog,
}

/// What the model was asked.
#[derive(Debug, Clone, Default)]
pub struct RequestLog(Arc<Mutex<Asks>>);

#[derive(Debug, Default)]
struct Asks {
    count: usize,
    by_model: HashMap<String, usize>,
    shown: VecDeque<Value>,
    faults: HashMap<String, u64>,
    /// How often each script with an id was begun.
    runs: BTreeMap<String, u64>,
}

impl ScriptedModel {
    /// On loopback; port 0 takes a free one.
    pub async fn listen(port: u16) -> io::Result<ScriptedModel> {
        Ok(ScriptedModel {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?,
            log: RequestLog::default(),
        })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub fn requests(&self) -> RequestLog {
        self.log.clone()
    }

    /// Answers for as long as it is polled.
    pub async fn run(self) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = self.listener.accept().await?;
            while connections.try_join_next().is_some() {}
            if connections.len() >= MOST_CONNECTIONS {
                continue;
            }
            let log = self.log.clone();
            connections.spawn(async move {
                http::serve(stream, |asked| answer(log.clone(), asked)).await;
            });
        }
    }
}

impl RequestLog {
    pub fn count(&self) -> usize {
        self.with(|asks| asks.count)
    }

    pub fn count_of(&self, model: &str) -> usize {
        self.with(|asks| asks.by_model.get(model).copied().unwrap_or(0))
    }

    /// The last requests, oldest first.
    pub fn shown(&self) -> Vec<Value> {
        self.with(|asks| asks.shown.iter().cloned().collect())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Asks) -> T) -> T {
        act(&mut self.0.lock().expect("no holder of this lock panics"))
    }

    fn note(&self, path: &str, body: &Value) {
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        self.with(|asks| {
            asks.count += 1;
            *asks.by_model.entry(model).or_default() += 1;
            asks.shown.push_back(json!({ "path": path, "body": body }));
            if asks.shown.len() > MOST_SHOWN {
                asks.shown.pop_front();
            }
        });
    }
}

async fn answer(log: RequestLog, asked: Asked) -> Option<Response<Body>> {
    let format = match (&asked.method, asked.path.trim_start_matches("/v1")) {
        (&Method::GET, "/__requests") => {
            let shown = log.with(|asks| {
                json!({ "count": asks.count, "by_model": asks.by_model, "requests": asks.shown })
            });
            return Some(http::json(200, &shown));
        }
        (&Method::GET, "/__runs") => {
            let runs = log.with(|asks| json!(asks.runs));
            return Some(http::json(200, &runs));
        }
        (&Method::POST, "/messages") => Format::Anthropic,
        (&Method::POST, "/chat/completions") => Format::Chat,
        (&Method::POST, "/responses") => Format::Responses,
        _ => return Some(http::json(404, &json!({ "error": "no such path" }))),
    };
    log.note(&asked.path, &asked.body);
    if let Some(id) = script::begun(format, &asked.body) {
        log.with(|asks| *asks.runs.entry(id).or_default() += 1);
    }
    let plan = log.with(|asks| script::plan(format, &asked.body, &mut asks.faults));
    respond(format, &asked.body, plan).await
}

async fn respond(format: Format, body: &Value, plan: Plan) -> Option<Response<Body>> {
    match &plan.fault {
        Some(Fault::Status {
            status,
            retry_after,
            message,
        }) => {
            let mut response = http::json(*status, &wire::error(format, *status, message));
            if let Some(seconds) = retry_after {
                let headers = response.headers_mut();
                headers.insert("retry-after", (*seconds).into());
            }
            return Some(response);
        }
        Some(Fault::Reset) => return None,
        Some(Fault::Hang) if plan.says.is_empty() => {
            std::future::pending::<()>().await;
        }
        _ => {}
    }
    if body["stream"] != true {
        return Some(http::json(200, &wire::whole(format, body, &plan)));
    }
    let delay = Duration::from_millis(plan.delay_ms);
    let pieces = futures::stream::iter(wire::pieces(format, body, &plan));
    let paced = pieces.then(move |piece| async move {
        match piece {
            Piece::Text(text) => {
                sleep(delay).await;
                Ok(text)
            }
            Piece::Cut => Err(io::Error::other("cut")),
            Piece::Hang => std::future::pending().await,
        }
    });
    Some(http::stream(200, "text/event-stream", paced))
}
