//! All that is shown of a session, and all that was typed.

use std::time::Duration;

use client::{Body, Frame, Transcript};
use wire::link::{AgentStatus, Answer};
use wire::v1::{Action, ActionStatus, ClientStatus, EnvValues, Event, Message};

use crate::action;
use crate::ask::{Ask, Asked};
use crate::blocks::{Blocks, Folds};
use crate::editor::Editor;
use crate::words::{Palette, clean};

/// Prompts that were sent from here and are not told of yet.
const MOST_SENT: usize = 64;

/// What a key asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    Prompt(String),
    Cancel,
    Answer {
        question: String,
        item: usize,
        /// None: the question is declined.
        answer: Option<Answer>,
    },
    Permission {
        id: String,
        allow: bool,
    },
    Action {
        id: String,
        approve: bool,
        /// For the agent, when it is refused.
        why: Option<String>,
    },
    /// Values that the agent asked for. Not to be printed.
    Env(EnvValues),
    /// Messages before those that are shown.
    Older,
    /// The whole screen anew: something else wrote on it.
    Redraw,
    Leave,
}

/// How the line to the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    Connecting,
    Online,
    Offline { why: String, until: Duration },
}

/// Where the conversation is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At its end, whatever is added.
    End,
    /// From this line on.
    Line(usize),
}

/// What is known of messages before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    MayBe,
    Asked,
    None,
}

#[derive(Debug)]
pub struct Screen {
    pub(crate) transcript: Transcript,
    pub(crate) editor: Editor,
    pub(crate) asked: Asked,
    /// What the agent wants done outside, and nobody has decided.
    actions: Vec<Action>,
    pub(crate) blocks: Blocks,
    pub(crate) folds: Folds,
    /// The row that Enter opens.
    pub(crate) focus: Option<String>,
    pub(crate) place: Place,
    /// Of the conversation when it was last drawn: how many lines there are, and fit.
    pub(crate) drawn: (usize, usize),
    pub(crate) palette: Palette,
    pub(crate) link: Link,
    /// Sent from here, not told of yet.
    pub(crate) sent: Vec<(String, String)>,
    pub(crate) notice: Option<String>,
    /// Ctrl-C was pressed, and until then it leaves when it is pressed again.
    pub(crate) leaving: Option<Duration>,
    pub(crate) now: Duration,
    busy_since: Option<Duration>,
    older: Older,
}

impl Screen {
    pub fn new(palette: Palette) -> Self {
        Self {
            transcript: Transcript::default(),
            editor: Editor::default(),
            asked: Asked::default(),
            actions: Vec::new(),
            blocks: Blocks::default(),
            folds: Folds::default(),
            focus: None,
            place: Place::End,
            drawn: (0, 0),
            palette,
            link: Link::Connecting,
            sent: Vec::new(),
            notice: None,
            leaving: None,
            now: Duration::ZERO,
            busy_since: None,
            older: Older::MayBe,
        }
    }

    /// What the session told.
    pub fn hear(&mut self, frame: &Frame) {
        self.transcript.apply(frame);
        match &frame.body {
            Body::Init(init) => {
                self.actions.clone_from(&init.actions);
                self.blocks.forget_all();
                self.older = Older::MayBe;
            }
            Body::Event(event) => self.changed(event),
        }
        let told = self.transcript.messages();
        self.sent.retain(|(id, _)| {
            let is = |message: &client::HeldMessage| message.prompt_id.as_ref() == Some(id);
            !told.iter().any(is)
        });
        self.busy_since = match (self.is_busy(), self.busy_since) {
            (true, None) => Some(self.now),
            (true, since) => since,
            (false, _) => None,
        };
    }

    fn changed(&mut self, event: &Event) {
        match event {
            Event::PartDelta { message_id, .. }
            | Event::PartRemoved { message_id, .. }
            | Event::MessageRemoved { message_id }
            | Event::MessageDone { message_id, .. } => self.blocks.forget(message_id),
            Event::Part(part) => self.blocks.forget(&part.message_id),
            Event::Reverted { message_ids, .. } => {
                for message in message_ids {
                    self.blocks.forget(message);
                }
            }
            Event::ActionApprovalRequest(action) if action.status == ActionStatus::Pending => {
                self.actions.retain(|known| known.id != action.id);
                self.actions.push(action.clone());
            }
            Event::ActionApprovalResult {
                id,
                status,
                message,
                ..
            } => self.decided(id, *status, message.as_deref()),
            Event::Error(error) => self.notice = Some(clean(&error.message).replace('\n', " ")),
            Event::ModelSwitched { to, reason, .. } => {
                self.notice = Some(clean(&format!("the model is {to} now: {reason}")));
            }
            // What was never taken up is not shown as waiting for ever.
            Event::Prompt {
                id, status, reason, ..
            } if status.is_over() && self.sent.iter().any(|(sent, _)| sent == id) => {
                self.sent.retain(|(sent, _)| sent != id);
                self.notice = reason.as_deref().map(clean);
            }
            _ => {}
        }
    }

    fn decided(&mut self, id: &str, status: ActionStatus, message: Option<&str>) {
        let Some(at) = self.actions.iter().position(|action| action.id == id) else {
            return;
        };
        if let Some(outcome) = action::outcome(&self.actions[at], status, message) {
            self.notify(&outcome);
            // What is approved is told of once more, when it is done.
            match status {
                ActionStatus::Approved => self.actions[at].status = status,
                _ => drop(self.actions.remove(at)),
            }
        }
    }

    /// How the line to the server is now.
    pub fn line_is(&mut self, link: Link) {
        self.link = link;
    }

    /// So much time has passed since it began.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        if self.leaving.is_some_and(|until| until <= now) {
            self.settle();
        }
    }

    /// Nobody wants to leave, and what was said was read.
    pub(crate) fn settle(&mut self) {
        self.leaving = None;
        self.notice = None;
    }

    /// A prompt was sent under this id.
    pub fn was_sent(&mut self, id: String, content: String) {
        let is_told = |message: &client::HeldMessage| message.prompt_id.as_ref() == Some(&id);
        if self.transcript.messages().iter().any(is_told) {
            return;
        }
        if self.sent.len() == MOST_SENT {
            self.sent.remove(0);
        }
        self.sent.push((id, content));
    }

    /// Something for a person to read, until the next key.
    pub fn notify(&mut self, notice: &str) {
        self.notice = Some(clean(notice).replace('\n', " "));
    }

    /// Messages before those that are shown; none when there are no more.
    pub fn add_older(&mut self, older: Vec<Message>) {
        let before = self.transcript.messages().len();
        self.transcript.add_older(older);
        let added = self.transcript.messages().len() > before;
        self.older = if added { Older::MayBe } else { Older::None };
    }

    /// Older messages could not be had; they can be asked for again.
    pub fn older_failed(&mut self) {
        self.older = Older::MayBe;
    }

    /// The number of the first message that is shown.
    pub fn first_position(&self) -> Option<u64> {
        Some(self.transcript.messages().first()?.position)
    }

    /// How the session is, for who leaves it.
    pub fn status(&self) -> Option<ClientStatus> {
        Some(self.transcript.status.as_ref()?.status)
    }

    pub(crate) fn asks(&mut self) -> Option<Ask> {
        self.asked.now(&self.transcript, &self.actions)
    }

    /// What was decided here did not reach the session: it is asked again, unless it is settled.
    pub fn not_answered(&mut self, id: &str, is_settled: bool) {
        if is_settled {
            self.actions.retain(|action| action.id != id);
        } else {
            self.asked.again(id);
        }
    }

    /// Where keys are written: a value or a reason is kept apart from prompts.
    pub(crate) fn entry(&mut self) -> &mut Editor {
        match self.asks() {
            Some(ask) if ask.takes_reply() => &mut self.asked.reply,
            _ => &mut self.editor,
        }
    }

    /// The agent works on something, or will.
    pub fn is_busy(&self) -> bool {
        let is_open = |prompt: &client::HeldPrompt| !prompt.status.is_over();
        let last = self.transcript.messages().last();
        let is_answering = last.is_some_and(|last| last.role == "assistant" && !last.done);
        !self.sent.is_empty() || is_answering || self.transcript.prompts().iter().any(is_open)
    }

    /// For how long, in whole seconds.
    pub(crate) fn busy_for(&self) -> Option<u64> {
        Some(self.now.saturating_sub(self.busy_since?).as_secs())
    }

    /// What the agent does, in a word.
    pub(crate) fn agent(&self) -> Option<&'static str> {
        let state = self.transcript.messages().last();
        let channel = state.map(|message| message.channel.as_str());
        let state = self.transcript.agent(channel);
        let state = state.or_else(|| self.transcript.agent(None))?;
        match state.status {
            AgentStatus::Idle => None,
            AgentStatus::Thinking => Some("thinking"),
            AgentStatus::ToolCalling => Some("using a tool"),
            AgentStatus::Streaming => Some("answering"),
            AgentStatus::Waiting => Some("waiting for you"),
            AgentStatus::Error => Some("failed"),
        }
    }

    /// What was asked before, oldest first.
    pub(crate) fn history(&self) -> Vec<String> {
        let told = self.transcript.messages().iter();
        let told = told.filter(|message| message.role == "user");
        let told = told.map(client::HeldMessage::text);
        let sent = self.sent.iter().map(|(_, content)| content.clone());
        told.chain(sent).filter(|text| !text.is_empty()).collect()
    }

    /// By so many lines; at the top, older messages are asked for.
    pub(crate) fn scroll(&mut self, by: isize) -> Option<Deed> {
        let (total, height) = self.drawn;
        let last = total.saturating_sub(height);
        let from = match self.place {
            Place::End => last,
            Place::Line(line) => line.min(last),
        };
        let to = from.saturating_add_signed(by);
        self.place = if to >= last {
            Place::End
        } else {
            Place::Line(to)
        };
        let wants =
            by < 0 && to == 0 && self.older == Older::MayBe && self.first_position().is_some();
        wants.then(|| {
            self.older = Older::Asked;
            Deed::Older
        })
    }

    /// The rows that open, in order.
    fn rows(&self) -> Vec<(usize, String)> {
        let mut rows = Vec::new();
        let mut line = 0;
        for message in self.transcript.messages() {
            if let Some(block) = self.blocks.of(&message.id) {
                let these = block.rows.iter();
                rows.extend(these.map(|(at, part)| (line + at, part.clone())));
                line += block.lines.len();
            }
        }
        rows
    }

    /// The next row up or down, from the last one on.
    pub(crate) fn move_focus(&mut self, up: bool) {
        let rows = self.rows();
        let at = self
            .focus
            .as_ref()
            .and_then(|focus| rows.iter().position(|(_, part)| part == focus));
        let next = match (at, up) {
            (None, _) => rows.len().checked_sub(1),
            (Some(at), true) => Some(at.saturating_sub(1)),
            (Some(at), false) => Some(at + 1).filter(|next| *next < rows.len()),
        };
        let Some((line, part)) = next.and_then(|next| rows.get(next)) else {
            self.focus = None;
            self.place = Place::End;
            return;
        };
        self.focus = Some(part.clone());
        let (total, height) = self.drawn;
        let last = total.saturating_sub(height);
        let top = match self.place {
            Place::End => last,
            Place::Line(top) => top,
        };
        if *line < top || *line >= top + height {
            let top = line.saturating_sub(height / 3);
            self.place = if top >= last {
                Place::End
            } else {
                Place::Line(top)
            };
        }
    }

    pub(crate) fn toggle(&mut self, part: &str) {
        self.folds.toggle(part);
        let holder = self.transcript.messages().iter().find(|message| {
            let mut parts = message.parts().iter();
            parts.any(|held| held.part_id == part)
        });
        if let Some(id) = holder.map(|message| message.id.clone()) {
            self.blocks.forget(&id);
        }
    }

    pub(crate) fn toggle_all(&mut self) {
        self.folds.toggle_all();
        self.blocks.forget_all();
    }
}
