//! Prompts: asked, written, sent, ended.

use model::session::{Refused, State};
use serde_json::{Value, json};
use store::audit::Line;
use store::prompts::{End as PromptEnd, Mode, NewPrompt, Prompt, Queued, Status};
use store::{NewEvent, Write};
use telemetry::Context;
use wire::link::{self, FromHub, FromRunner, Reason, Source};

use super::commits::{Say, Then};
use super::frames::last_parts;
use super::{End, Hub, Reply, answer, history};
use crate::queue::Step;
use crate::{Ask, HubError};

/// Steps that are written at once: one may close several answers, and a write holds only so many
/// events.
const AT_ONCE: usize = 1;
/// A prompt goes to the runner in one frame, with what was said before.
const LONGEST: usize = wire::link::MAX_INLINE;
/// What is longer is not gathered with others.
const SHORT: usize = 32 << 10;
/// Answers that are closed with the prompt they belong to; more than a turn has.
const MESSAGES: usize = 8;

impl Hub {
    pub(super) async fn queue_prompt(
        &mut self,
        mut new: NewPrompt,
        line: Option<Box<Line>>,
        reply: Reply<Prompt>,
    ) -> Result<(), End> {
        if let State::Stopped(_) = self.lifecycle.state {
            // What was asked before is still known.
            let known = self.shared.store.find_prompt(self.fence.session, &new.id);
            answer(reply, known.await?.ok_or(Refused::Stopped.into()));
            return Ok(());
        }
        if new.body.len() > LONGEST {
            let error = store::Error::TooLarge {
                what: "a prompt",
                limit: LONGEST,
            };
            answer(reply, Err(error.into()));
            return Ok(());
        }
        let Ok(ask) = serde_json::from_str::<Ask>(&new.body) else {
            let error = store::Error::Misfit("a prompt without content");
            answer(reply, Err(error.into()));
            return Ok(());
        };
        if new.mode == Mode::Collect && new.body.len() > SHORT {
            new.mode = Mode::Followup;
        }
        let message = json!({
            "type": "message",
            "message_id": format!("usr-{}", new.id),
            "role": "user",
            "channel": new.channel,
            "prompt_id": new.id,
            "author": ask.author,
            "parts": self.parts_of(&ask).await,
        });
        let message = match NewEvent::from_json(message.to_string()) {
            Ok(message) => message,
            Err(error) => {
                answer(reply, Err(error.into()));
                return Ok(());
            }
        };
        let now = self.shared.clock.now();
        let queued = prompt_event(&new.id, Status::Queued, None)?;
        let mut write = Write::new(self.fence, now)
            .queue_prompt(new)
            .touch()
            .event(message)
            .event(queued);
        if let Some(line) = line {
            write = write.audit(*line);
        }
        let then = Then {
            asked: Some(reply),
            cause: Context {
                request: self.traces.cause.request.clone(),
                trace: ask.trace,
            },
            ..Then::default()
        };
        self.submit(write, then).await
    }

    /// What a person says, as the transcript has it: the words, and which files came with them.
    async fn parts_of(&self, ask: &Ask) -> Vec<Value> {
        let text = json!({ "kind": "text", "text": ask.content });
        let mut parts = vec![json!({ "part_id": "text", "content": text })];
        for (number, file) in (1..).zip(&ask.attachments) {
            let size = self.size_of(&file.source).await;
            let content = json!({
                "kind": "file", "name": file.name, "media_type": file.media_type, "size": size,
            });
            parts.push(json!({ "part_id": format!("file-{number}"), "content": content }));
        }
        parts
    }

    /// In bytes. Of what is only in the sandbox nobody knows here.
    async fn size_of(&self, source: &Source) -> Option<u64> {
        match source {
            Source::Data(base64) => {
                let digits = base64.trim_end_matches('=').len() as u64;
                Some(digits * 3 / 4)
            }
            Source::Upload(id) => {
                let (store, now) = (&self.shared.store, self.shared.clock.now());
                let found = store.find_upload(self.organisation, id.parse().ok()?, now);
                found.await.ok()?.map(|upload| upload.size)
            }
            Source::File(_) => None,
        }
    }

    /// It is written: from now on it will be sent, once.
    pub(super) async fn is_queued(&mut self, queued: Queued) -> Result<Prompt, End> {
        let prompt = match queued {
            Queued::Known(prompt) => {
                if prompt.status == Status::Queued {
                    self.wake().await?;
                }
                return Ok(prompt);
            }
            Queued::New(prompt) => prompt,
        };
        let now = self.shared.clock.now();
        let trace = self.traces.cause.trace;
        self.traces.queued(&prompt.id, &prompt.channel, trace);
        self.idle.touch(now);
        self.last_channel = Some(prompt.channel.clone());
        let steps = self.queue.add(&prompt, now);
        self.take_steps(steps).await?;
        self.wake().await?;
        Ok(prompt)
    }

    /// Somebody waits for an answer: a session that rests goes on.
    async fn wake(&mut self) -> Result<(), End> {
        match &self.lifecycle.state {
            State::Running(running) => self.is_wanted = running.leaving.is_some(),
            State::Paused(_) if self.cooling.until(self.shared.clock.now()).is_some() => {
                self.is_wanted = true;
            }
            State::Starting(_) | State::Paused(_) | State::Suspended(_) => {
                let begin = self.begin().await?;
                // Refused where it may not be woken so.
                self.next.push_back(begin);
            }
            State::Migrating(_) | State::Stopped(_) => {}
        }
        Ok(())
    }

    /// Another text for one that still waits. Whoever watches is told what is asked now.
    pub(super) async fn edit(
        &mut self,
        prompt: &str,
        ask: &Ask,
        reply: Reply<()>,
    ) -> Result<(), End> {
        let body = serde_json::to_string(ask).unwrap_or_default();
        if body.len() > LONGEST {
            let error = store::Error::TooLarge {
                what: "a prompt",
                limit: LONGEST,
            };
            answer(reply, Err(error.into()));
            return Ok(());
        }
        let status = Status::Queued.as_str();
        let said = json!({
            "type": "prompt", "id": prompt, "status": status, "content": ask.content,
        });
        let write = Write::new(self.fence, self.shared.clock.now())
            .edit_prompt(prompt, body)
            .event(NewEvent::from_json(said.to_string())?);
        self.submit(write, Then::wanted(reply)).await
    }

    pub(super) async fn withdraw(&mut self, prompt: &str, reply: Reply<()>) -> Result<(), End> {
        // One that was just asked may still be on its way.
        self.settle().await?;
        if !self.queue.withdraw(prompt) {
            let known = self.shared.store.find_prompt(self.fence.session, prompt);
            let error = match known.await? {
                Some(prompt) => store::Error::PromptMoved(prompt.status),
                None => store::Error::NotFound("prompt"),
            };
            answer(reply, Err(HubError::Store(error)));
            return Ok(());
        }
        let reason = "it was withdrawn";
        self.traces.ended(prompt, PromptEnd::Finished, None);
        let event = prompt_event(prompt, Status::Finished, Some(reason))?;
        let write = Write::new(self.fence, self.shared.clock.now())
            .end_prompt(prompt, PromptEnd::Finished, Some(reason.to_owned()))
            .event(event);
        self.submit(write, Then::wanted(reply)).await
    }

    /// Writes what the queue decided; what is to be said follows when it is written.
    pub(super) async fn take_steps(&mut self, steps: Vec<Step>) -> Result<(), End> {
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            let mut write = Write::new(self.fence, self.shared.clock.now());
            let mut then = Then::default();
            for step in steps.by_ref().take(AT_ONCE) {
                write = self.write_step(write, &mut then, step).await?;
            }
            self.submit(write, then).await?;
        }
        Ok(())
    }

    pub(super) async fn write_step(
        &mut self,
        write: Write,
        then: &mut Then,
        step: Step,
    ) -> Result<Write, End> {
        Ok(match step {
            Step::Join { prompt, others } => self.write_join(write, &prompt, others).await?,
            Step::Dispatch { prompt, to } => {
                let event = prompt_event(&prompt, Status::Dispatched, None)?;
                let write = write.dispatch_prompt(&prompt, to.clone()).event(event);
                self.traces
                    .goes_on(&prompt, "prompt dispatched", to.generation);
                then.says.push(Say::Prompt { id: prompt, to });
                write
            }
            Step::Accept { prompt, from } => {
                let event = prompt_event(&prompt, Status::Accepted, None)?;
                self.traces.goes_on(&prompt, "agent turn", from.generation);
                write.accept_prompt(prompt, from).event(event)
            }
            Step::GiveBack { prompt, from } => {
                let event = prompt_event(&prompt, Status::Queued, None)?;
                self.traces
                    .goes_on(&prompt, "prompt queued", from.generation);
                write.give_back_prompt(prompt, from).event(event)
            }
            Step::End {
                prompt,
                end,
                reason,
            } => {
                let write = self.close_answers(write, &prompt, end, reason)?;
                let event = prompt_event(&prompt, end.status(), reason)?;
                self.traces.ended(&prompt, end, reason);
                let reason = reason.map(str::to_owned);
                write.end_prompt(prompt, end, reason).event(event)
            }
            Step::Cancel { channel } => {
                let channel = Some(channel);
                then.says.push(Say::Frame(FromHub::Cancel { channel }));
                write
            }
            Step::Ask { prompt } => {
                let prompt_id = prompt;
                then.says
                    .push(Say::Frame(FromHub::PromptState { prompt_id }));
                write
            }
        })
    }

    /// Several that were gathered are sent as the first.
    async fn write_join(
        &mut self,
        write: Write,
        prompt: &str,
        others: Vec<String>,
    ) -> Result<Write, End> {
        let mut asks = Vec::new();
        for id in std::iter::once(prompt).chain(others.iter().map(String::as_str)) {
            let found = self.shared.store.find_prompt(self.fence.session, id);
            if let Some(found) = found.await? {
                asks.push(read_ask(&found)?);
            }
        }
        let joined = serde_json::to_string(&Ask::joined(asks)).unwrap_or_default();
        let mut write = write.edit_prompt(prompt, joined);
        for other in others {
            let reason = format!("it was sent with {prompt}");
            let event = prompt_event(&other, Status::Finished, Some(&reason))?;
            self.traces.ended(&other, PromptEnd::Finished, None);
            write = write
                .end_prompt(other, PromptEnd::Finished, Some(reason))
                .event(event);
        }
        Ok(write)
    }

    /// Nobody will go on with the answers of an interrupted prompt: what was never whole is taken
    /// back, and the rest is closed.
    fn close_answers(
        &mut self,
        mut write: Write,
        prompt: &str,
        end: PromptEnd,
        reason: Option<&'static str>,
    ) -> Result<Write, End> {
        if end != PromptEnd::Interrupted {
            return Ok(write);
        }
        let of_it =
            |message: &store::transcript::OpenMessage| message.prompt_id.as_deref() == Some(prompt);
        let open: Vec<String> = self
            .messages
            .extract_if(.., |_, message| of_it(message))
            .map(|(id, _)| id)
            .take(MESSAGES)
            .collect();
        for message_id in open {
            for part_id in self.parts.close_all(&message_id).into_iter().take(1) {
                let message_id = message_id.clone();
                write = write.event(NewEvent::new(&FromRunner::PartRemoved {
                    message_id,
                    part_id,
                })?);
            }
            for (id, content) in last_parts(Reason::Error, reason) {
                write = write.event(NewEvent::new(&FromRunner::Part(link::Part {
                    message_id: message_id.clone(),
                    part_id: id.to_owned(),
                    open: false,
                    content,
                }))?);
            }
            write = write.event(NewEvent::new(&FromRunner::MessageDone {
                message_id,
                prompt_id: Some(prompt.to_owned()),
                reason: Reason::Error,
                text: String::new(),
                error: reason.map(str::to_owned),
                usage: None,
            })?);
        }
        Ok(write)
    }

    /// As the runner gets it, with what was said before: an agent that has forgotten it is told.
    pub(super) async fn prompt_to_send(&self, id: &str) -> Result<Option<link::Prompt>, End> {
        let session = self.fence.session;
        let Some(prompt) = self.shared.store.find_prompt(session, id).await? else {
            return Ok(None);
        };
        let ask = read_ask(&prompt)?;
        let before = self.shared.store.last_messages(session, history::MESSAGES);
        let context = history::tell(&before.await?, &prompt.channel, id, |prompt| {
            self.queue.waits(prompt)
        });
        Ok(Some(link::Prompt {
            id: prompt.id,
            content: ask.content,
            chain: if ask.chain.is_empty() {
                self.spec.chain.clone()
            } else {
                ask.chain
            },
            attachments: ask.attachments,
            agent_session: self.agent_sessions.get(&prompt.channel).cloned(),
            channel: prompt.channel,
            reply_channel: ask.reply_channel,
            author: ask.author,
            context,
        }))
    }
}

fn read_ask(prompt: &Prompt) -> Result<Ask, End> {
    serde_json::from_str(&prompt.body).map_err(|error| {
        End::Store(store::Error::Unreadable {
            what: "prompt",
            detail: error.to_string(),
        })
    })
}

fn prompt_event(id: &str, status: Status, reason: Option<&str>) -> Result<NewEvent, End> {
    let mut body = json!({ "type": "prompt", "id": id, "status": status.as_str() });
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    Ok(NewEvent::from_json(body.to_string())?)
}
