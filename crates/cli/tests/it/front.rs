//! The server as people and programs meet it: a real process, real sandboxes, the real agent, and
//! the demo model, so that no account is needed.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use client::{Bearer, Client, Frame, Transcript, Update};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::header;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::v1::{ExecRequest, NewPrompt, NewSession, PromptStatus, Status};

use crate::based::Based;
use crate::world::{Running, World};

/// A start of the agent and its answer, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A home of its own, with the base in it: a server takes up every sandbox of its home.
pub(crate) struct Front {
    // Gone before its home is.
    pub(crate) server: Option<Running>,
    pub(crate) world: World,
    pub(crate) port: u16,
}

impl Front {
    pub(crate) async fn up() -> Option<Self> {
        let mut front = Self::with_base()?;
        front.start().await;
        Some(front)
    }

    /// All but the server.
    pub(crate) fn with_base() -> Option<Self> {
        let based = Based::slim()?;
        let world = World::new();
        let file = world.nacre.home.path().join("base.nacre");
        let exported =
            based
                .nacre
                .run(["snapshot", "export", &based.base.to_string(), file.as_str()]);
        assert_eq!(exported.code, Some(0), "{}", exported.transcript());
        world.ok(&["snapshot", "import", file.as_str(), "--name", "base"]);
        fs_err::remove_file(file).unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        Some(Self {
            world,
            port,
            server: None,
        })
    }

    /// What starts the server.
    pub(crate) fn command(&self) -> Command {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = self.world.nacre.command(["serve", "--listen", &listen]);
        command.stdout(Stdio::null());
        command
    }

    pub(crate) async fn start(&mut self) {
        let command = self.command();
        self.start_by(command).await;
    }

    pub(crate) async fn start_by(&mut self, mut command: Command) {
        let server = command.spawn().unwrap();
        self.server = Some(Running(server));
        let up = async {
            while self.get("/readyz", &[]).await.map(|answer| answer.0) != Some(200) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(30), up)
            .await
            .expect("the server does not come up");
    }

    /// As a machine that fails does it.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn client(&self) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let token = fs_err::read_to_string(self.world.nacre.home.path().join("token")).unwrap();
        let url = format!("http://127.0.0.1:{}", self.port);
        Client::new(&url, Bearer::new(token)).unwrap()
    }

    /// Status, headers that matter, body; nothing while nobody listens.
    pub(crate) async fn get(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Option<(u16, Vec<String>, String)> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
            .await
            .ok()?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.ok()?;
        let mut request = hyper::Request::builder().uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header(header::HOST, format!("127.0.0.1:{}", self.port));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let talk = async {
            let answer = sender.send_request(request).await.ok()?;
            let status = answer.status().as_u16();
            let told = [header::LOCATION, header::SET_COOKIE];
            let told = told.iter().filter_map(|name| answer.headers().get(name));
            let told = told
                .map(|value| value.to_str().unwrap().to_owned())
                .collect();
            let body = answer.into_body().collect().await.ok()?.to_bytes();
            Some((status, told, String::from_utf8_lossy(&body).into_owned()))
        };
        let mut talk = std::pin::pin!(talk);
        tokio::select! {
            answer = &mut talk => answer,
            _ = connection => talk.await,
        }
    }
}

/// Somebody who watches a session, and what they were told.
pub(crate) struct Watcher {
    transcript: Transcript,
    pub(crate) frames: Vec<(u64, String)>,
}

impl Watcher {
    pub(crate) fn new() -> Self {
        Self {
            transcript: Transcript::default(),
            frames: Vec::new(),
        }
    }

    fn hear(&mut self, frame: &Frame) {
        if let Some(seq) = frame.value()["seq"].as_u64()
            && frame.value()["type"] != "init"
        {
            self.frames.push((seq, frame.text().to_owned()));
        }
        self.transcript.apply(frame);
    }

    /// Until a prompt has ended.
    pub(crate) async fn until(
        &mut self,
        client: &Client,
        session: &str,
        prompt: &str,
    ) -> PromptStatus {
        let since = self.frames.last().map(|(seq, _)| *seq);
        let mut follow = client.follow(session, since).unwrap();
        let watching = async {
            loop {
                match follow.next().await.expect("the session tells no more") {
                    Update::Frame(frame) => self.hear(&frame),
                    Update::Refused(error) => panic!("{error}"),
                    Update::Online | Update::Offline { .. } => {}
                }
                let known = self.transcript.prompt(prompt);
                if let Some(known) = known.filter(|prompt| prompt.status.is_over()) {
                    return known.status;
                }
            }
        };
        timeout(PATIENCE, watching).await.expect("no end")
    }

    fn answer_to(&self, prompt: &str) -> String {
        let mut messages = self.transcript.messages().iter().rev();
        let is_answer = |message: &&client::HeldMessage| {
            message.prompt_id.as_deref() == Some(prompt) && message.role == "assistant"
        };
        messages.find(is_answer).unwrap().text()
    }
}

pub(crate) async fn ask(client: &Client, session: &str, id: &str, content: &str) {
    let prompt = NewPrompt {
        id: Some(id.to_owned()),
        content: content.to_owned(),
        ..NewPrompt::default()
    };
    client.send_prompt(session, prompt).await.unwrap();
}

pub(crate) async fn run(client: &Client, session: &str, script: &str) -> String {
    let request = ExecRequest {
        argv: ["bash", "-lc", script].map(str::to_owned).to_vec(),
        ..ExecRequest::default()
    };
    let ran = client.exec(session, &request).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{script}: {ran:?}");
    ran.stdout.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_through_a_cut_a_pause_kills_and_a_move_and_a_fork_of_it_apart() {
    let Some(mut front) = Front::up().await else {
        return;
    };
    let client = front.client();
    let new = NewSession {
        title: Some("pearls".to_owned()),
        ..NewSession::default()
    };
    let session = client.create_session(&new).await.unwrap();
    assert_eq!(session.status, Status::Starting);
    assert_eq!(session.model.as_deref(), Some("demo/demo"));
    let id = session.id;

    // Two watch the first answer.
    let (mut one, mut two) = (Watcher::new(), Watcher::new());
    ask(&client, &id, "p1", "write pearl.txt with grit and nacre").await;
    let (first, second) =
        tokio::join!(one.until(&client, &id, "p1"), two.until(&client, &id, "p1"));
    assert_eq!(
        (first, second),
        (PromptStatus::Finished, PromptStatus::Finished)
    );
    assert_eq!(one.answer_to("p1"), two.answer_to("p1"));
    let written = run(&client, &id, "cat ~/workspace/pearl.txt").await;
    assert!(written.contains("grit and nacre"), "{written}");

    // One is away for a turn, and has missed nothing when it is back.
    ask(&client, &id, "p2", "run echo hello from inside").await;
    two.until(&client, &id, "p2").await;
    one.until(&client, &id, "p2").await;
    let tail = |watcher: &Watcher, from: u64| -> Vec<String> {
        let frames = watcher.frames.iter().filter(|(seq, _)| *seq > from);
        frames.map(|(_, text)| text.clone()).collect()
    };
    let from = one.frames[0].0.max(two.frames[0].0);
    assert_eq!(tail(&one, from), tail(&two, from));
    let numbers: Vec<u64> = one.frames.iter().map(|(seq, _)| *seq).collect();
    assert!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{numbers:?}"
    );

    // Paused, and the server killed: the same conversation, the same files.
    let before = run(
        &client,
        &id,
        "cd ~/workspace && find . -type f | sort | xargs sha256sum",
    )
    .await;
    let paused = client.pause(&id).await.unwrap();
    assert_eq!(paused.session.status, Status::Paused);
    let kept = paused.receipt.unwrap().kept;
    assert!(kept == "memory" || kept == "disk", "{kept}");
    front.kill();
    front.start().await;
    let client = front.client();
    let resumed = client.resume(&id).await.unwrap();
    assert_eq!(resumed.status, Status::Running);
    let after = run(
        &client,
        &id,
        "cd ~/workspace && find . -type f | sort | xargs sha256sum",
    )
    .await;
    assert_eq!(before, after);
    ask(&client, &id, "p3", "run cat pearl.txt").await;
    assert_eq!(one.until(&client, &id, "p3").await, PromptStatus::Finished);

    // Killed in the middle of an answer: whoever watches hears its end, once.
    ask(&client, &id, "p4", "slow").await;
    until_said(&client, &id, &mut one).await;
    front.kill();
    front.start().await;
    let client = front.client();
    let ended = one.until(&client, &id, "p4").await;
    assert_eq!(ended, PromptStatus::Finished, "{:?}", one.frames.last());
    let told = client
        .messages(&id, &client::Paging::default())
        .await
        .unwrap();
    let answers = told.items.iter().filter(|message| {
        message.prompt_id.as_deref() == Some("p4") && message.role == "assistant"
    });
    assert_eq!(answers.count(), 1);

    moves(&client, &id, &mut one, &written).await;

    let fork = forks(&client, &id, &mut one).await;

    preview(&front, &client, &id).await;

    for session in [&fork, &id] {
        let stopped = client.stop(session).await.unwrap();
        assert_eq!(stopped.session.status, Status::Stopped);
    }
    let left = front.world.ok(&["sandbox", "ls"]);
    assert_eq!(left["sandboxes"], json!([]), "{left}");
}

/// A fork has the files and goes its own way. Its id.
async fn forks(client: &Client, id: &str, one: &mut Watcher) -> String {
    let fork = client.fork(id, &wire::v1::Fork::default()).await.unwrap();
    assert_eq!(fork.parent_id.as_deref(), Some(id));
    let mut other = Watcher::new();
    ask(client, &fork.id, "f1", "write fork.txt with another way").await;
    assert_eq!(
        other.until(client, &fork.id, "f1").await,
        PromptStatus::Finished
    );
    // Two answers, each in its own conversation.
    ask(client, id, "f1", "run echo still the parent").await;
    assert_eq!(one.until(client, id, "f1").await, PromptStatus::Finished);
    assert_ne!(one.answer_to("f1"), other.answer_to("f1"));
    let in_fork = run(client, &fork.id, "ls ~/workspace").await;
    let in_parent = run(client, id, "ls ~/workspace").await;
    assert!(
        in_fork.contains("pearl.txt") && in_fork.contains("fork.txt"),
        "{in_fork}"
    );
    assert!(!in_parent.contains("fork.txt"), "{in_parent}");
    fork.id
}

/// Moved to another sandbox in the middle of an answer: it is said to be interrupted, what it said
/// stays, and the conversation goes on there.
async fn moves(client: &Client, id: &str, one: &mut Watcher, written: &str) {
    let before = client.session(id).await.unwrap();
    ask(client, id, "p5", "slow").await;
    until_said(client, id, one).await;
    let moved = client.migrate(id).await.unwrap();
    assert_ne!(moved.sandbox_id, before.sandbox_id);
    assert!(moved.generation > before.generation);
    let ended = one.until(client, id, "p5").await;
    assert_eq!(ended, PromptStatus::Interrupted, "{:?}", one.frames.last());
    assert!(!one.answer_to("p5").is_empty());
    ask(client, id, "p6", "run cat pearl.txt").await;
    assert_eq!(one.until(client, id, "p6").await, PromptStatus::Finished);
    let still = run(client, id, "cat ~/workspace/pearl.txt").await;
    assert_eq!(still, written);
}

/// Until some of an answer was said.
async fn until_said(client: &Client, session: &str, watcher: &mut Watcher) {
    let since = watcher.frames.last().map(|(seq, _)| *seq);
    let mut follow = client.follow(session, since).unwrap();
    let watching = async {
        loop {
            if let Some(Update::Frame(frame)) = follow.next().await {
                watcher.hear(&frame);
                if frame.value()["type"] == "part.delta" {
                    return;
                }
            }
        }
    };
    timeout(PATIENCE, watching).await.expect("nothing is said");
}

/// A server in the sandbox, in a browser's words: a link that is good once, then a cookie.
async fn preview(front: &Front, client: &Client, session: &str) {
    let server = "require('http').createServer((q, s) => s.end('seen ' + q.headers.host + ' ' + (q.headers.cookie || 'none'))).listen(3000)";
    let service = "printf '%s' \"$1\" > server.js; nacre services start --name web --command 'node server.js'";
    let request = ExecRequest {
        argv: ["bash", "-lc", service, "x", server]
            .map(str::to_owned)
            .to_vec(),
        ..ExecRequest::default()
    };
    let started = client.exec(session, &request).await.unwrap();
    assert_eq!(started.exit_code, 0, "{started:?}");
    let open: Value = client
        .post_json(
            &["v1", "sessions", session, "open"],
            &json!({ "target": "3000" }),
        )
        .await
        .unwrap();
    let url = open["url"].as_str().unwrap();
    let (origin, query) = url.split_once("/?").unwrap();
    let host = origin.strip_prefix("http://").unwrap();
    let refused = front.get("/", &[("host", host)]).await.unwrap();
    assert_eq!(refused.0, 401, "{refused:?}");
    let let_in = front
        .get(&format!("/?{query}"), &[("host", host)])
        .await
        .unwrap();
    assert_eq!(let_in.0, 302, "{let_in:?}");
    let cookie = let_in.1.iter().find(|value| value.contains('=')).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let again = front.get(&format!("/?{query}"), &[("host", host)]).await;
    assert_eq!(again.unwrap().0, 401);
    let mut shown = String::new();
    for _ in 0..50 {
        let answer = front.get("/", &[("host", host), ("cookie", cookie)]).await;
        let (status, _, body) = answer.unwrap();
        if status == 200 {
            shown = body;
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        shown.starts_with("seen ") && shown.ends_with(" none"),
        "{shown}"
    );
}
