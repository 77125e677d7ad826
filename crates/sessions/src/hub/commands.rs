//! What is asked of a session from outside.

use model::SnapshotId;
use model::session::{Effect, Event, Refused, Rest, State};
use serde_json::json;
use store::snapshots::Snapshot as Receipt;
use store::{NewEvent, Write};

use super::commits::Then;
use super::{Command, End, Hub, Outcome, Reply, Wish, answer};
use crate::registry::later;
use crate::{HubError, Watch};

impl Hub {
    pub(super) async fn hear(&mut self, command: Command) -> Result<(), End> {
        let now = self.shared.clock.now();
        let settings = &self.shared.settings;
        match command {
            Command::EnsureReady(reply) => {
                let begin = self.begin().await?;
                match self.happen(begin).await? {
                    // Once it rests it is begun again.
                    Ok(()) | Err(Refused::Leaving) => self.waiting.for_ready(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
                }
            }
            Command::Begin(reply) => {
                let begin = self.begin().await?;
                let happened = self.happen(begin).await?;
                answer(reply, happened.map_err(HubError::from));
            }
            Command::Rest(to, reply) => self.be_put_to_rest(to, reply).await?,
            Command::Recover(origin, reply) => {
                let until = later(now, settings.boot);
                match self.happen(Event::Recover { origin, until }).await? {
                    Ok(()) => self.waiting.for_ready(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
                }
            }
            Command::Migrate(reply) => {
                let until = later(now, settings.migrate);
                let from = self.lifecycle.place();
                match (self.happen(Event::Migrate { until }).await?, from) {
                    (Ok(()), Some(from)) => self.waiting.for_move(from, reply),
                    (Ok(()), None) => answer(reply, Err(Refused::NotRunning.into())),
                    (Err(refused), _) => answer(reply, Err(refused.into())),
                }
            }
            Command::Clear(reply) => {
                let cleared = self.happen(Event::Cleared).await?;
                answer(reply, cleared.map_err(HubError::from));
            }
            Command::Stop(reason, reply) => {
                let stopped = self.happen(Event::Stop { reason, at: now }).await?;
                answer(reply, stopped.map_err(HubError::from));
            }
            Command::Snapshot(wish, reply) => self.take_snapshot(wish, reply),
            Command::Store(reply) => {
                let until = later(now, settings.rest);
                let stored = self.happen(Event::Store { until }).await?;
                answer(reply, stored.map_err(HubError::from));
            }
            Command::Prompt(new, line, reply) => self.queue_prompt(new, line, reply).await?,
            Command::Edit { prompt, ask, reply } => self.edit(&prompt, &ask, reply).await?,
            Command::Withdraw(prompt, reply) => self.withdraw(&prompt, reply).await?,
            Command::Announce(event, reply) => {
                let write = Write::new(self.fence, now).event(event);
                self.submit(write, Then::wanted(reply)).await?;
            }
            Command::Rename(title, reply) => self.rename(title, reply).await?,
            Command::Archive(archived, reply) => self.archive(archived, reply).await?,
            Command::Say(frame, reply) => {
                let said = self.say_now(frame);
                answer(reply, said.then_some(()).ok_or(Refused::NotRunning.into()));
            }
            Command::Watch(reply) => {
                self.settle().await?;
                let watch = Watch {
                    seq: self.last_seq,
                    open: self.parts.whole(),
                    told: self.told.subscribe(),
                };
                answer(reply, Ok(watch));
            }
            Command::LetOut(pass, event, reply) => self.let_out(pass, event, reply).await?,
            Command::Blocked(place, blocked) => self.tell_blocked(place, blocked).await?,
            Command::Died(place) => {
                if matches!(&self.lifecycle.state, State::Running(running) if running.place == place && running.leaving.is_none())
                {
                    let generation = place.generation;
                    self.act(vec![Effect::Thaw { generation }]);
                }
            }
            Command::LetGo => return Err(End::Fenced),
        }
        self.tell_waiting().await
    }

    async fn be_put_to_rest(&mut self, to: Rest, reply: Reply<Option<Receipt>>) -> Result<(), End> {
        let at = self.shared.clock.now();
        let until = later(at, self.shared.settings.rest);
        match self.happen(Event::Rest { to, at, until }).await? {
            Ok(()) => self.waiting.for_rest(reply),
            Err(refused) => answer(reply, Err(refused.into())),
        }
        Ok(())
    }

    async fn rename(&mut self, title: String, reply: Reply<()>) -> Result<(), End> {
        let event = json!({ "type": "title", "title": title });
        let event = NewEvent::from_json(event.to_string())?;
        let write = Write::new(self.fence, self.shared.clock.now());
        let write = write.title(title).event(event);
        self.submit(write, Then::wanted(reply)).await
    }

    async fn archive(&mut self, archived: bool, reply: Reply<()>) -> Result<(), End> {
        let write = Write::new(self.fence, self.shared.clock.now());
        let write = if archived {
            write.archive()
        } else {
            write.unarchive()
        };
        self.submit(write, Then::wanted(reply)).await
    }

    fn take_snapshot(&mut self, wish: Option<Wish>, reply: Reply<SnapshotId>) {
        let refused = match &self.lifecycle.state {
            State::Running(running) if running.leaving.is_some() => Some(Refused::Leaving),
            State::Migrating(_) => Some(Refused::Migrating),
            _ => None,
        };
        if let Some(refused) = refused {
            return answer(reply, Err(refused.into()));
        }
        let Some(place) = self.lifecycle.whereabouts() else {
            return answer(reply, Err(Refused::NotRunning.into()));
        };
        let hand = self.hand.anew();
        let until = later(self.shared.clock.now(), self.shared.settings.rest);
        self.work.spawn(async move {
            let taken = hand.snapshot(place, wish, until).await;
            Outcome::Snapshot {
                place,
                taken,
                notes: hand.notes,
                reply,
            }
        });
    }
}
