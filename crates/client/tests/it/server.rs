//! Servers that say what a test wants, and remember what they were asked.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use nacre_client::{Bearer, Client};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::world::World;

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        client(&format!("http://{}", self.address))
    }
}

pub(crate) fn client(url: &str) -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new(url, Bearer::new("nac_test")).unwrap()
}

async fn run(router: Router) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move { axum::serve(listener, router).await.unwrap() });
    Running {
        address,
        _task: task,
    }
}

/// What came over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) key: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) body: Bytes,
}

/// Answers that are given one after the other; after that, 418.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    next: Arc<Mutex<VecDeque<Response>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Answers {
    pub(crate) fn then(self, status: u16, body: impl Into<Body>) -> Self {
        let answer = Response::builder().status(status).body(body.into());
        self.then_answer(answer.unwrap())
    }

    pub(crate) fn then_json(self, status: u16, body: &Value) -> Self {
        self.then(status, body.to_string())
    }

    pub(crate) fn then_answer(self, answer: Response) -> Self {
        self.next.lock().unwrap().push_back(answer);
        self
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) async fn run(&self) -> Running {
        run(Router::new().fallback(answer).with_state(self.clone())).await
    }
}

async fn answer(State(answers): State<Answers>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let header = |name: &str| {
        let value = head.headers.get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let asked = Asked {
        line: format!("{} {}", head.method, head.uri),
        key: header("idempotency-key"),
        token: header("authorization"),
        body,
    };
    answers.asked.lock().unwrap().push(asked);
    let next = answers.next.lock().unwrap().pop_front();
    next.unwrap_or_else(|| axum::http::StatusCode::IM_A_TEAPOT.into_response())
}

/// What one connection of a session's socket comes to. After the last, it just works.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    Refuse(u16),
    /// So many frames as they happen, and then.
    Tell(usize, Then),
    /// The first numbered frame of what is told again is left out.
    LeaveOut,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// The line breaks, and so many frames happen meanwhile.
    Break(usize),
    Close(usize),
    /// The client was too slow: so many frames are not told, and everything is told anew.
    Resync(usize),
    /// Nothing is said any more, whatever is asked.
    Mute,
    /// As soon as a prompt comes.
    BreakAtAPrompt,
}

#[derive(Clone)]
pub(crate) struct Told {
    world: Arc<World>,
    plans: Arc<Mutex<VecDeque<Plan>>>,
    /// How much has happened.
    at: Arc<Mutex<usize>>,
    pub(crate) since: Arc<Mutex<Vec<Option<u64>>>>,
    pub(crate) heard: Arc<Mutex<Vec<Value>>>,
}

impl Told {
    pub(crate) fn new(world: World, plans: impl IntoIterator<Item = Plan>) -> Self {
        Self {
            world: Arc::new(world),
            plans: Arc::new(Mutex::new(plans.into_iter().collect())),
            at: Arc::default(),
            since: Arc::default(),
            heard: Arc::default(),
        }
    }

    pub(crate) async fn run(&self) -> Running {
        let router = Router::new().route("/v1/sessions/{id}/connect", get(connect));
        run(router.with_state(self.clone())).await
    }

    fn goes_on(&self, by: usize) -> (usize, usize) {
        let mut at = self.at.lock().unwrap();
        let from = *at;
        *at = (*at + by).min(self.world.told.len());
        (from, *at)
    }
}

#[derive(Deserialize)]
struct Since {
    since: Option<u64>,
}

async fn connect(
    State(told): State<Told>,
    Query(Since { since }): Query<Since>,
    upgrade: WebSocketUpgrade,
) -> Response {
    told.since.lock().unwrap().push(since);
    let plan = told.plans.lock().unwrap().pop_front();
    if let Some(Plan::Refuse(status)) = plan {
        let problem = json!({"type": "about:blank", "title": "no", "status": status,
            "detail": "not now", "code": "not_now"});
        let answer = Response::builder().status(status);
        return answer.body(problem.to_string().into()).unwrap();
    }
    upgrade.on_upgrade(move |socket| async move {
        // An error is a client that went.
        let _ = talk(told, socket, since, plan).await;
    })
}

async fn talk(
    told: Told,
    mut socket: WebSocket,
    since: Option<u64>,
    plan: Option<Plan>,
) -> Result<(), axum::Error> {
    let (mut at, _) = told.goes_on(0);
    let mut greeting = told.world.greeting(at, since);
    if matches!(plan, Some(Plan::LeaveOut)) && !greeting.is_empty() {
        greeting.remove(0);
    }
    for text in greeting {
        socket.send(Message::text(text)).await?;
    }
    let (frames, then) = match plan {
        Some(Plan::Tell(frames, then)) => (frames, Some(then)),
        _ => (usize::MAX / 2, None),
    };
    let (from, to) = told.goes_on(frames);
    for frame in &told.world.told[from..to] {
        socket.send(Message::text(frame.text.as_str())).await?;
    }
    at = at.max(to);
    match then {
        Some(Then::Break(lost)) => {
            told.goes_on(lost);
            return Ok(());
        }
        Some(Then::Close(lost)) => {
            told.goes_on(lost);
            return socket.send(Message::Close(None)).await;
        }
        Some(Then::Resync(lost)) => {
            (_, at) = told.goes_on(lost);
            socket
                .send(Message::text(told.world.init(at, true)))
                .await?;
            for text in told.world.open_at(at) {
                socket.send(Message::text(text)).await?;
            }
            let (from, to) = told.goes_on(usize::MAX / 2);
            for frame in &told.world.told[from..to] {
                socket.send(Message::text(frame.text.as_str())).await?;
            }
            at = to;
        }
        Some(Then::Mute | Then::BreakAtAPrompt) | None => {}
    }
    listen(&told, socket, then, told.world.seq_at(at)).await
}

async fn listen(
    told: &Told,
    mut socket: WebSocket,
    then: Option<Then>,
    mut seq: u64,
) -> Result<(), axum::Error> {
    while let Some(message) = socket.recv().await {
        let Message::Text(text) = message? else {
            continue;
        };
        let command: Value = serde_json::from_str(&text).unwrap();
        told.heard.lock().unwrap().push(command.clone());
        match (command["type"].as_str(), then) {
            (_, Some(Then::Mute)) => {}
            (Some("prompt"), Some(Then::BreakAtAPrompt)) => return Ok(()),
            (Some("prompt"), _) => {
                seq += 1;
                let queued = json!({"seq": seq, "type": "prompt", "id": command["id"],
                    "status": "queued"});
                socket.send(Message::text(queued.to_string())).await?;
            }
            (Some("ping"), _) => socket.send(Message::text(r#"{"type":"pong"}"#)).await?,
            _ => {}
        }
    }
    Ok(())
}
