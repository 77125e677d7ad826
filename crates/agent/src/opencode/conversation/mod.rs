//! One channel's conversation: what comes in, what is shown, what is asked of the agent. Pure; the
//! driver does what it calls for and tells it how that went.
//!
//! | phase | and then | next |
//! |---|---|---|
//! | preparing | a session is there | sending |
//! | preparing | canceled | done, canceled: the agent was never called |
//! | sending | taken | running |
//! | sending | the session is gone | preparing, once, with a new one |
//! | sending | refused or unreachable | done, error |
//! | running | idle; an error without idle for 5 s | looking |
//! | running | `retry`, and another model may be asked | aborting, to switch |
//! | running | `retry` for the fifth time; silence | aborting, to switch or give up |
//! | running | too long for the model, and another may be asked | aborting, to switch |
//! | running | too long for the model, for the first time | running: the agent sums up what was said |
//! | running | too long for the model, for the second time | aborting, to give up |
//! | running | canceled | aborting |
//! | looking | still busy, or no sign of an end | running |
//! | looking | over, with an answer | done, end of turn |
//! | looking | over, with a failure of the model's | sending, with the next model, or done, error |
//! | aborting | confirmed: canceled | done, canceled |
//! | aborting | confirmed: to switch | sending, with the next model |
//! | aborting | confirmed: given up | done, error |
//! | any | the process ended | done, error; in preparing: waits for the next process |
//!
//! Idle alone ends nothing: it may be the last turn's, and it may come twice, early or never. What
//! ends a turn is an answer that is over, read from the conversation itself.

mod asks;
mod calls;
mod end;
mod stream;
mod usage;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::Clock;
use serde_json::json;
use tokio::time::Instant;

use self::asks::Asks;
pub(super) use self::calls::{Call, Look, Out, Prepared, Verified};
pub(super) use self::stream::{changed_file, list_changes};
use super::api::Sending;
use super::http::HttpError;
use super::ids::Ids;
use super::launch::author_metadata;
use super::wire;
use crate::agent::Held;
use crate::channel::ChannelKey;
use crate::configuration::PermissionPolicy;
use crate::event::{Happening, Mark, Reason, SessionRef, Status, Tried, TurnError, UsedBy};
use crate::failure::{Failure, FailureKind};
use crate::prompt::{ModelName, Prompt, PromptId, told};
use crate::turn::Turn;

/// How long a model may take to begin its answer, counted from the last sign of life.
const FIRST_ANSWER: Duration = Duration::from_secs(90);
/// How long nothing may come when no tool runs and nobody is asked.
const SILENCE: Duration = Duration::from_mins(5);
/// An error is followed by idle, except when it is not.
const ERROR_WITHOUT_IDLE: Duration = Duration::from_secs(5);
/// When nothing says that a turn is over or under way, it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const AFTER_ABORT: Duration = Duration::from_millis(100);
/// What is looked at after an abort is settled at once; so many looks are more than enough.
const MOST_LOOKS: u32 = 20;
/// The list of changed files follows the end of a turn.
const CHANGES_FOLLOW: Duration = Duration::from_secs(1);
/// With no other model to ask, the agent's own retries are waited for, this often.
const MOST_RETRIES: u32 = 4;
const MOST_SENDS: u32 = 3;
/// So often the agent may sum up what was said and try again.
const MOST_OVERFLOWS: u32 = 1;

pub(super) struct Conversation {
    pub(super) channel: ChannelKey,
    pub(super) session: Option<String>,
    pub(super) verified: Verified,
    clock: Arc<dyn Clock>,
    policy: PermissionPolicy,
    ids: Ids,
    serial: u64,
    running: Option<Running>,
    asks: Asks,
    status: Status,
    last_error: Option<TurnError>,
    /// A turn whose changed files have not been listed.
    unlisted: Option<Unlisted>,
}

struct Running {
    serial: u64,
    prompt: Prompt,
    turn: Turn,
    phase: Phase,
    /// The agent's id of the prompt, and what is sent under it.
    mark: String,
    sending: Option<Arc<Sending>>,
    sends: u32,
    made_anew: bool,
    at: usize,
    tried: Vec<Tried>,
    failure: Option<Failure>,
    /// Messages of this attempt, by id.
    answers: BTreeMap<String, wire::Message>,
    /// Those of attempts that failed, and what they took.
    retired: HashSet<String>,
    spent: Vec<UsedBy>,
    /// Sessions of subagents, and the key of the call that began each.
    children: HashMap<String, Option<String>>,
    answered: bool,
    last_activity: Instant,
    look_at: Option<Instant>,
    look_again: bool,
    looks: u32,
    /// How often the conversation was too long for the model.
    overflows: u32,
    /// Characters of the pictures that tools brought.
    pictured: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Preparing,
    Sending { canceled: bool },
    Running,
    Looking,
    Aborting { why: Why, confirmed: bool },
}

#[derive(Debug, Clone, PartialEq)]
enum Why {
    Cancel,
    Switch(Failure),
    GiveUp(Failure),
}

struct Unlisted {
    turn: model::Id<crate::event::Turn>,
    mark: String,
    by: Instant,
}

impl Conversation {
    pub(super) fn new(
        channel: ChannelKey,
        clock: Arc<dyn Clock>,
        policy: PermissionPolicy,
    ) -> Conversation {
        Conversation {
            channel,
            session: None,
            verified: Verified::No,
            clock,
            policy,
            ids: Ids::default(),
            serial: 0,
            running: None,
            asks: Asks::default(),
            status: Status::Idle,
            last_error: None,
            unlisted: None,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the turn is on its way out because somebody canceled it.
    pub(super) fn is_being_canceled(&self) -> bool {
        self.running.as_ref().is_some_and(|running| {
            matches!(
                running.phase,
                Phase::Aborting {
                    why: Why::Cancel,
                    ..
                } | Phase::Sending { canceled: true }
            )
        })
    }

    pub(super) fn prompt(&self) -> Option<&PromptId> {
        self.running.as_ref().map(|running| &running.prompt.id)
    }

    /// Whether events of that session are this conversation's.
    pub(super) fn owns(&self, session: &str) -> bool {
        self.session.as_deref() == Some(session)
            || self
                .running
                .as_ref()
                .is_some_and(|running| running.children.contains_key(session))
    }

    pub(super) fn holds(&self) -> Held {
        let running = self.running.as_ref();
        let open = running.filter(|running| running.turn.is_open());
        Held {
            channel: self.channel.clone(),
            session: self.session.clone().map(SessionRef),
            subagents: running.map_or_else(Vec::new, |running| {
                let children = running.children.keys();
                children.cloned().map(SessionRef).collect()
            }),
            status: self.status.clone(),
            prompt: running.map(|running| running.prompt.id.clone()),
            turn: open.map(|running| running.turn.id()),
            open_parts: open.map_or_else(Vec::new, |running| running.turn.open_parts()),
            questions: self.asks.questions(),
            permissions: self.asks.permissions(),
            last_error: self.last_error.clone(),
        }
    }

    /// The caller has written down that it was accepted; now the agent may hear of it.
    pub(super) fn start(&mut self, mut prompt: Prompt, now: Instant, out: &mut Out) {
        self.serial += 1;
        // What the caller remembers is newer than what nobody has looked at since.
        if let Some(told) = prompt.session.take()
            && (self.session.is_none() || self.verified == Verified::No)
        {
            self.session = Some(told.0);
            self.verified = Verified::No;
        }
        self.last_error = None;
        self.set_status(Status::Thinking, out);
        let audio = prompt.attachments.iter().filter(|a| a.is_audio()).cloned();
        out.calls.push(Call::Prepare {
            serial: self.serial,
            audio: audio.collect(),
            known: self.session.clone(),
            verified: self.verified,
        });
        self.running = Some(Running {
            serial: self.serial,
            turn: Turn::new(prompt.id.clone(), self.clock.clone()),
            prompt,
            phase: Phase::Preparing,
            mark: String::new(),
            sending: None,
            sends: 0,
            made_anew: false,
            at: 0,
            tried: Vec::new(),
            failure: None,
            answers: BTreeMap::new(),
            retired: HashSet::new(),
            spent: Vec::new(),
            children: HashMap::new(),
            answered: false,
            last_activity: now,
            look_at: None,
            look_again: false,
            looks: 0,
            overflows: 0,
            pictured: 0,
        });
    }

    pub(super) fn prepared(
        &mut self,
        serial: u64,
        result: Result<Prepared, HttpError>,
        now: Instant,
        out: &mut Out,
    ) {
        // What was prepared for a prompt that is over is not the session of the one after it.
        if let Ok(prepared) = &result
            && serial == self.serial
        {
            self.session = Some(prepared.session.clone());
            self.verified = Verified::Yes;
            if let Some(why) = prepared.new {
                out.happenings.push(Happening::SessionStarted {
                    session: SessionRef(prepared.session.clone()),
                    why,
                });
            }
        }
        let Some(running) = self.in_phase(serial, &Phase::Preparing) else {
            return;
        };
        let prepared = match result {
            Ok(prepared) => prepared,
            Err(error) => {
                let message = format!("the agent's session could not be prepared: {error}");
                return self.fail(message, now, out);
            }
        };
        for text in &prepared.heard {
            out.happenings.push(Happening::Transcribed {
                prompt: running.prompt.id.clone(),
                text: text.clone(),
            });
        }
        if running.sending.is_none() {
            self.compose(&prepared.heard);
        }
        self.send(Duration::ZERO, now, out);
    }

    pub(super) fn sent(
        &mut self,
        serial: u64,
        result: Result<(), HttpError>,
        now: Instant,
        out: &mut Out,
    ) {
        let verified = self.verified;
        let session = self.session.clone();
        let Some(running) = self.running.as_mut().filter(|r| r.serial == serial) else {
            return;
        };
        let Phase::Sending { canceled } = running.phase else {
            return;
        };
        match result {
            Ok(()) => {
                running.last_activity = now;
                running.phase = Phase::Running;
                running.look_at = Some(now + LOOK_AGAIN);
                out.happenings.push(Happening::PromptTaken {
                    prompt: running.prompt.id.clone(),
                    mark: Mark(running.mark.clone()),
                    model: running.model().cloned(),
                });
                // Idle may come before the reply does.
                let again = std::mem::take(&mut running.look_again);
                if canceled {
                    self.abort(Why::Cancel, out);
                } else if again {
                    self.look(Duration::ZERO, out);
                }
            }
            // The agent never took it, so it may be sent to another session: once.
            Err(error) if error.is_gone() && !running.made_anew => {
                running.made_anew = true;
                running.phase = Phase::Preparing;
                out.calls.push(Call::Prepare {
                    serial,
                    audio: Vec::new(),
                    known: session,
                    verified: Verified::No,
                });
            }
            Err(_) if canceled => self.finish(Reason::Canceled, None, now, out),
            // Whether it was taken is not known. Under the same ids it is not taken twice.
            Err(error) if error.status == 0 && running.sends < MOST_SENDS => {
                self.verified = verified;
                self.send(Duration::from_secs(1), now, out);
            }
            Err(error) => self.fail(format!("the prompt could not be sent: {error}"), now, out),
        }
    }

    pub(super) fn cancel(&mut self, now: Instant, out: &mut Out) {
        let Some(running) = &mut self.running else {
            return;
        };
        match &mut running.phase {
            Phase::Preparing => self.finish(Reason::Canceled, None, now, out),
            Phase::Sending { canceled } => *canceled = true,
            Phase::Running | Phase::Looking => self.abort(Why::Cancel, out),
            // An abort is under way already; only what follows it changes.
            Phase::Aborting { why, .. } => *why = Why::Cancel,
        }
    }

    /// The agent's process is gone, and with it whatever it was doing.
    pub(super) fn process_ended(&mut self, how: &str, now: Instant, out: &mut Out) {
        self.verified = Verified::No;
        let Some(running) = &self.running else {
            return;
        };
        match running.phase {
            // It was never called.
            Phase::Preparing => {}
            Phase::Aborting {
                why: Why::Cancel, ..
            }
            | Phase::Sending { canceled: true } => {
                self.finish(Reason::Canceled, None, now, out);
            }
            _ => self.fail(format!("the agent stopped in mid-turn: {how}"), now, out),
        }
    }

    pub(super) fn process_given_up(&mut self, why: &str, now: Instant, out: &mut Out) {
        if self.running.is_some() {
            self.fail(format!("the agent is not there: {why}"), now, out);
        }
    }

    /// Some events were missed: open text has holes that nobody can see.
    pub(super) fn lost_stream(&mut self) {
        if let Some(running) = &mut self.running {
            running.turn.tear();
        }
    }

    /// The stream is back: what to look at, if a turn runs.
    pub(super) fn catch_up(&mut self) -> Option<(u64, String, String)> {
        let session = self.session.clone()?;
        let running = self.running.as_mut()?;
        if !matches!(running.phase, Phase::Running | Phase::Looking) {
            return None;
        }
        running.phase = Phase::Looking;
        running.look_again = false;
        Some((running.serial, session, running.mark.clone()))
    }

    /// The agent did not hear an answer, and may still wait for it: what it still asks is asked
    /// again.
    pub(super) fn look_soon(&mut self, now: Instant) {
        if let Some(running) = &mut self.running {
            running.look_at = Some(now + LOOK_AGAIN);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let running = self.running.as_ref();
        let in_turn = running.filter(|running| running.phase == Phase::Running);
        let silence = in_turn.and_then(|running| self.silent_at(running));
        let look = in_turn.and_then(|running| running.look_at);
        let list = self.unlisted.as_ref().map(|unlisted| unlisted.by);
        [silence, look, list, self.asks.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn tick(&mut self, now: Instant, out: &mut Out) {
        self.expire_asks(now, out);
        self.list_changes_by(now, out);
        let Some(running) = &self.running else {
            return;
        };
        if running.phase != Phase::Running {
            return;
        }
        if self.silent_at(running).is_some_and(|at| now >= at) {
            let message = if running.answered {
                format!("nothing came for {} s", SILENCE.as_secs())
            } else {
                format!("no answer began within {} s", FIRST_ANSWER.as_secs())
            };
            self.switch_or_give_up(Failure::new(FailureKind::Silent, message), out);
        } else if running.look_at.is_some_and(|at| now >= at) {
            self.look(Duration::ZERO, out);
        }
    }

    fn silent_at(&self, running: &Running) -> Option<Instant> {
        if running.turn.running_tool().is_some() || self.asks.is_waiting() {
            return None;
        }
        let limit = if running.answered {
            SILENCE
        } else {
            FIRST_ANSWER
        };
        Some(running.last_activity + limit)
    }

    /// What is sent: files first, then the text.
    fn compose(&mut self, heard: &[String]) {
        let Some(running) = &mut self.running else {
            return;
        };
        let clock = &*self.clock;
        running.mark = self.ids.message(clock);
        let mut parts = Vec::new();
        for attachment in running.prompt.attachments.drain(..) {
            if attachment.is_audio() {
                continue;
            }
            let url = format!("data:{};base64,{}", attachment.media_type, attachment.data);
            parts.push(json!({
                "id": self.ids.part(clock),
                "type": "file",
                "mime": attachment.media_type,
                "filename": attachment.name,
                "url": url,
            }));
        }
        let mut text = json!({
            "id": self.ids.part(clock),
            "type": "text",
            "text": told(&running.prompt, heard),
        });
        let author = running.prompt.author.as_ref();
        if let Some(signs) = author.and_then(|author| author.signs.as_ref()) {
            text["metadata"] = author_metadata(signs);
        }
        parts.push(text);
        running.sending = Some(Arc::new(Sending {
            message: running.mark.clone(),
            parts: parts.into(),
        }));
    }

    fn send(&mut self, after: Duration, now: Instant, out: &mut Out) {
        let (Some(running), Some(session)) = (&mut self.running, &self.session) else {
            return;
        };
        let Some(sending) = running.sending.clone() else {
            return;
        };
        let canceled = running.phase == (Phase::Sending { canceled: true });
        running.phase = Phase::Sending { canceled };
        running.sends += 1;
        running.answered = false;
        running.last_activity = now;
        out.calls.push(Call::Send {
            serial: running.serial,
            session: session.clone(),
            sending,
            model: running.model().cloned(),
            forget: running.retired.iter().cloned().collect(),
            after,
        });
    }

    fn abort(&mut self, why: Why, out: &mut Out) {
        let (Some(running), Some(session)) = (&mut self.running, &self.session) else {
            return;
        };
        running.phase = Phase::Aborting {
            why,
            confirmed: false,
        };
        running.looks = 0;
        out.calls.push(Call::Abort {
            serial: running.serial,
            session: session.clone(),
        });
    }

    fn look(&mut self, after: Duration, out: &mut Out) {
        let (Some(running), Some(session)) = (&mut self.running, &self.session) else {
            return;
        };
        running.look_at = None;
        if running.phase == Phase::Running {
            running.phase = Phase::Looking;
        }
        out.calls.push(Call::Look {
            serial: running.serial,
            session: session.clone(),
            mark: running.mark.clone(),
            after,
        });
    }

    fn in_phase(&mut self, serial: u64, phase: &Phase) -> Option<&mut Running> {
        self.running
            .as_mut()
            .filter(|running| running.serial == serial && running.phase == *phase)
    }

    fn set_status(&mut self, status: Status, out: &mut Out) {
        if self.status != status {
            self.status = status.clone();
            out.happenings.push(Happening::AgentStatus { status });
        }
    }
}

impl Running {
    /// The model of this attempt.
    fn model(&self) -> Option<&ModelName> {
        self.prompt.models.get(self.at)
    }

    fn next_model(&self) -> Option<&ModelName> {
        self.prompt.models.get(self.at + 1)
    }

    /// Whether that message is an answer to this prompt. Ids are in the order of time.
    fn is_mine(&self, message: &str) -> bool {
        !self.mark.is_empty() && message > self.mark.as_str() && !self.retired.contains(message)
    }
}

#[cfg(test)]
mod tests;
