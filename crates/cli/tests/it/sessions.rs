//! Sessions on the local provider with the real agent, in each way that leads to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::sessions::{Ask, Handle, Machine, Makings, New, Sessions, Settings, Spec, Work};
use model::session::{ClientStatus, PauseReason, StopReason};
use model::{Clock as _, Id, SystemClock};
use provider::{Forward, LinkBy, Network, Provider as _};
use provider_local::{Config, Local};
use serde_json::json;
use store::Store;
use store::prompts::{Mode, NewPrompt, Status};
use store::sessions::{Channel, Type};
use testkit::model::{RequestLog, ScriptedModel};
use tokio::task::JoinSet;

use crate::based::Based;
use crate::story::{MODEL_PORT, boot};

/// A start of the agent on a busy machine, and its answer.
const ANSWER: Duration = Duration::from_mins(3);

struct World {
    local: Local,
    store: Store,
    sessions: Sessions,
    session: Handle,
    requests: RequestLog,
    tasks: JoinSet<()>,
    _directory: camino_tempfile::Utf8TempDir,
}

impl World {
    async fn new(based: &Based, with: impl FnOnce(Spec) -> Spec) -> Self {
        let model = ScriptedModel::listen(0).await.unwrap();
        let (address, requests) = (model.address().unwrap(), model.requests());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let _ = model.run().await;
        });
        let local = Local::open(&Config::at(based.nacre.home.path())).unwrap();
        let directory = camino_tempfile::tempdir().unwrap();
        let location = format!("sqlite:{}", directory.path().join("nacre.db"));
        let config = store::Config::new(location.parse().unwrap());
        let store = Store::open(&config).await.unwrap();
        let organisation = Id::new(&SystemClock);
        let mut tx = store.begin().await.unwrap();
        tx.create_organisation(organisation, "ours", SystemClock.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let sessions = Sessions::new(Makings {
            store: store.clone(),
            providers: vec![Arc::new(local.clone())],
            clock: Arc::new(SystemClock),
            owner: "a test".to_owned(),
            outside: Arc::new(sessions::Nothing),
            settings: Settings {
                lease: Duration::from_hours(1),
                ..Settings::usual()
            },
        });
        let new = New {
            organisation,
            created_by: None,
            title: "a session".to_owned(),
            r#type: Type::Coding,
            channel: Channel::Api,
            provider: "local".to_owned(),
            spec: with(spec(based, address)),
        };
        let id = sessions.create(new).await.unwrap();
        let session = sessions.open(id).await.unwrap();
        Self {
            local,
            store,
            sessions,
            session,
            requests,
            tasks,
            _directory: directory,
        }
    }

    async fn ask(&self, id: &str, content: &str) -> Status {
        let prompt = NewPrompt {
            id: id.to_owned(),
            channel: "web:default".to_owned(),
            mode: Mode::Followup,
            body: serde_json::to_string(&Ask::new(content)).unwrap(),
        };
        self.session.prompt(prompt).await.unwrap();
        let ended = tokio::time::timeout(ANSWER, self.is_over(id)).await;
        let Ok(status) = ended else {
            panic!("{id} has no end: {}", self.what_was_told().await);
        };
        status
    }

    async fn is_over(&self, id: &str) -> Status {
        loop {
            let found = self.store.find_prompt(self.session.session(), id).await;
            let status = found.unwrap().unwrap().status;
            if !matches!(
                status,
                Status::Queued | Status::Dispatched | Status::Accepted
            ) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn what_was_told(&self) -> String {
        let session = self.session.session();
        let told = self.store.events_after(session, 0, 500).await.unwrap();
        format!("{:?}, {told:?}", self.session.seen().borrow())
    }

    async fn last_answer(&self) -> String {
        let messages = self.store.last_messages(self.session.session(), 10).await;
        let messages = messages.unwrap();
        let texts = messages.last().unwrap().parts.iter();
        let texts = texts.filter_map(|part| part.content["text"].as_str());
        texts.collect::<Vec<_>>().join("|")
    }

    async fn end(mut self) {
        let place = self.session.seen().borrow().place;
        self.session.stop(StopReason::Manual).await.unwrap();
        self.sessions.shut_down().await;
        if let Some(place) = place {
            self.local.remove(place.sandbox).await.unwrap();
        }
        self.tasks.shutdown().await;
    }
}

fn spec(based: &Based, model: SocketAddr) -> Spec {
    Spec {
        base: Some(based.base.clone()),
        boot: boot(),
        machine: Machine {
            network: Network::None,
            forwards: vec![Forward {
                port: MODEL_PORT,
                to: model,
            }],
            ..Machine::default()
        },
        ..Spec::default()
    }
}

/// Prompt, pause, resume from memory, a prompt that remembers, another sandbox, and one more.
async fn a_whole_life(world: World) {
    let script = |text: &str| format!("!!{}", json!({ "text": text }));
    assert_eq!(world.ask("p1", &script("one")).await, Status::Finished);
    assert_eq!(world.last_answer().await, "one");
    let before = world.session.seen().borrow().place.unwrap();
    world.session.pause(PauseReason::Manual).await.unwrap();
    assert_eq!(world.session.seen().borrow().status, ClientStatus::Paused);
    assert_eq!(world.ask("p2", &script("two")).await, Status::Finished);
    assert_eq!(world.session.seen().borrow().place.unwrap(), before);
    let after = world.session.migrate().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
    assert_eq!(world.ask("p3", &script("three")).await, Status::Finished);
    assert_eq!(world.last_answer().await, "three");
    assert!(world.requests.count() >= 3);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_runner_calls_lives_through_pause_and_move() {
    let Some(based) = Based::slim() else { return };
    a_whole_life(World::new(&based, |spec| spec).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_runner_is_called_lives_through_pause_and_move() {
    let Some(based) = Based::slim() else { return };
    let world = World::new(&based, |spec| Spec {
        link: Some(LinkBy::Hub),
        ..spec
    });
    a_whole_life(world.await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_agent_is_driven_from_outside_through_pause_and_move() {
    let Some(based) = Based::slim() else { return };
    let configuration = json!({
        "model": "scripted/main",
        "small_model": "scripted/main",
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": { "baseURL": format!("http://127.0.0.1:{MODEL_PORT}/v1"), "apiKey": "none" },
            "models": { "main": { "name": "main" } },
        } },
    });
    let start = format!(
        "mkdir -p ~/.config/opencode ~/workspace && cd ~/workspace && \
         printf %s '{configuration}' > ~/.config/opencode/opencode.json && \
         exec opencode serve --hostname 127.0.0.1 --port 4096 > ~/agent.log 2>&1"
    );
    let world = World::new(&based, |spec| Spec {
        work: Work::Agent,
        start: ["bash", "-lc", &start].map(str::to_owned).to_vec(),
        ..spec
    });
    a_whole_life(world.await).await;
}
