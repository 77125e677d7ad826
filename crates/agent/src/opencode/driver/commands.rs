//! What handles ask of the driver.

use tokio::sync::oneshot;

use super::{Driver, Finished, MOST_CHANNELS, Slot, Taken, Waiting};
use crate::agent::{Accepted, Failed, Refused, Scope};
use crate::channel::ChannelKey;
use crate::event::{Event, Happening, NewSession, SessionRef};
use crate::opencode::conversation::{Conversation, Out, Verified};
use crate::opencode::handle::{Borrowed, Command};
use crate::opencode::work::Readiness;
use crate::prompt::{Hearing, Prompt, PromptId, fit};

impl Driver {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Accept { prompt, reply } => {
                let _ = reply.send(self.accept(*prompt));
            }
            Command::Cancel { scope, reply } => self.cancel(&scope, reply),
            Command::Answer {
                question,
                item,
                chosen,
                reply,
            } => {
                let answer = |conversation: &mut Conversation, out: &mut Out| {
                    conversation.answer_item(&question, item, chosen, out)
                };
                let _ = reply.send(self.at_ask(&question.0, answer));
            }
            Command::Decide {
                permission,
                outcome,
                reply,
            } => {
                let decide = |conversation: &mut Conversation, out: &mut Out| {
                    conversation.decide(&permission, outcome, out)
                };
                let _ = reply.send(self.at_ask(&permission.0, decide));
            }
            Command::Held { reply } => {
                let held = self.slots.values().map(|slot| slot.conversation.holds());
                let _ = reply.send(held.collect());
            }
            Command::Borrow { channel, reply } => {
                let _ = reply.send(self.borrow(&channel));
            }
            Command::Adopt { channel, session } => self.adopt(&channel, session),
            Command::Remember { channel, session } => {
                // One that works knows its own; and it is looked at before it is used.
                if let Ok(slot) = self.slot(&channel)
                    && slot.conversation.session.is_none()
                {
                    slot.conversation.session = Some(session);
                    slot.conversation.verified = Verified::No;
                }
            }
            Command::DecideBy(policy) => {
                self.settings.permissions = policy;
                self.each(|conversation, _, _| conversation.decide_by(policy));
            }
            Command::ProcessStarted => {
                self.readiness.send_replace(Readiness::Up);
                self.watch.turn_on();
            }
            Command::ProcessEnded(how) => {
                self.readiness.send_replace(Readiness::Down);
                self.watch.turn_off();
                self.each(|conversation, now, out| conversation.process_ended(&how, now, out));
            }
            Command::ProcessGivenUp(why) => self.give_up(&why),
        }
    }

    fn accept(&mut self, prompt: Prompt) -> Result<Accepted, Refused> {
        if let Readiness::GivenUp(why) = &*self.readiness.borrow() {
            return Err(Refused::AgentGone(why.clone()));
        }
        let hearing = match &self.settings.transcriber {
            Some(transcriber) if transcriber.is_set_up() => Hearing::Transcribed,
            _ => Hearing::None,
        };
        let mut prompt = fit(prompt, hearing)?;
        if prompt.models.is_empty() {
            // Else it would be whichever was asked last, and that may be one to which a turn fled.
            prompt.models.extend(self.settings.model.clone());
        }
        let channel = prompt.channel.clone();
        let slot = self.slot(&channel)?;
        let runs = slot.conversation.is_busy() && !slot.conversation.is_being_canceled();
        if runs || !matches!(slot.taken, Taken::Free) {
            return Err(Refused::Busy(channel));
        }
        slot.taken = Taken::Reserved { canceled: false };
        let (accepted, started) = Accepted::new(prompt.id.clone());
        self.work.push(Box::pin(async move {
            match started.await {
                Ok(()) => Finished::Started(Box::new(prompt)),
                Err(_) => Finished::Released(channel),
            }
        }));
        Ok(accepted)
    }

    fn slot(&mut self, channel: &ChannelKey) -> Result<&mut Slot, Refused> {
        if !self.slots.contains_key(channel) && self.slots.len() >= MOST_CHANNELS {
            let is_idle =
                |slot: &Slot| !slot.conversation.is_busy() && matches!(slot.taken, Taken::Free);
            let idle = self.slots.iter().find(|(_, slot)| is_idle(slot));
            let idle = idle.map(|(channel, _)| channel.clone());
            let idle = idle.ok_or(Refused::TooManyChannels(MOST_CHANNELS))?;
            self.slots.remove(&idle);
        }
        let settings = &self.settings;
        Ok(self.slots.entry(channel.clone()).or_insert_with(|| Slot {
            conversation: Conversation::new(
                channel.clone(),
                settings.clock.clone(),
                settings.permissions,
            ),
            taken: Taken::Free,
            cancels: Vec::new(),
        }))
    }

    fn cancel(&mut self, scope: &Scope, reply: oneshot::Sender<(Vec<PromptId>, Waiting)>) {
        let mut prompts = Vec::new();
        let mut ends = Vec::new();
        let channels: Vec<ChannelKey> = match scope {
            Scope::All => self.slots.keys().cloned().collect(),
            Scope::Channel(channel) => vec![channel.clone()],
        };
        for channel in channels {
            let Some(slot) = self.slots.get_mut(&channel) else {
                continue;
            };
            if let Taken::Waiting { prompt, .. } = &slot.taken {
                prompts.push(prompt.id.clone());
            }
            if let Taken::Reserved { canceled } | Taken::Waiting { canceled, .. } = &mut slot.taken
            {
                *canceled = true;
            }
            if let Some(prompt) = slot.conversation.prompt() {
                prompts.push(prompt.clone());
                let (waiter, end) = oneshot::channel();
                slot.cancels.push(waiter);
                ends.push(end);
                self.at(&channel, |conversation, now, out| {
                    conversation.cancel(now, out);
                });
            }
        }
        let _ = reply.send((prompts, ends));
    }

    fn at_ask(
        &mut self,
        id: &str,
        act: impl FnOnce(&mut Conversation, &mut Out) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let mut slots = self.slots.iter();
        let found = slots.find(|(_, slot)| slot.conversation.asks(id));
        let Some(channel) = found.map(|(channel, _)| channel.clone()) else {
            return Err(Failed::NotOpen(id.to_owned()));
        };
        let mut result = Ok(());
        self.at(&channel, |conversation, _, out| {
            result = act(conversation, out);
        });
        result
    }

    /// The channel for something that is no prompt, until the answer is dropped.
    fn borrow(&mut self, channel: &ChannelKey) -> Result<Borrowed, Failed> {
        let slot = self
            .slot(channel)
            .map_err(|refused| Failed::AgentGone(refused.to_string()))?;
        if slot.conversation.is_busy() || !matches!(slot.taken, Taken::Free) {
            return Err(Failed::Busy(channel.clone()));
        }
        slot.taken = Taken::Borrowed;
        let session = slot.conversation.session.clone();
        let (hold, end) = oneshot::channel::<()>();
        let channel = channel.clone();
        self.work.push(Box::pin(async move {
            let _ = end.await;
            Finished::Released(channel)
        }));
        Ok(Borrowed {
            session,
            _hold: hold,
        })
    }

    fn adopt(&mut self, channel: &ChannelKey, session: String) {
        if let Some(slot) = self.slots.get_mut(channel) {
            slot.conversation.session = Some(session.clone());
            slot.conversation.verified = Verified::Yes;
            let session = SessionRef(session);
            self.outbox.push_back(Event {
                channel: channel.clone(),
                prompt: None,
                session: Some(session.clone()),
                happening: Happening::SessionStarted {
                    session,
                    why: NewSession::Asked,
                },
            });
        }
    }

    fn give_up(&mut self, why: &str) {
        self.readiness
            .send_replace(Readiness::GivenUp(why.to_owned()));
        self.watch.turn_off();
        self.each(|conversation, now, out| conversation.process_given_up(why, now, out));
    }
}
