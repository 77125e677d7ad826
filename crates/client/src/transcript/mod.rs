//! A session as its frames tell it: what people see. It does nothing and asks for nothing, so the
//! same frames always come to the same.

mod message;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use wire::link::{AgentStatus, Phase};
use wire::v1::{ClientStatus, Event, Init, Message, Prompt, PromptStatus, Session, Watcher};

pub use self::message::{HeldMessage, HeldPart, Usage};
use crate::{Body, Frame};

/// Prompts that are over are remembered for as long as this many others.
const PROMPTS: usize = 256;

/// Serialized it is the same as what the TypeScript client makes of the same frames.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Transcript {
    /// The number of the last frame in it.
    pub seq: u64,
    /// As the last `init` told it. What changes is beside it.
    #[serde(skip)]
    pub session: Option<Session>,
    pub title: Option<String>,
    pub status: Option<Standing>,
    /// In the order in which they were opened.
    messages: Vec<HeldMessage>,
    /// In the order in which they were first heard of.
    prompts: Vec<HeldPrompt>,
    /// The events that asked: questions and permissions that wait for a person.
    questions: Vec<Value>,
    /// By channel; of the whole workplace under the empty name.
    agents: BTreeMap<String, AgentState>,
    pub watchers: Vec<Watcher>,
    pub preview_url: Option<String>,
}

/// How the session is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    pub status: ClientStatus,
    pub message: Option<String>,
    /// The last step of a start that was told of.
    pub phase: Option<Phase>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldPrompt {
    pub id: String,
    pub status: PromptStatus,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentState {
    pub status: AgentStatus,
    pub detail: Option<String>,
}

impl Transcript {
    /// Frames as a [`crate::Follow`] gives them. One that is in it already changes nothing.
    pub fn apply(&mut self, frame: &Frame) {
        match &frame.body {
            Body::Init(init) => self.begin(init, &frame.value()),
            Body::Event(event) => match frame.seq {
                Some(seq) if seq <= self.seq => {}
                Some(seq) => {
                    self.seq = seq;
                    self.hear(event, seq, frame);
                }
                None => self.overhear(event),
            },
        }
    }

    pub fn messages(&self) -> &[HeldMessage] {
        &self.messages
    }

    pub fn message(&self, id: &str) -> Option<&HeldMessage> {
        self.messages.iter().find(|message| message.id == id)
    }

    pub fn prompts(&self) -> &[HeldPrompt] {
        &self.prompts
    }

    /// What became of a prompt, as far as was told since the last `init`.
    pub fn prompt(&self, id: &str) -> Option<&HeldPrompt> {
        self.prompts.iter().find(|prompt| prompt.id == id)
    }

    /// The events that asked, and wait for a person.
    pub fn questions(&self) -> &[Value] {
        &self.questions
    }

    /// What the agent does on a channel, or as a whole.
    pub fn agent(&self, channel: Option<&str>) -> Option<&AgentState> {
        self.agents.get(channel.unwrap_or_default())
    }

    /// What the messages that are held cost, together.
    pub fn usage(&self) -> Usage {
        self.messages.iter().map(HeldMessage::usage).sum()
    }

    /// Messages before those that an `init` brought (`GET …/messages` has them).
    pub fn add_older(&mut self, older: Vec<Message>) {
        let first = self.messages.first().map_or(u64::MAX, |held| held.position);
        let older = older.into_iter().filter(|older| older.position < first);
        self.messages.extend(older.map(HeldMessage::from));
        self.messages.sort_by_key(|held| held.position);
        self.messages.dedup_by(|one, other| one.id == other.id);
    }

    fn begin(&mut self, init: &Init, whole: &Value) {
        let session = &init.session;
        // A server that tells of waiting prompts here tells of all of them.
        let prompts = whole.get("prompts").cloned().unwrap_or_default();
        let prompts: Vec<Prompt> = serde_json::from_value(prompts).unwrap_or_default();
        let mut messages: Vec<_> = init
            .messages
            .iter()
            .cloned()
            .map(HeldMessage::from)
            .collect();
        messages.sort_by_key(|held| held.position);
        *self = Self {
            seq: init.seq,
            title: Some(session.title.clone()),
            status: Some(Standing {
                status: session.client_status,
                message: session.error.clone(),
                phase: None,
            }),
            messages,
            prompts: prompts.into_iter().map(HeldPrompt::from).collect(),
            questions: init.questions.iter().map(without_number).collect(),
            agents: BTreeMap::new(),
            // They are told of after it, and were there before.
            watchers: std::mem::take(&mut self.watchers),
            preview_url: init.runtime.preview_url.clone(),
            session: Some(session.clone()),
        };
    }

    fn hear(&mut self, event: &Event, seq: u64, frame: &Frame) {
        match event {
            Event::Title { title } => self.title = Some(title.clone()),
            Event::Message(opened) => {
                if self.message(&opened.message_id).is_none() {
                    self.messages.push(HeldMessage::open(opened, seq));
                }
            }
            Event::Part(part) if !part.open => {
                self.with_open(&part.message_id, |held| held.put(part, seq));
            }
            Event::PartRemoved {
                message_id,
                part_id,
            } => self.with_open(message_id, |held| held.remove(part_id)),
            Event::MessageRemoved { message_id } => {
                self.messages.retain(|held| held.id != *message_id);
            }
            Event::MessageDone {
                message_id,
                reason,
                error,
                usage,
            } => self.with_open(message_id, |held| {
                held.close(*reason, error.as_deref(), usage.as_ref());
            }),
            Event::Reverted { message_ids, .. } => {
                for held in &mut self.messages {
                    held.reverted |= message_ids.contains(&held.id);
                }
            }
            Event::Prompt { id, status, reason } => self.prompt_is(id, *status, reason.as_deref()),
            Event::Question(_) | Event::Permission(_) => {
                self.questions.push(without_number(&frame.value()));
            }
            Event::QuestionClosed { question_id, .. } => {
                self.questions
                    .retain(|asked| asked["question_id"] != **question_id);
            }
            Event::PermissionClosed { id, .. } => {
                self.questions.retain(|asked| asked["id"] != **id);
            }
            Event::AgentStatus {
                status,
                detail,
                channel,
                ..
            } => {
                let state = AgentState {
                    status: *status,
                    detail: detail.clone(),
                };
                self.agents
                    .insert(channel.clone().unwrap_or_default(), state);
            }
            Event::PreviewUrl { url } => self.preview_url.clone_from(url),
            _ => self.overhear(event),
        }
    }

    /// What may be said in passing.
    fn overhear(&mut self, event: &Event) {
        match event {
            // Without a number it answers `get_status`.
            Event::Status {
                status,
                message,
                phase,
                ..
            } => {
                self.status = Some(Standing {
                    status: *status,
                    message: message.clone(),
                    phase: phase.clone(),
                });
            }
            Event::Presence { watchers } => self.watchers.clone_from(watchers),
            Event::Part(part) if part.open => {
                self.with_open(&part.message_id, |held| held.show(part));
            }
            Event::PartDelta {
                message_id,
                part_id,
                offset,
                text,
            } => self.with_open(message_id, |held| held.grow(part_id, *offset, text)),
            _ => {}
        }
    }

    fn with_open(&mut self, id: &str, change: impl FnOnce(&mut HeldMessage)) {
        // Newest first: it is nearly always the last one.
        let held = self.messages.iter_mut().rev().find(|held| held.id == id);
        if let Some(held) = held.filter(|held| !held.done) {
            change(held);
        }
    }

    fn prompt_is(&mut self, id: &str, status: PromptStatus, reason: Option<&str>) {
        let reason = reason.map(str::to_owned);
        if let Some(known) = self.prompts.iter_mut().find(|known| known.id == id) {
            (known.status, known.reason) = (status, reason);
            return;
        }
        if self.prompts.len() >= PROMPTS
            && let Some(over) = self.prompts.iter().position(|old| old.status.is_over())
        {
            self.prompts.remove(over);
        }
        let id = id.to_owned();
        self.prompts.push(HeldPrompt { id, status, reason });
    }
}

impl From<Prompt> for HeldPrompt {
    fn from(prompt: Prompt) -> Self {
        Self {
            id: prompt.id,
            status: prompt.status,
            reason: prompt.reason,
        }
    }
}

fn without_number(event: &Value) -> Value {
    let mut event = event.clone();
    if let Some(fields) = event.as_object_mut() {
        fields.remove("seq");
    }
    event
}
