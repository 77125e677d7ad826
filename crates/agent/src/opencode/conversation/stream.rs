//! What the agent's stream says.

use model::Id;
use tokio::time::Instant;

use super::usage::count;
use super::{Conversation, ERROR_WITHOUT_IDLE, Out, Phase, Running};
use crate::event::{self, Change, ChangedFile, Happening, Image, Status, TextKind, ToolState};
use crate::failure::{Failure, FailureKind};
use crate::opencode::wire::{self, Event, PartBody, Role};
use crate::turn::ToolUpdate;

/// The tool with which a model asks a person.
const QUESTION_TOOL: &str = "question";

/// Pictures of one call, and characters of each.
const MOST_IMAGES: usize = 8;
const MOST_IMAGE: usize = 800_000;
/// Characters of all of a turn: while nobody takes them they wait beside what was said.
const MOST_PICTURED: usize = 4_000_000;
const MOST_DESCRIPTION: usize = 200;

impl Conversation {
    /// The event is this conversation's: [`Conversation::owns`] its session.
    pub(in crate::opencode) fn event(&mut self, event: Event, now: Instant, out: &mut Out) {
        match event {
            Event::PermissionAsked(request) => return self.permission_asked(&request, now, out),
            Event::QuestionAsked(request) => return self.question_asked(request, now, out),
            Event::PermissionReplied { request } => return self.permission_gone(&request, out),
            Event::QuestionClosed { request } => return self.question_gone(&request, out),
            Event::Message(message) if message.role == Role::User => {
                return self.user_message(&message, out);
            }
            _ => {}
        }
        let is_main = |session: &str| self.session.as_deref() == Some(session);
        match event {
            Event::Status { session, status } if is_main(&session) => {
                self.session_status(&status, now, out);
            }
            Event::Idle { session } if is_main(&session) => self.idle(out),
            Event::Error {
                session: Some(session),
                error,
            } if is_main(&session) => self.session_error(&error, now, out),
            Event::Message(message) if is_main(&message.session) => self.answer(message, now),
            Event::Part(part) => self.part(&part, now, out),
            Event::Delta(delta) => self.delta(&delta, now, out),
            Event::PartRemoved { part, .. } => self.in_turn(out, |running, out| {
                running.turn.withdraw(&part, &mut out.happenings);
            }),
            Event::MessageRemoved { message, .. } => {
                if let Some(running) = &mut self.running {
                    running.answers.remove(&message);
                }
            }
            // A subagent's beginning, pause or end is a sign of life.
            Event::Status { .. } | Event::Message(_) => self.touch(now),
            _ => {}
        }
    }

    /// A subagent of this conversation's session, or of one of its subagents.
    pub(in crate::opencode) fn session_seen(&mut self, session: &wire::Session) {
        let parent = session.parent.as_deref();
        if parent.is_some_and(|parent| self.owns(parent))
            && let Some(running) = &mut self.running
        {
            running.children.entry(session.id.clone()).or_insert(None);
        }
    }

    fn touch(&mut self, now: Instant) {
        if let Some(running) = &mut self.running {
            running.last_activity = now;
        }
    }

    fn in_turn(&mut self, out: &mut Out, act: impl FnOnce(&mut Running, &mut Out)) {
        if let Some(running) = &mut self.running {
            act(running, out);
        }
    }

    fn session_status(&mut self, status: &wire::Status, now: Instant, out: &mut Out) {
        match status {
            wire::Status::Idle => self.idle(out),
            wire::Status::Busy => {
                self.touch(now);
                if let Some(running) = &mut self.running {
                    running.look_at = None;
                }
            }
            wire::Status::Retry { attempt, message } => self.retry(*attempt, message, now, out),
            wire::Status::Unknown => {}
        }
    }

    /// The run may be over. Or it is the run before, or it will say so again.
    fn idle(&mut self, out: &mut Out) {
        match self.running.as_ref().map(|running| &running.phase) {
            Some(Phase::Running) => self.look(std::time::Duration::ZERO, out),
            Some(Phase::Looking | Phase::Sending { .. }) => {
                if let Some(running) = &mut self.running {
                    running.look_again = true;
                }
            }
            _ => {}
        }
    }

    fn session_error(&mut self, error: &wire::Error, now: Instant, out: &mut Out) {
        let Some(running) = &mut self.running else {
            return;
        };
        if !matches!(running.phase, Phase::Running | Phase::Looking) {
            return;
        }
        let failure = failure_of(error);
        if let Some(failure) = &failure
            && failure.kind == FailureKind::ContextLength
        {
            return self.outgrown(failure.clone(), now, out);
        }
        running.failure = failure;
        running.look_at = Some(now + ERROR_WITHOUT_IDLE);
    }

    /// The conversation is too long for its model. The next one of the chain may have more room;
    /// without one the agent sums up what was said and answers the prompt again, by itself and
    /// without end: once is enough.
    fn outgrown(&mut self, failure: Failure, now: Instant, out: &mut Out) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.overflows += 1;
        let may_switch = running.next_model().is_some() && !running.turn.has_run_a_tool();
        if may_switch || running.overflows > super::MOST_OVERFLOWS {
            return self.switch_or_give_up(failure, out);
        }
        running.turn.withdraw_open_text(&mut out.happenings);
        running.look_at = Some(now + ERROR_WITHOUT_IDLE);
        self.touch(now);
        self.set_status(Status::Thinking, out);
    }

    /// The agent tries again by itself. What it said of the attempt before does not count.
    fn retry(&mut self, attempt: u32, message: &str, now: Instant, out: &mut Out) {
        self.touch(now);
        let Some(running) = &mut self.running else {
            return;
        };
        if !matches!(running.phase, Phase::Running | Phase::Looking) {
            return;
        }
        running.turn.withdraw_open_text(&mut out.happenings);
        let mut failure = Failure::from_words(message);
        if failure.kind == FailureKind::Other {
            // It retries for nothing else.
            failure.kind = FailureKind::Provider;
        }
        let may_switch = running.next_model().is_some() && !running.turn.has_run_a_tool();
        if may_switch || attempt > super::MOST_RETRIES {
            self.switch_or_give_up(failure, out);
        } else {
            self.set_status(Status::Thinking, out);
        }
    }

    fn answer(&mut self, message: wire::Message, now: Instant) {
        if let Some(running) = &mut self.running
            && message.is_answer()
            && running.is_mine(&message.id)
        {
            running.last_activity = now;
            let over = running
                .answers
                .get(&message.id)
                .is_some_and(wire::Message::is_over);
            // What is over stays so: this may be an event from before it was read.
            if !over || message.is_over() {
                running.answers.insert(message.id.clone(), message);
            }
        } else {
            self.touch(now);
        }
    }

    pub(super) fn part(&mut self, part: &wire::Part, now: Instant, out: &mut Out) {
        self.touch(now);
        let is_main = self.session.as_deref() == Some(&part.session);
        let Some(running) = &mut self.running else {
            return;
        };
        if is_main && !running.answers.contains_key(&part.message) {
            return;
        }
        if let PartBody::Tool { call, tool, state } = &part.body {
            let started_by = running.children.get(&part.session).cloned().flatten();
            let under = started_by.filter(|_| !is_main);
            running.answered = true;
            let update = tool_update(call, tool, state, under);
            if let Some(child) = state.metadata["sessionId"].as_str() {
                running
                    .children
                    .insert(child.to_owned(), Some(part.id.clone()));
            }
            let before = out.happenings.len();
            running.turn.tool(&part.id, update, &mut out.happenings);
            let is_news = out.happenings.len() > before;
            if is_news && state.status == "completed" {
                for image in images(tool, state) {
                    running.pictured += image.data.len();
                    if running.pictured > MOST_PICTURED {
                        break;
                    }
                    out.happenings.push(Happening::Image {
                        turn: running.turn.id(),
                        prompt: running.prompt.id.clone(),
                        image,
                    });
                }
            }
            if running.turn.is_full() {
                let failure = Failure::new(FailureKind::Other, "the turn has too many parts");
                return self.switch_or_give_up(failure, out);
            }
            if is_news {
                self.show_work(out);
            }
            return;
        }
        if !is_main {
            return;
        }
        running.answered = true;
        let (kind, text, time) = match &part.body {
            PartBody::Text {
                text,
                time,
                synthetic: false,
            } => (TextKind::Text, text, time),
            PartBody::Reasoning { text, time } => (TextKind::Reasoning, text, time),
            _ => return,
        };
        if time.is_some_and(|time| time.end.is_some()) {
            running
                .turn
                .whole(&part.id, kind, text, &mut out.happenings);
        } else {
            running.turn.begin(&part.id, kind);
        }
    }

    /// What the agent is seen to do when nobody is asked: a tool that runs, or thought.
    pub(super) fn show_work(&mut self, out: &mut Out) {
        if self.asks.is_waiting() {
            return;
        }
        let running = self.running.as_ref();
        let tool = running.and_then(|running| running.turn.running_tool());
        let status = match tool.filter(|tool| *tool != QUESTION_TOOL) {
            Some(tool) => Status::ToolCalling {
                tool: tool.to_owned(),
            },
            None => Status::Thinking,
        };
        self.set_status(status, out);
    }

    fn delta(&mut self, delta: &wire::Delta, now: Instant, out: &mut Out) {
        self.touch(now);
        let Some(running) = &mut self.running else {
            return;
        };
        // A part that was never begun here was begun while nobody listened: it will come whole.
        let is_known = running.answers.contains_key(&delta.message)
            && running.turn.knows(&delta.part)
            && delta.field == "text";
        if !is_known {
            return;
        }
        let before = out.happenings.len();
        running.turn.delta(
            &delta.part,
            TextKind::Text,
            &delta.more,
            &mut out.happenings,
        );
        let streams = matches!(
            out.happenings.get(before..).and_then(<[_]>::last),
            Some(Happening::PartDelta {
                kind: TextKind::Text,
                ..
            })
        );
        if streams && !self.asks.is_waiting() {
            self.set_status(Status::Streaming, out);
        }
    }

    /// After the end of a turn the prompt's message comes again, with what was changed.
    fn user_message(&mut self, message: &wire::Message, out: &mut Out) {
        let Some(unlisted) = &self.unlisted else {
            return;
        };
        if unlisted.mark != message.id {
            return;
        }
        let diffs = message.summary.get("diffs").cloned().unwrap_or_default();
        if let Ok(diffs) = serde_json::from_value::<Vec<wire::Diff>>(diffs)
            && !diffs.is_empty()
        {
            let turn = unlisted.turn;
            self.unlisted = None;
            list_changes(turn, &diffs, out);
        }
    }
}

pub(in crate::opencode) fn list_changes(
    turn: Id<event::Turn>,
    diffs: &[wire::Diff],
    out: &mut Out,
) {
    let files: Vec<ChangedFile> = diffs.iter().map(changed_file).collect();
    if !files.is_empty() {
        out.happenings.push(Happening::FilesChanged { turn, files });
    }
}

pub(in crate::opencode) fn changed_file(diff: &wire::Diff) -> ChangedFile {
    ChangedFile {
        path: diff.file.clone(),
        change: match diff.status.as_deref() {
            Some("added") => Change::Added,
            Some("deleted" | "removed") => Change::Deleted,
            _ => Change::Modified,
        },
        added: count(diff.additions),
        removed: count(diff.deletions),
    }
}

fn tool_update(
    call: &str,
    tool: &str,
    state: &wire::ToolState,
    under: Option<String>,
) -> ToolUpdate {
    ToolUpdate {
        call: call.to_owned(),
        name: tool.to_owned(),
        state: match state.status.as_str() {
            "running" => ToolState::Running,
            "completed" => ToolState::Completed,
            "error" => ToolState::Error,
            _ => ToolState::Pending,
        },
        args: state.input.clone(),
        result: state.output.clone(),
        error: state.error.clone(),
        // A command that fails is `completed`, and only this tells.
        exit_code: state.metadata["exit"].as_i64(),
        under,
    }
}

/// The pictures among what a tool brought, as far as they fit into a frame.
fn images(tool: &str, state: &wire::ToolState) -> Vec<Image> {
    let title = state.title.as_str().filter(|title| !title.is_empty());
    let description: String = title
        .unwrap_or(tool)
        .chars()
        .take(MOST_DESCRIPTION)
        .collect();
    let files = state.attachments.as_array().into_iter().flatten();
    let pictures = files.filter_map(|file| {
        let (mime, url) = (file["mime"].as_str()?, file["url"].as_str()?);
        let is_picture = mime.starts_with("image/") && mime.len() < 64;
        let (_, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        (is_picture && data.len() <= MOST_IMAGE).then(|| Image {
            media_type: mime.to_owned(),
            data: data.to_owned(),
            description: description.clone(),
        })
    });
    pictures.take(MOST_IMAGES).collect()
}

/// `None` when it only says that somebody aborted.
pub(super) fn failure_of(error: &wire::Error) -> Option<Failure> {
    let message = error.data["message"].as_str().unwrap_or(&error.name);
    Some(match error.name.as_str() {
        "MessageAbortedError" => return None,
        "ProviderAuthError" => Failure::new(FailureKind::Auth, message),
        "ContextOverflowError" => Failure::new(FailureKind::ContextLength, message),
        "ProviderModelNotFoundError" => Failure::new(FailureKind::NoSuchModel, message),
        "MessageOutputLengthError" | "ContentFilterError" | "StructuredOutputError" => {
            Failure::new(FailureKind::Other, message)
        }
        _ => match error.data["statusCode"].as_u64() {
            Some(status) => Failure::from_status(u16::try_from(status).unwrap_or(0), message),
            None => Failure::from_words(message),
        },
    })
}
