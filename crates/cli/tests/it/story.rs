//! A session's sandbox from a bare disk to an answer, with the real agent. The hub is a double, and
//! so is the model.

use std::net::SocketAddr;
use std::time::Duration;

use provider::{
    ExecSpec, Finished, Forward, LinkBy, Origin, Provider as _, SandboxId, SandboxSpec, Workplace,
};
use provider_local::{Config, Local};
use testkit::hub::{Carrier, Hub, Way};
use testkit::model::{RequestLog, ScriptedModel};
use tokio::task::JoinSet;
use wire::link::{
    AgentConfig, AgentStatus, Boot, CustomProvider, FromHub, FromRunner, Model, PhaseState, Prompt,
    Repo, Use,
};

use crate::based::Based;
use crate::tools::Repository;

const SESSION: &str = "ses_story";
/// Of a machine that does other things, too.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// On the sandbox's loopback, where the model is found.
pub(crate) const MODEL_PORT: u16 = 8399;

/// A sandbox with a workplace, and its hub.
pub(crate) struct Story<'a> {
    based: &'a Based,
    pub(crate) local: Local,
    pub(crate) id: SandboxId,
    pub(crate) hub: Hub,
    pub(crate) tasks: JoinSet<()>,
}

impl<'a> Story<'a> {
    async fn begin(based: &'a Based, forwards: &[(u16, SocketAddr)]) -> Self {
        Self::begin_with(based, forwards, |spec| spec).await
    }

    /// In a sandbox with a property more.
    pub(crate) async fn begin_with(
        based: &'a Based,
        forwards: &[(u16, SocketAddr)],
        with: impl FnOnce(SandboxSpec) -> SandboxSpec,
    ) -> Self {
        let local = Local::open(&Config::at(based.nacre.home.path())).unwrap();
        let spec = with(spec(Origin::Snapshot(based.base.clone()), 1, forwards));
        Self::of(based, local, Hub::new(SESSION, 1), &spec).await
    }

    /// On a repository, with a model that does as its prompt says: how it is to boot, and what the
    /// model is asked.
    pub(crate) async fn on(based: &'a Based, repository: &Repository) -> (Self, Boot, RequestLog) {
        let model = ScriptedModel::listen(0).await.unwrap();
        let (address, requests) = (model.address().unwrap(), model.requests());
        let mut story = Self::begin(based, &[(MODEL_PORT, address), repository.forward()]).await;
        story.tasks.spawn(async move {
            let _ = model.run().await;
        });
        let boot = Boot {
            repos: vec![Repo {
                url: format!("http://127.0.0.1:{}/pearl.git", repository.port),
                ..Repo::default()
            }],
            ..boot()
        };
        (story, boot, requests)
    }

    /// The next sandbox of the same session.
    async fn from(before: Self, origin: Origin, forwards: &[(u16, SocketAddr)]) -> Self {
        before.local.remove(before.id).await.unwrap();
        let hub = before.hub.successor();
        Self::of(before.based, before.local, hub, &spec(origin, 2, forwards)).await
    }

    async fn of(based: &'a Based, local: Local, hub: Hub, spec: &SandboxSpec) -> Self {
        let id = local.create(spec).await.unwrap().id;
        based.goes_with_us(&id.to_string());
        Self {
            based,
            hub,
            local,
            id,
            tasks: JoinSet::new(),
        }
    }

    /// Says what it is to become, and waits for it.
    pub(crate) async fn boot(&mut self, boot: Boot) {
        self.hub.boot_with(boot);
        self.open_the_door().await;
        self.is_ready().await;
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

    pub(crate) async fn heard(
        &self,
        what: &str,
        is_it: impl Fn(&FromRunner) -> bool,
    ) -> FromRunner {
        let heard = self.hub.wait_for(is_it);
        let Ok(frame) = tokio::time::timeout(PATIENCE, heard).await else {
            panic!("{what} did not come; heard: {:#?}", self.hub.heard());
        };
        frame.body
    }

    pub(crate) async fn is_ready(&self) {
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

    /// Sends a prompt and waits for its end.
    pub(crate) async fn prompt(&self, id: &str, content: &str, chain: &[&str]) -> FromRunner {
        self.hub.say(FromHub::Prompt(Box::new(Prompt {
            chain: chain.iter().map(|model| (*model).to_owned()).collect(),
            agent_session: self.conversation(),
            ..Prompt::new(id, content)
        })));
        self.heard(&format!("the end of {id}"), |frame| frame.ends(id))
            .await
    }

    /// The agent's own name of it, as it was told last.
    fn conversation(&self) -> Option<String> {
        self.hub.look(|ledger| {
            let created = ledger.bodies().filter_map(|body| match body {
                FromRunner::ChannelSessionCreated { agent_session, .. } => {
                    Some(agent_session.clone())
                }
                _ => None,
            });
            created.last()
        })
    }

    /// The text of the answer to a prompt.
    fn answer(&self, id: &str) -> String {
        let found = self.hub.look(|ledger| {
            ledger.bodies().find_map(|body| match body {
                FromRunner::MessageDone {
                    prompt_id: Some(prompt),
                    text,
                    ..
                } if prompt == id => Some(text.clone()),
                _ => None,
            })
        });
        found.expect("it was answered")
    }

    /// Our name of the answer to a prompt.
    fn message(&self, id: &str) -> String {
        let found = self.hub.look(|ledger| {
            ledger.bodies().find_map(|body| match body {
                FromRunner::Message {
                    prompt_id: Some(prompt),
                    message_id,
                    ..
                } if prompt == id => Some(message_id.clone()),
                _ => None,
            })
        });
        found.expect("it was begun")
    }

    /// As the agent's user.
    pub(crate) async fn sh(&self, script: &str) -> String {
        self.sh_as("user", script).await
    }

    pub(crate) async fn sh_as(&self, user: &str, script: &str) -> String {
        let finished = self.try_as(user, script).await;
        let stdout = String::from_utf8_lossy(&finished.stdout).into_owned();
        assert_eq!(
            finished.exit.code,
            0,
            "{script}: {stdout}{}",
            String::from_utf8_lossy(&finished.stderr)
        );
        stdout
    }

    pub(crate) async fn try_as(&self, user: &str, script: &str) -> Finished {
        let spec = ExecSpec {
            user: Some(user.to_owned()),
            ..ExecSpec::new(["bash", "-lc", script])
        };
        let exec = self.local.exec(self.id, spec).await.unwrap();
        exec.finish().await.unwrap()
    }

    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        self.local.remove(self.id).await.unwrap();
    }
}

fn spec(origin: Origin, generation: u64, forwards: &[(u16, SocketAddr)]) -> SandboxSpec {
    let forward = |(port, to): &(u16, SocketAddr)| Forward {
        port: *port,
        to: *to,
    };
    SandboxSpec {
        generation,
        forwards: forwards.iter().map(forward).collect(),
        workplace: Some(Workplace {
            session: Some(SESSION.to_owned()),
            link: LinkBy::Door,
        }),
        ..SandboxSpec::from(origin)
    }
}

pub(crate) fn boot() -> Boot {
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
    let mut story = Story::begin(&based, &[]).await;
    story.boot(boot()).await;
    let mut phases: Vec<(String, PhaseState)> = story.hub.look(|ledger| {
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
    // The first two go on side by side.
    phases[..2].sort_by(|one, other| one.0.cmp(&other.0));
    let essential = ["git", "workspace", "freshness", "content", "agent"];
    assert_eq!(
        phases,
        essential.map(|name| (name.to_owned(), PhaseState::Done))
    );
    story.end().await;
}

/// Clone, prompt, edit, run, diff, a second prompt, an abort, another model, a cut link, a stop; and
/// from the snapshot the conversation goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_on_a_repository_and_goes_on_from_a_snapshot() {
    let Some(based) = Based::slim() else { return };
    let repository = Repository::serve();
    let (mut story, boot, requests) = Story::on(&based, &repository).await;
    story.boot(boot.clone()).await;

    // It edits and runs.
    let script = "Please.\n!!{\"tool\": \"bash\", \"input\": {\"command\": \"echo two >> layers && cat layers\", \"description\": \"append\"}}\n!!{\"text\": \"Done with it.\"}";
    let end = story.prompt("p1", script, &[]).await;
    assert!(matches!(end, FromRunner::Complete { .. }), "{end:?}");
    assert_eq!(story.answer("p1"), "Done with it.");
    assert_eq!(
        story.sh("cat ~/workspace/pearl/layers").await,
        "nacre\ntwo\n"
    );

    // It remembers, and another model answers where the first one has no room.
    let end = story
        .prompt("p2", "Again.", &["scripted/busy-429", "scripted/other"])
        .await;
    assert!(matches!(end, FromRunner::Complete { .. }), "{end:?}");
    let switched = story.hub.look(|ledger| {
        ledger.bodies().any(
            |body| matches!(body, FromRunner::ModelSwitched { to, .. } if to == "scripted/other"),
        )
    });
    assert!(switched, "{:#?}", story.hub.heard());
    assert!(requests.count_of("other") >= 1);

    // What it did can be looked at.
    story.hub.say(FromHub::Diff {
        request_id: "d1".to_owned(),
        channel: None,
    });
    let diff = story
        .heard("the diff", |frame| {
            matches!(frame, FromRunner::DiffResult { .. })
        })
        .await;
    let FromRunner::DiffResult { files, error, .. } = diff else {
        unreachable!("it was waited for");
    };
    assert_eq!(error, None);
    assert_eq!(files.len(), 1, "{files:?}");

    // A turn that takes long is ended.
    let slow = "!!{\"tool\": \"bash\", \"input\": {\"command\": \"sleep 600\", \"description\": \"wait\"}}";
    let cancel = async {
        story
            .heard("the tool", |frame| {
                matches!(frame, FromRunner::AgentStatus { detail: Some(tool), .. } if tool == "bash")
            })
            .await;
        story.hub.say(FromHub::Cancel { channel: None });
    };
    let (end, ()) = tokio::join!(story.prompt("p3", slow, &[]), cancel);
    assert!(matches!(end, FromRunner::Canceled { .. }), "{end:?}");
    assert_eq!(story.sh("pgrep -f '^sleep 600' || true").await, "");

    is_whole_after_its_hub_died(&story).await;
    is_seen_in_the_preview(&story).await;

    // Stopped, started from the snapshot: the conversation goes on.
    let asked = requests.count();
    let snapshot = story.local.stop(story.id).await.unwrap().snapshot.unwrap();
    story.tasks.shutdown().await;
    let again = ScriptedModel::listen(0).await.unwrap();
    let (address, requests) = (again.address().unwrap(), again.requests());
    let mut story = Story::from(story, Origin::Snapshot(snapshot), &[(MODEL_PORT, address)]).await;
    story.tasks.spawn(async move {
        let _ = again.run().await;
    });
    story.boot(boot).await;
    let end = story.prompt("p5", "What did I say first?", &[]).await;
    assert!(matches!(end, FromRunner::Complete { .. }), "{end:?}");
    let told = requests.shown().last().unwrap().to_string();
    assert!(told.contains("Done with it."), "{told}");
    assert!(asked > 0);

    // What was answered before the snapshot can be taken back by its name.
    story.hub.say(FromHub::Revert {
        message_id: story.message("p1"),
        request_id: Some("r1".to_owned()),
        channel: None,
    });
    let reverted = story
        .heard("the revert", |frame| {
            matches!(frame, FromRunner::Reverted { .. })
        })
        .await;
    assert!(
        matches!(&reverted, FromRunner::Reverted { error: None, message_ids, .. } if message_ids.len() > 1),
        "{reverted:?}"
    );
    assert_eq!(story.sh("cat ~/workspace/pearl/layers").await, "nacre\n");
    story.end().await;
}

/// The hub dies in the middle of an answer and has all of it when it is back.
async fn is_whole_after_its_hub_died(story: &Story<'_>) {
    let words = "word ".repeat(60);
    let long = format!("!!{{\"text\": \"{}\", \"delay_ms\": 20}}", words.trim());
    let cut = async {
        story
            .heard("a beginning", |frame| {
                matches!(frame, FromRunner::Message { prompt_id: Some(id), .. } if id == "p4")
            })
            .await;
        story.hub.die_and_come_back();
    };
    let (end, ()) = tokio::join!(story.prompt("p4", &long, &[]), cut);
    assert!(matches!(end, FromRunner::Complete { .. }), "{end:?}");
    assert_eq!(story.answer("p4"), words.trim());
}

async fn is_seen_in_the_preview(story: &Story<'_>) {
    let shown = story
        .sh(
            "nacre services start --name web --command 'python3 -m http.server 3000' >/dev/null && \
             nacre services expose 3000 >/dev/null && \
             for i in $(seq 300); do \
               curl -sf -o /dev/null http://127.0.0.1:20000/ && echo shown && exit 0; sleep 0.1; \
             done; exit 1",
        )
        .await;
    assert_eq!(shown, "shown\n");
    story
        .heard(
            "that somebody looked",
            |frame| matches!(frame, FromRunner::Activity { uses } if uses.contains(&Use::Request)),
        )
        .await;
}
