//! What a runner's frames mean. All of it is hostile: a frame changes this session and no other,
//! and only in the ways that its kind allows.

use std::sync::Arc;

use model::Timestamp;
use model::session::{Event, StopReason};
use serde_json::json;
use store::channels::Channel;
use store::frames::Frame;
use store::prompts::Destination;
use store::transcript::OpenMessage;
use store::{NewEvent, Write};
use wire::link::{AgentStatus, ErrorFrame, FromHub, FromRunner, PartContent, Reason, RunnerFrame};

use super::commits::{Say, Taken, Then};
use super::talk::ARE_YOU_THERE;
use super::{End, Hub};
use crate::queue::{Ended, Step};

/// Steps that are written with the frame that they come of: one may close several answers, and a
/// write holds only so many events.
const WITH_A_FRAME: usize = 1;

impl Hub {
    pub(super) async fn frame(&mut self, frame: RunnerFrame) -> Result<(), End> {
        match frame.seq {
            Some(number) => self.kept(number, frame).await,
            None => self.passing(frame).await,
        }
    }

    /// Neither numbered nor kept.
    async fn passing(&mut self, frame: RunnerFrame) -> Result<(), End> {
        let now = self.shared.clock.now();
        match &frame.body {
            FromRunner::Ping => {
                self.say_now(FromHub::Pong);
            }
            FromRunner::PartDelta {
                message_id,
                part_id,
                offset,
                text,
            } => {
                if !self.messages.contains_key(message_id) {
                    let message = "no turn of that name is open";
                    self.object(ErrorFrame::UNKNOWN_TURN, message, &frame);
                } else if self.parts.grow(message_id, part_id, *offset, text) {
                    self.is_said(message_id);
                    self.pass_on(&frame.body);
                }
            }
            FromRunner::Part(part) if part.open && self.messages.contains_key(&part.message_id) => {
                self.parts.put(part);
                self.is_said(&part.message_id);
                self.pass_on(&frame.body);
            }
            FromRunner::PromptState { prompt_id, .. } if prompt_id == ARE_YOU_THERE => {
                self.agent_is(None);
            }
            FromRunner::PromptState { prompt_id, state } => {
                if let Some(from) = self.speaker(None) {
                    let steps = self.queue.state_is(prompt_id, &from, *state, now);
                    self.take_steps(steps).await?;
                }
            }
            FromRunner::Busy { prompt_id, .. } => {
                if let Some(from) = self.speaker(None) {
                    let steps = self.queue.busy(prompt_id, &from, now);
                    self.take_steps(steps).await?;
                }
            }
            FromRunner::Error(error) => {
                tracing::info!(code = error.code, "a runner objects");
            }
            _ => {}
        }
        Ok(())
    }

    /// Told in its place among what is kept.
    fn pass_on(&mut self, body: &FromRunner) {
        let text = serde_json::to_string(body).unwrap_or_default();
        self.commits.pass(Arc::from(text));
    }

    /// Who says it: the boot that is connected, or an earlier one whose journal it has.
    fn speaker(&self, from_boot: Option<&str>) -> Option<Destination> {
        let link = self.link.as_ref()?;
        let live = link.live.as_ref()?;
        let boot = from_boot.unwrap_or(&live.boot);
        let generation = live.generations.get(boot).copied();
        Some(Destination {
            generation: generation.unwrap_or(link.place.generation.0),
            boot: boot.to_owned(),
        })
    }

    /// Committed once, then acknowledged.
    async fn kept(&mut self, number: u64, frame: RunnerFrame) -> Result<(), End> {
        let Some(from) = self.speaker(frame.from_boot.as_deref()) else {
            return Ok(());
        };
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let Some(live) = &mut link.live else {
            return Ok(());
        };
        let taken = Taken {
            connection: live.connection,
            from_boot: frame.from_boot.clone().filter(|boot| *boot != live.boot),
            boot: from.boot.clone(),
            number,
        };
        let is_known = taken
            .from_boot
            .as_ref()
            .is_none_or(|boot| live.offered.contains(boot));
        if number == 0 || !is_known {
            let close = wire::link::Close::refused("a frame of nobody");
            self.hang_up(taken.connection, Some(close));
            return Ok(());
        }
        let seen = live.seen.entry(from.boot.clone()).or_default();
        if number <= *seen {
            // Said again, or still on its way; what is committed is acknowledged.
            let is_settled = self.commits.len() == 0;
            if is_settled {
                live.acknowledge(taken.from_boot, number);
            }
            return Ok(());
        }
        if number != *seen + 1 {
            self.hang_up(
                taken.connection,
                Some(wire::link::Close::refused("a frame is missing")),
            );
            return Ok(());
        }
        *seen = number;
        let is_owed = live.owed.remove(&from.boot).filter(|last| *last > number);
        let was_owed = is_owed.is_some();
        if let Some(last) = is_owed {
            live.owed.insert(from.boot.clone(), last);
        }
        let is_the_last = !was_owed && taken.from_boot.is_some() && live.owed.is_empty();
        let is_late = taken.from_boot.is_some();
        let poison = (from.boot.clone(), number);
        let is_poison = link.poison.take_if(|known| *known == poison).is_some();
        let now = self.shared.clock.now();
        let write = Write::new(self.fence, now).frame(Frame {
            generation: from.generation,
            boot: from.boot.clone(),
            number,
        });
        let mut then = Then {
            frame: Some(taken),
            ..Then::default()
        };
        let mut steps = Vec::new();
        let mut write = if is_poison {
            let body = json!({ "type": "error", "code": ErrorFrame::BAD_FRAME, "message": "the runner said something that does not fit" });
            write.event(NewEvent::from_json(body.to_string())?)
        } else {
            let write = if is_late && self.is_of_a_closed_message(&frame.body) {
                // An earlier boot goes on with an answer that was closed for it.
                write
            } else {
                self.with_events(write, &frame.body)
            };
            steps = self.meaning(&frame.body, &from, now);
            self.changes(write, &mut then, &frame.body, now)
        };
        let rest = steps.split_off(steps.len().min(WITH_A_FRAME));
        for step in steps {
            write = self.write_step(write, &mut then, step).await?;
        }
        self.submit(write, then).await?;
        self.take_steps(rest).await?;
        if is_the_last {
            let steps = self.queue.caught_up(now);
            self.take_steps(steps).await?;
        }
        Ok(())
    }

    /// What it means for prompts.
    fn meaning(&mut self, body: &FromRunner, from: &Destination, now: Timestamp) -> Vec<Step> {
        match body {
            FromRunner::Accepted { prompt_id, .. } => self.queue.accepted(prompt_id, from),
            FromRunner::Busy { prompt_id, .. } => self.queue.busy(prompt_id, from, now),
            FromRunner::PromptState { prompt_id, state } => {
                self.queue.state_is(prompt_id, from, *state, now)
            }
            FromRunner::Complete { prompt_id, .. } => {
                self.queue.ended(prompt_id, Ended::Completed, now)
            }
            FromRunner::Canceled { prompt_id, .. } => {
                self.queue.ended(prompt_id, Ended::Canceled, now)
            }
            FromRunner::Error(ErrorFrame {
                prompt_id: Some(prompt_id),
                ..
            }) => self.queue.ended(prompt_id, Ended::Failed, now),
            FromRunner::AgentStatus {
                status,
                channel,
                detail,
                ..
            } if self.is_live(from) => {
                self.idle.agent_is(channel.as_deref(), *status);
                let is_broken = *status == AgentStatus::Error && channel.is_none();
                let fault = is_broken.then(|| {
                    detail
                        .clone()
                        .unwrap_or("the agent does not run".to_owned())
                });
                self.agent_is(fault);
                self.queue.agent_ready(!is_broken, now)
            }
            _ => Vec::new(),
        }
    }

    /// Not from the journal of an earlier boot.
    fn is_live(&self, from: &Destination) -> bool {
        let link = self.link.as_ref().and_then(|link| link.live.as_ref());
        link.is_some_and(|live| live.boot == from.boot)
    }

    /// What it changes besides.
    fn changes(
        &mut self,
        write: Write,
        then: &mut Then,
        body: &FromRunner,
        now: Timestamp,
    ) -> Write {
        match body {
            FromRunner::Phase(phase) => {
                self.traces.phase_of_runner(phase);
                write
            }
            FromRunner::Message {
                message_id,
                prompt_id,
                channel,
                ..
            } => {
                let message = OpenMessage {
                    id: message_id.clone(),
                    prompt_id: prompt_id.clone(),
                    channel: channel.clone(),
                };
                self.messages.insert(message_id.clone(), message);
                write
            }
            FromRunner::Part(part) => {
                self.is_said(&part.message_id);
                self.tool_is_over(part);
                self.parts.close(&part.message_id, &part.part_id);
                write
            }
            FromRunner::PartRemoved {
                message_id,
                part_id,
            } => {
                self.parts.close(message_id, part_id);
                write
            }
            FromRunner::Usage { prompt_id, entries } => {
                self.count_cost(prompt_id, entries);
                write
            }
            FromRunner::MessageDone { message_id, .. }
            | FromRunner::MessageRemoved { message_id } => {
                if let FromRunner::MessageDone { prompt_id, .. } = body {
                    self.costs.forget(prompt_id.as_deref());
                }
                self.messages.remove(message_id);
                self.parts.close_all(message_id);
                write
            }
            FromRunner::Title { title } => write.title(title.chars().take(120).collect::<String>()),
            FromRunner::ChannelSessionCreated {
                channel,
                agent_session,
            } => {
                let known = &mut self.agent_sessions;
                known.insert(channel.clone(), agent_session.clone());
                write.channel(Channel {
                    name: channel.clone(),
                    agent_session: Some(agent_session.clone()),
                    body: "{}".to_owned(),
                })
            }
            FromRunner::Activity { uses } => {
                self.idle.used_for(uses);
                write
            }
            FromRunner::SelfTerminate { .. } => {
                self.next.push_back(Event::Stop {
                    reason: StopReason::Manual,
                    at: now,
                });
                write
            }
            FromRunner::Request(asked) => {
                then.says.push(Say::Answer(Box::new(asked.clone())));
                write
            }
            _ => write,
        }
    }

    fn is_of_a_closed_message(&self, body: &FromRunner) -> bool {
        match body {
            FromRunner::Part(part) => !self.messages.contains_key(&part.message_id),
            FromRunner::PartRemoved { message_id, .. }
            | FromRunner::MessageDone { message_id, .. } => !self.messages.contains_key(message_id),
            _ => false,
        }
    }

    /// What clients are told of it.
    fn with_events(&self, write: Write, body: &FromRunner) -> Write {
        let add = |write: Write, event: store::Result<NewEvent>| match event {
            Ok(event) => write.event(event),
            Err(error) => {
                tracing::warn!(%error, "a runner's frame is not told");
                write
            }
        };
        match body {
            FromRunner::Phase(phase) => {
                let status = self.lifecycle.client_status();
                let body = json!({ "type": "status", "status": status, "phase": phase });
                add(write, NewEvent::from_json(body.to_string()))
            }
            FromRunner::RunnerHealth(health) => {
                let body =
                    json!({ "type": "error", "code": health.kind, "message": health.message });
                add(write, NewEvent::from_json(body.to_string()))
            }
            FromRunner::MessageDone {
                message_id,
                reason,
                error,
                ..
            } => {
                let mut write = write;
                for (id, content) in last_parts(*reason, error.as_deref()) {
                    let part = wire::link::Part {
                        message_id: message_id.clone(),
                        part_id: id.to_owned(),
                        open: false,
                        content,
                    };
                    write = add(write, NewEvent::new(&FromRunner::Part(part)));
                }
                add(write, self.done_event(body))
            }
            body if is_shown(body) => add(write, NewEvent::new(body)),
            _ => write,
        }
    }
}

/// What every answer ends with, in the transcript.
pub(super) fn last_parts(
    reason: Reason,
    error: Option<&str>,
) -> impl Iterator<Item = (&'static str, PartContent)> {
    let message = (reason == Reason::Error).then(|| error.unwrap_or("it failed").to_owned());
    let error = message.map(|message| ("error", PartContent::Error { message }));
    let finish = ("finish", PartContent::Finish { reason });
    error.into_iter().chain([finish])
}

/// Whether clients hear of it as it is. The rest is between runner and hub.
fn is_shown(body: &FromRunner) -> bool {
    match body {
        FromRunner::Message { .. }
        | FromRunner::Part(_)
        | FromRunner::PartRemoved { .. }
        | FromRunner::MessageRemoved { .. }
        | FromRunner::MessageDone { .. }
        | FromRunner::AgentStatus { .. }
        | FromRunner::Question(_)
        | FromRunner::QuestionClosed { .. }
        | FromRunner::Permission(_)
        | FromRunner::PermissionClosed { .. }
        | FromRunner::Image { .. }
        | FromRunner::Models { .. }
        | FromRunner::ModelSwitched { .. }
        | FromRunner::Break { .. }
        | FromRunner::Tunnels { .. }
        | FromRunner::Services { .. }
        | FromRunner::Ports { .. }
        | FromRunner::AutoStartOutput { .. }
        | FromRunner::GitState { .. }
        | FromRunner::FilesChanged { .. }
        | FromRunner::PullRequest { .. }
        | FromRunner::ChildSession { .. }
        | FromRunner::Title { .. }
        | FromRunner::DiffResult { .. }
        | FromRunner::ReviewResult { .. }
        | FromRunner::CommandResult { .. }
        | FromRunner::Reverted { .. }
        | FromRunner::Error(_) => true,
        FromRunner::Hello(_)
        | FromRunner::Ping
        | FromRunner::PartDelta { .. }
        | FromRunner::Accepted { .. }
        | FromRunner::Busy { .. }
        | FromRunner::PromptState { .. }
        | FromRunner::Complete { .. }
        | FromRunner::Canceled { .. }
        | FromRunner::AudioTranscript { .. }
        | FromRunner::ChannelSessionCreated { .. }
        | FromRunner::Usage { .. }
        | FromRunner::Activity { .. }
        | FromRunner::WorkflowChatMessage { .. }
        | FromRunner::WorkflowExecutionResult(_)
        | FromRunner::AgentConfigApplied { .. }
        | FromRunner::SelfTerminate { .. }
        | FromRunner::RunnerHealth(_)
        | FromRunner::WaitSubscription { .. }
        | FromRunner::Phase(_)
        | FromRunner::CloneComplete { .. }
        | FromRunner::Stopped
        | FromRunner::Request(_)
        | FromRunner::Close(_) => false,
    }
}
