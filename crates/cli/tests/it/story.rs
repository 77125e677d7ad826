//! A session's sandbox from a bare disk to an answer, with the real agent. The hub is a double, and
//! so is the model.

use std::time::Duration;

use provider::{Forward, LinkBy, Origin, Provider as _, SandboxId, SandboxSpec, Workplace};
use provider_local::{Config, Local};
use testkit::hub::{Carrier, Hub, Way};
use tokio::task::JoinSet;
use wire::link::{
    AgentConfig, AgentStatus, Boot, CustomProvider, FromHub, FromRunner, Model, PhaseState,
};

use crate::based::Based;

const SESSION: &str = "ses_story";
/// On the sandbox's loopback, where the model is found.
const MODEL_PORT: u16 = 8399;

/// A sandbox with a workplace, and its hub.
struct Story {
    local: Local,
    id: SandboxId,
    hub: Hub,
    tasks: JoinSet<()>,
}

impl Story {
    async fn begin(based: &Based, model: Option<std::net::SocketAddr>) -> Self {
        let local = Local::open(&Config::at(based.nacre.home.path())).unwrap();
        let base = local.base().unwrap().expect("a base was built");
        let spec = SandboxSpec {
            forwards: model
                .map(|to| Forward {
                    port: MODEL_PORT,
                    to,
                })
                .into_iter()
                .collect(),
            workplace: Some(Workplace {
                session: Some(SESSION.to_owned()),
                link: LinkBy::Door,
            }),
            ..SandboxSpec::from(Origin::Snapshot(base))
        };
        let id = local.create(&spec).await.unwrap().id;
        let mut story = Self {
            hub: Hub::new(SESSION, 1),
            local,
            id,
            tasks: JoinSet::new(),
        };
        story.open_the_door().await;
        story
    }

    /// Whoever knocks is served, one after the other.
    async fn open_the_door(&mut self) {
        let mut door = self.local.serve(self.id, "link").await.unwrap();
        let hub = self.hub.clone();
        self.tasks.spawn(async move {
            while let Ok(stream) = door.accept().await {
                let carrier = Carrier::new(stream, Way::Lines).await;
                hub.serve(carrier).await;
            }
        });
    }

    async fn heard(&self, what: &str, is_it: impl Fn(&FromRunner) -> bool) -> FromRunner {
        let heard = tokio::time::timeout(Duration::from_secs(60), self.hub.wait_for(is_it)).await;
        match heard {
            Ok(frame) => frame.body,
            Err(_) => panic!("{what} did not come; heard: {:#?}", self.hub.heard()),
        }
    }

    async fn is_ready(&self) {
        let ready = self
            .heard("readiness", |frame| {
                matches!(
                    frame,
                    FromRunner::AgentStatus {
                        status: AgentStatus::Idle | AgentStatus::Error,
                        channel: None,
                        ..
                    }
                )
            })
            .await;
        assert!(
            matches!(
                ready,
                FromRunner::AgentStatus {
                    status: AgentStatus::Idle,
                    ..
                }
            ),
            "{ready:?}; heard: {:#?}",
            self.hub.heard()
        );
    }

    async fn end(mut self) {
        self.tasks.shutdown().await;
        self.local.remove(self.id).await.unwrap();
    }
}

fn boot() -> Boot {
    let model = |id: &str| Model {
        id: id.to_owned(),
        name: None,
        context_limit: None,
        output_limit: None,
    };
    Boot {
        agent: AgentConfig {
            model: Some("scripted/main".to_owned()),
            small_model: Some("scripted/main".to_owned()),
            custom_providers: vec![CustomProvider {
                id: "scripted".to_owned(),
                name: "Scripted".to_owned(),
                base_url: format!("http://127.0.0.1:{MODEL_PORT}/v1"),
                models: ["main", "other", "busy-429"].map(model).to_vec(),
            }],
            ..AgentConfig::default()
        },
        ..Boot::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_workspace_boots_to_a_ready_agent() {
    let Some(based) = Based::slim() else { return };
    let story = Story::begin(&based, None).await;
    story.hub.say(FromHub::Init(Box::new(boot())));
    story.is_ready().await;
    let phases: Vec<(String, PhaseState)> = story.hub.look(|ledger| {
        ledger
            .bodies()
            .filter_map(|body| match body {
                FromRunner::Phase(phase) if phase.state != PhaseState::Started => {
                    Some((phase.name.clone(), phase.state))
                }
                _ => None,
            })
            .take(5)
            .collect()
    });
    let essential = ["git", "workspace", "freshness", "content", "agent"];
    assert_eq!(
        phases,
        essential.map(|name| (name.to_owned(), PhaseState::Done))
    );
    story.end().await;
}
