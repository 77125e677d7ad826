//! A client and a recorded agent, in memory and in paused time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::configuration::PermissionPolicy;
use agent::event::{Event, Happening, Mark, PermissionId, QuestionId, SessionRef};
use agent::opencode::{self, Connected, OpenCode, Settings, Unhealthy};
use agent::prompt::Prompt;
use agent::{Agent as _, ChannelKey, Scope, SlashCommand};
use model::{Clock, ManualClock, Secret, SignedDuration, Timestamp};
use serde_json::Value;
use testkit::memory;
use testkit::replay::{Cut, Deed, Recording, Replay, ReplayControl};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_mins(10);

/// How a recording is played.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    pub(crate) models: Vec<&'static str>,
    /// Aborts in it are cancels of a person, not the client's own.
    pub(crate) canceled: bool,
    /// Which deeds somebody else did.
    pub(crate) foreign: fn(&Deed, usize) -> bool,
    pub(crate) cut: Option<Cut>,
}

impl Play {
    pub(crate) fn new() -> Play {
        Play {
            models: Vec::new(),
            canceled: false,
            foreign: |deed, _| matches!(deed, Deed::Other(_)),
            cut: None,
        }
    }
}

pub(crate) fn recording(name: &str) -> Recording {
    let path = format!(
        "{}/tests/transcripts/{name}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    Recording::read(&fs_err::read_to_string(path).unwrap())
}

pub(crate) struct World {
    agent: OpenCode,
    clock: Arc<ManualClock>,
    heard: Arc<Heard>,
    control: ReplayControl,
    recording: Recording,
    play: Play,
    prompts: usize,
    tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Heard {
    events: Mutex<Vec<Event>>,
    more: Notify,
}

impl World {
    pub(crate) async fn connect(recording: Recording, play: Play) -> Result<World, Unhealthy> {
        let (dial, listener) = memory::network();
        let foreign: Vec<usize> = recording
            .deeds()
            .enumerate()
            .filter(|(place, (deed, _))| (play.foreign)(deed, *place))
            .map(|(place, _)| place)
            .collect();
        let (replay, control) = Replay::new(recording.clone(), &foreign, play.cut, listener);
        let start = recording.prompts().first().map_or(1, |(_, ms)| *ms);
        let clock = Arc::new(ManualClock::starting_at(
            Timestamp::from_millisecond(start).unwrap(),
        ));
        let mut tasks = JoinSet::new();
        tasks.spawn(replay.run());
        let connected = opencode::connect(Settings {
            dial: Arc::new(dial),
            password: Secret::new("hunter22"),
            clock: clock.clone(),
            permissions: PermissionPolicy::Ask,
            model: Some("fake/scripted".parse().unwrap()),
            transcriber: None,
            memory: None,
            health_limit: Duration::from_mins(1),
        })
        .await?;
        let Connected {
            agent,
            driver,
            mut events,
        } = connected;
        let heard = Arc::new(Heard::default());
        let ears = heard.clone();
        tasks.spawn(driver.run());
        tasks.spawn(async move {
            while let Some(event) = events.recv().await {
                ears.events.lock().unwrap().push(event);
                ears.more.notify_waiters();
            }
        });
        Ok(World {
            agent,
            clock,
            heard,
            control,
            recording,
            play,
            prompts: 0,
            tasks,
        })
    }

    /// Does what was done in the recording, and answers what was heard.
    pub(crate) async fn play(mut self) -> Vec<Event> {
        let mut last = None;
        let bodies: Vec<(Deed, Value)> = self
            .recording
            .deeds()
            .map(|(deed, body)| (deed.clone(), body.clone()))
            .collect();
        loop {
            let next = timeout(LONG, self.control.next_deed(last)).await;
            let Some((place, deed)) = next.expect("the recording goes on") else {
                break;
            };
            last = Some(place);
            let body = bodies.iter().find(|(known, _)| *known == deed);
            let body = body.map_or(Value::Null, |(_, body)| body.clone());
            self.act(deed, &body).await;
        }
        let count = self.prompts;
        self.until(|events| ended(events) >= count).await;
        // Changed files follow.
        sleep(Duration::from_secs(2)).await;
        self.tasks.shutdown().await;
        self.events()
    }

    async fn act(&mut self, deed: Deed, body: &Value) {
        let web = ChannelKey::web;
        if matches!(deed, Deed::Revert { .. } | Deed::Unrevert { .. }) {
            let count = self.prompts;
            self.until(|events| ended(events) >= count).await;
        }
        match deed {
            Deed::Begin => self.prompt(None).await,
            Deed::Prompt { .. } if self.has_just_begun() => {}
            // The client itself sends it again, to another model.
            Deed::Prompt { .. } if self.is_busy() && self.play.models.len() > 1 => {}
            Deed::Prompt { session } => {
                let count = self.prompts;
                self.until(|events| ended(events) >= count).await;
                self.prompt(Some(session)).await;
            }
            Deed::Abort { .. } if self.play.canceled => {
                let scope = Scope::Channel(web());
                let canceled = self.agent.cancel(scope).await.unwrap();
                assert_eq!(canceled.len(), 1);
            }
            Deed::Permission { id } => {
                self.until(|events| events.iter().any(|event| is_permission(event, &id)))
                    .await;
                let reply = body["reply"].as_str().or(body["response"].as_str());
                let id = PermissionId(id);
                match reply {
                    Some("reject") => self.agent.refuse(id).await.unwrap(),
                    _ => self.agent.allow(id).await.unwrap(),
                }
            }
            Deed::Question { id } => {
                self.until(|events| events.iter().any(|event| is_question(event, &id)))
                    .await;
                let answers = body["answers"].as_array().cloned().unwrap_or_default();
                for (item, answer) in answers.into_iter().enumerate() {
                    let chosen = serde_json::from_value(answer).unwrap();
                    let id = QuestionId(id.clone());
                    self.agent.answer(id, item, chosen).await.unwrap();
                }
                // Without an answer it expires.
            }
            Deed::Revert { .. } => {
                let mark = self.last_mark();
                self.agent.revert(web(), mark).await.unwrap();
            }
            Deed::Unrevert { .. } => {
                let redo = self.agent.command(web(), SlashCommand::Redo);
                redo.await.unwrap();
            }
            Deed::Summarize { .. } => {
                let compact = self.agent.command(web(), SlashCommand::Compact);
                compact.await.unwrap();
            }
            Deed::Abort { .. } | Deed::Other(_) => {}
        }
    }

    async fn prompt(&mut self, session: Option<String>) {
        let made = self.recording.prompts();
        if let Some((_, ms)) = made.get(self.prompts) {
            let now = self.clock.now().as_millisecond();
            self.clock
                .advance(SignedDuration::from_millis((*ms - now).max(0)));
        }
        self.prompts += 1;
        let id = format!("prompt-{}", self.prompts);
        let mut prompt = Prompt::text(&id, ChannelKey::web(), "as recorded");
        let models = self.play.models.iter();
        prompt.models = models.map(|model| model.parse().unwrap()).collect();
        prompt.session = session.map(SessionRef);
        self.agent.accept(prompt).await.unwrap().start();
    }

    /// The prompt that began the session is on its way.
    fn has_just_begun(&self) -> bool {
        let events = self.heard.events.lock().unwrap();
        self.prompts > taken(&events)
    }

    fn is_busy(&self) -> bool {
        let events = self.heard.events.lock().unwrap();
        self.prompts > ended(&events)
    }

    fn last_mark(&self) -> Mark {
        let events = self.heard.events.lock().unwrap();
        let mut marks = events.iter().rev().filter_map(|e| match &e.happening {
            Happening::PromptTaken { mark, .. } => Some(mark.clone()),
            _ => None,
        });
        marks.next().expect("a prompt was taken")
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&[Event]) -> bool) {
        let waiting = async {
            loop {
                let more = self.heard.more.notified();
                if is_so(&self.heard.events.lock().unwrap()) {
                    return;
                }
                more.await;
            }
        };
        let came = timeout(LONG, waiting).await;
        assert!(
            came.is_ok(),
            "it does not come; heard: {:#?}",
            self.events()
        );
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.heard.events.lock().unwrap().clone()
    }
}

fn taken(events: &[Event]) -> usize {
    let prompts: std::collections::HashSet<_> = events
        .iter()
        .filter_map(|event| match &event.happening {
            Happening::PromptTaken { prompt, .. } => Some(prompt),
            _ => None,
        })
        .collect();
    prompts.len()
}

fn ended(events: &[Event]) -> usize {
    let ends = events.iter();
    ends.filter(|event| matches!(event.happening, Happening::TurnDone { .. }))
        .count()
}

fn is_permission(event: &Event, id: &str) -> bool {
    matches!(&event.happening, Happening::Permission(open) if open.permission.0 == *id)
}

fn is_question(event: &Event, id: &str) -> bool {
    matches!(&event.happening, Happening::Question(open) if open.question.0 == *id)
}

/// Events as lines, with names in place of ids.
pub(crate) fn lines(events: &[Event]) -> String {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut lines = Vec::new();
    for event in events {
        let mut value = serde_json::to_value(event).unwrap();
        name_ids(&mut value, &mut names);
        lines.push(value.to_string());
    }
    lines.join("\n")
}

fn name_ids(value: &mut Value, names: &mut HashMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                if key == "expires_at" {
                    *value = Value::from("in 300 s");
                } else if [
                    "turn",
                    "part",
                    "under",
                    "mark",
                    "session",
                    "question",
                    "permission",
                ]
                .contains(&key.as_str())
                    && let Some(id) = value.as_str()
                {
                    let next = names.values().filter(|name| name.starts_with(key)).count() + 1;
                    let known = names.iter().find(|(known, _)| *known == id);
                    let name = known.map(|(_, name)| name.clone());
                    let name = name.unwrap_or_else(|| format!("{key}-{next}"));
                    names.insert(id.to_owned(), name.clone());
                    *value = Value::from(name);
                } else {
                    name_ids(value, names);
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                name_ids(value, names);
            }
        }
        _ => {}
    }
}
