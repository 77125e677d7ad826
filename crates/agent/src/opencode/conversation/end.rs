//! How a turn ends, and how it goes on with another model.

use std::time::Duration;

use tokio::time::Instant;

use super::stream::failure_of;
use super::{
    AFTER_ABORT, CHANGES_FOLLOW, Call, Conversation, LOOK_AGAIN, Look, MOST_LOOKS, Out, Phase,
    Unlisted, Verified, Why,
};
use crate::event::{Happening, Reason, Status, Tried, TurnError};
use crate::failure::{Failure, FailureKind};
use crate::opencode::http::HttpError;
use crate::opencode::wire::{self, PartBody};

impl Conversation {
    pub(in crate::opencode) fn aborted(
        &mut self,
        serial: u64,
        result: Result<(), HttpError>,
        now: Instant,
        out: &mut Out,
    ) {
        let Some(running) = self.running.as_mut().filter(|r| r.serial == serial) else {
            return;
        };
        let Phase::Aborting { why, confirmed } = &mut running.phase else {
            return;
        };
        *confirmed = true;
        let why = why.clone();
        match result {
            Ok(()) => self.look(Duration::ZERO, out),
            // Unconfirmed: before the next prompt the session is looked at, and aborted if busy.
            Err(error) => {
                self.verified = Verified::No;
                match why {
                    Why::Cancel => self.finish(Reason::Canceled, None, now, out),
                    Why::Switch(failure) | Why::GiveUp(failure) => {
                        let message = format!("{failure}; and it could not be aborted: {error}");
                        self.fail(message, now, out);
                    }
                }
            }
        }
    }

    pub(in crate::opencode) fn looked(
        &mut self,
        serial: u64,
        result: Result<Look, HttpError>,
        now: Instant,
        out: &mut Out,
    ) {
        let Some(running) = self.running.as_mut().filter(|r| r.serial == serial) else {
            return;
        };
        running.looks += 1;
        let looks = running.looks;
        let Ok(look) = result else {
            return match running.phase {
                Phase::Looking => {
                    running.phase = Phase::Running;
                    running.look_at = Some(now + LOOK_AGAIN);
                }
                Phase::Aborting {
                    confirmed: true, ..
                } if looks < MOST_LOOKS => self.look(AFTER_ABORT, out),
                Phase::Aborting {
                    confirmed: true, ..
                } => self.conclude_abort(now, out),
                _ => {}
            };
        };
        self.take(&look, now, out);
        self.match_asks(&look, now, out);
        let Some(running) = &mut self.running else {
            return;
        };
        let is_idle = look.status == wire::Status::Idle;
        let last = running.answers.values().next_back();
        let is_over = is_idle && last.is_some_and(wire::Message::is_over);
        let has_failed = is_idle && last.is_none() && running.failure.is_some();
        match &running.phase {
            Phase::Looking if is_over || has_failed => self.conclude(now, out),
            Phase::Looking => {
                running.phase = Phase::Running;
                let again = std::mem::take(&mut running.look_again);
                let nobody_works = is_idle && last.is_some();
                running.looks = if nobody_works { looks } else { 0 };
                if running.looks >= MOST_LOOKS {
                    let message = "the agent left its answer unfinished".to_owned();
                    return self.fail(message, now, out);
                }
                if again {
                    return self.look(Duration::ZERO, out);
                }
                running.look_at = is_idle.then_some(now + LOOK_AGAIN);
                if let wire::Status::Retry { attempt, message } = look.status {
                    self.event(
                        wire::Event::Status {
                            session: self.session.clone().unwrap_or_default(),
                            status: wire::Status::Retry { attempt, message },
                        },
                        now,
                        out,
                    );
                }
            }
            // A look from before the abort says nothing about it.
            Phase::Aborting {
                confirmed: false, ..
            } => {}
            Phase::Aborting { .. }
                if is_over || (is_idle && last.is_none()) || looks >= MOST_LOOKS =>
            {
                self.conclude_abort(now, out);
            }
            Phase::Aborting { .. } => self.look(AFTER_ABORT, out),
            _ => {}
        }
    }

    /// Takes over what the conversation holds. Whatever is already known is not said again, and
    /// nothing goes back.
    fn take(&mut self, look: &Look, now: Instant, out: &mut Out) {
        let session = self.session.clone().unwrap_or_default();
        for message in &look.messages {
            let Some(running) = &self.running else {
                return;
            };
            if !(message.info.is_answer() && running.is_mine(&message.info.id)) {
                continue;
            }
            let activity = running.last_activity;
            self.event(wire::Event::Message(message.info.clone()), now, out);
            for (place, part) in message.parts.iter().enumerate() {
                if is_orphan(message, place) {
                    if let Some(running) = &mut self.running {
                        running.turn.withdraw(&part.id, &mut out.happenings);
                    }
                    continue;
                }
                self.begin_if_missed(part);
                self.part(part, now, out);
                if let PartBody::Tool { state, .. } = &part.body
                    && let Some(child) = state.metadata["sessionId"].as_str()
                {
                    let theirs = look.children.get(child).into_iter().flatten();
                    for part in theirs.flat_map(|message| &message.parts) {
                        self.part(part, now, out);
                    }
                }
            }
            // To read is no sign of life of the agent's.
            if let Some(running) = &mut self.running {
                running.last_activity = activity;
            }
        }
        debug_assert!(
            look.messages.iter().all(|m| m.info.session == session),
            "a look is at one session"
        );
    }

    /// Text that was begun while nobody listened: it has a hole in front.
    fn begin_if_missed(&mut self, part: &wire::Part) {
        let kind = match &part.body {
            PartBody::Text { synthetic, .. } if !synthetic => crate::event::TextKind::Text,
            PartBody::Reasoning { .. } => crate::event::TextKind::Reasoning,
            _ => return,
        };
        if let Some(running) = &mut self.running
            && !running.turn.knows(&part.id)
        {
            running.turn.begin_torn(&part.id, kind);
        }
    }

    /// The agent is done with it, for better or worse.
    fn conclude(&mut self, now: Instant, out: &mut Out) {
        let Some(running) = &self.running else {
            return;
        };
        let last = running.answers.values().next_back();
        let error = last.and_then(|message| message.error.as_ref());
        let failure = match error {
            Some(error) => Some(failure_of(error).unwrap_or_else(|| {
                Failure::new(FailureKind::Other, "the turn was aborted from outside")
            })),
            None => running.failure.clone().filter(|_| last.is_none()),
        };
        let said_something = running.turn.has_text() || running.turn.has_tools();
        let failure = failure.or_else(|| {
            let empty = Failure::new(FailureKind::Empty, "the model answered with nothing");
            (!said_something).then_some(empty)
        });
        let Some(failure) = failure else {
            return self.finish(Reason::EndTurn, None, now, out);
        };
        if self.may_switch(&failure) {
            self.switch(failure, now, out);
        } else {
            self.give_up(failure, now, out);
        }
    }

    fn conclude_abort(&mut self, now: Instant, out: &mut Out) {
        let phase = self.running.as_ref().map(|running| running.phase.clone());
        let Some(Phase::Aborting { why, .. }) = phase else {
            return;
        };
        match why {
            Why::Cancel => self.finish(Reason::Canceled, None, now, out),
            // A tool may have run between the decision and the abort.
            Why::Switch(failure) if self.may_switch(&failure) => self.switch(failure, now, out),
            Why::Switch(failure) | Why::GiveUp(failure) => self.give_up(failure, now, out),
        }
    }

    pub(super) fn switch_or_give_up(&mut self, failure: Failure, out: &mut Out) {
        let why = if self.may_switch(&failure) {
            Why::Switch(failure)
        } else {
            Why::GiveUp(failure)
        };
        self.abort(why, out);
    }

    /// Another model may be asked the same, unless a tool has already done something.
    fn may_switch(&self, failure: &Failure) -> bool {
        self.running.as_ref().is_some_and(|running| {
            failure.kind.is_the_models()
                && running.next_model().is_some()
                && !running.turn.has_run_a_tool()
        })
    }

    /// The same prompt under the same ids, at the next model.
    fn switch(&mut self, failure: Failure, now: Instant, out: &mut Out) {
        let Some(running) = &mut self.running else {
            return;
        };
        let (from, to) = (running.model().cloned(), running.next_model().cloned());
        running.turn.withdraw_all(&mut out.happenings);
        running.spent.extend(running.used());
        let failed = std::mem::take(&mut running.answers);
        running.retired.extend(failed.into_keys());
        running.tried.push(Tried {
            model: from.clone(),
            failure: failure.clone(),
        });
        running.failure = None;
        running.look_at = None;
        running.look_again = false;
        running.looks = 0;
        running.at += 1;
        running.sends = 0;
        running.overflows = 0;
        running.phase = Phase::Sending { canceled: false };
        if let (Some(from), Some(to)) = (from, to) {
            out.happenings.push(Happening::ModelSwitched {
                prompt: running.prompt.id.clone(),
                from,
                to,
                why: failure,
            });
        }
        self.close_asks(out);
        self.set_status(Status::Thinking, out);
        self.send(Duration::ZERO, now, out);
    }

    fn give_up(&mut self, failure: Failure, now: Instant, out: &mut Out) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.tried.push(Tried {
            model: running.model().cloned(),
            failure,
        });
        let tried = std::mem::take(&mut running.tried);
        let error = TurnError {
            message: summary(&tried),
            tried,
        };
        self.finish(Reason::Error, Some(error), now, out);
    }

    pub(super) fn fail(&mut self, message: String, now: Instant, out: &mut Out) {
        let tried = self
            .running
            .as_mut()
            .map(|running| std::mem::take(&mut running.tried));
        let error = TurnError {
            message,
            tried: tried.unwrap_or_default(),
        };
        self.finish(Reason::Error, Some(error), now, out);
    }

    pub(super) fn finish(
        &mut self,
        reason: Reason,
        error: Option<TurnError>,
        now: Instant,
        out: &mut Out,
    ) {
        self.close_asks(out);
        let Some(mut running) = self.running.take() else {
            return;
        };
        let usage = running.usage();
        let mut by = std::mem::take(&mut running.spent);
        by.extend(running.used());
        if !by.is_empty() {
            let prompt = running.prompt.id.clone();
            out.happenings.push(Happening::Used { prompt, by });
        }
        running
            .turn
            .finish(reason, error.clone(), usage, &mut out.happenings);
        if reason == Reason::Error {
            self.set_status(Status::Error, out);
        }
        self.last_error = error;
        self.set_status(Status::Idle, out);
        if running.turn.has_run_a_tool() {
            self.list_now(out);
            self.unlisted = Some(Unlisted {
                turn: running.turn.id(),
                mark: running.mark,
                by: now + CHANGES_FOLLOW,
            });
        }
    }

    pub(super) fn list_changes_by(&mut self, now: Instant, out: &mut Out) {
        if self.unlisted.as_ref().is_some_and(|list| now >= list.by) {
            self.list_now(out);
        }
    }

    fn list_now(&mut self, out: &mut Out) {
        if let (Some(list), Some(session)) = (self.unlisted.take(), &self.session) {
            out.calls.push(Call::Changes {
                session: session.clone(),
                mark: list.mark,
                turn: list.turn,
            });
        }
    }
}

/// Text that no model will go on with: its attempt was given up inside the agent, which began
/// another in the same message, or ended the message without it.
fn is_orphan(message: &wire::MessageWithParts, place: usize) -> bool {
    let is_unfinished = match &message.parts[place].body {
        PartBody::Text { time, .. } | PartBody::Reasoning { time, .. } => {
            time.is_none_or(|time| time.end.is_none())
        }
        _ => false,
    };
    let was_aborted = message
        .info
        .error
        .as_ref()
        .is_some_and(|error| failure_of(error).is_none());
    let has_later_attempt = message.parts[place..]
        .iter()
        .any(|part| part.body == PartBody::StepStart);
    is_unfinished && (has_later_attempt || (message.info.is_over() && !was_aborted))
}

/// One sentence that names each model and why it failed.
fn summary(tried: &[Tried]) -> String {
    let each = tried.iter().map(|tried| match &tried.model {
        Some(model) => format!("{model}: {}", tried.failure),
        None => tried.failure.to_string(),
    });
    each.collect::<Vec<_>>().join("; ")
}
