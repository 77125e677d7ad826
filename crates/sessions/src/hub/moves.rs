//! From one state of the session to the next, and what is done about it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt as _;
use jobs::Job;
use model::Timestamp;
use model::session::{
    Boot, Effect, Event, Generation, Held, Lifecycle, PauseReason, Place, Refused, Rest, State,
};
use provider::Capability;
use serde_json::json;
use store::{NewEvent, Write, sandboxes};
use tracing::Instrument as _;

use super::commits::Then;
use super::expiry::leave_at;
use super::{Booting, End, Hub, Outcome, answer, label};
use crate::registry::later;
use crate::{Expire, HubError, Seen, Sessions, Spec, Work};

impl Hub {
    pub(super) fn follow_expiry(&mut self) {
        let (now, grace) = (self.shared.clock.now(), self.shared.settings.grace);
        self.expiry.follow(&self.lifecycle, now, grace);
    }

    /// The provider will end the sandbox soon: it is kept for longer where that can be, else left.
    pub(super) async fn leave(&mut self) -> Result<(), End> {
        let State::Running(running) = &self.lifecycle.state else {
            return Ok(());
        };
        let place = running.place;
        let before = running.expires_at.unwrap_or(Timestamp::MAX);
        self.expiry.begin();
        if !self.hand.provider.capabilities().has(Capability::Extend) {
            return self.give_way().await;
        }
        let until = later(self.shared.clock.now(), self.shared.settings.extension);
        let hand = self.hand.clone();
        self.work.spawn(async move {
            let until = hand.extend(place.sandbox, until, before).await;
            Outcome::Extended { place, until }
        });
        Ok(())
    }

    /// To another sandbox while somebody is there, else to rest.
    async fn give_way(&mut self) -> Result<(), End> {
        self.expiry.end();
        let is_in_use = self.clients.load(Ordering::Relaxed) > 0
            || !self.queue.is_idle()
            || self.is_automated();
        if !is_in_use {
            return self.rest_for_want_of_use().await;
        }
        let until = later(self.shared.clock.now(), self.shared.settings.migrate);
        let _ = self.happen(Event::Migrate { until }).await?;
        self.follow_expiry();
        Ok(())
    }

    /// Programs watch by asking now and then: nobody is seen to be there.
    fn is_automated(&self) -> bool {
        let channel = self.last_channel.as_deref();
        channel.is_some_and(|channel| channel.split(':').next() == Some("automation"))
    }

    pub(super) async fn rest_for_want_of_use(&mut self) -> Result<(), End> {
        // A prompt may be on its way into the log.
        self.settle().await?;
        if !self.queue.is_idle() {
            return Ok(());
        }
        let now = self.shared.clock.now();
        let event = Event::Rest {
            to: Rest::Paused(PauseReason::Inactivity),
            at: now,
            until: later(now, self.shared.settings.rest),
        };
        // Not at once again, should it not come about.
        self.idle.touch(now);
        let _ = self.happen(event).await?;
        self.tell_waiting().await
    }

    async fn extended(
        &mut self,
        place: Place,
        until: Result<Timestamp, provider::ProviderError>,
    ) -> Result<(), End> {
        // Whatever it came to: it may be tried again.
        self.expiry.end();
        let generation = place.generation;
        if self.lifecycle.place() != Some(place) {
            return Ok(());
        }
        let before = match &self.lifecycle.state {
            State::Running(running) => running.expires_at,
            State::Migrating(migrating) => migrating.expires_at,
            _ => return Ok(()),
        };
        match until {
            Ok(expires_at) if before.is_none_or(|before| expires_at > before) => {
                let event = Event::Extended {
                    generation,
                    expires_at,
                };
                self.happen(event).await.map(|_| ())
            }
            _ if matches!(self.lifecycle.state, State::Migrating(_)) => Ok(()),
            Ok(_) => self.give_way().await,
            Err(error) => {
                tracing::info!(%error, "a sandbox cannot be kept for longer");
                self.give_way().await
            }
        }
    }

    pub(super) async fn took(
        &mut self,
        done: Result<Outcome, tokio::task::JoinError>,
    ) -> Result<(), End> {
        match done {
            Ok(Outcome::Effect {
                generation,
                event,
                notes,
            }) => {
                self.line.is_done(generation);
                self.write_down(&notes).await?;
                let failed = self.failed_move(event.as_ref());
                match event {
                    Some(Event::Ready { place, expires_at }) if self.waits_for_an_agent() => {
                        self.phase_is_over("sandbox").await?;
                        self.traces.is_at("link");
                        self.wait_for_agent(Booting { place, expires_at });
                    }
                    Some(event) => {
                        let _ = self.happen(event).await?;
                    }
                    None => {}
                }
                if let Some(failed) = failed {
                    let write = Write::new(self.fence, self.shared.clock.now()).event(failed);
                    self.submit(write, Then::default()).await?;
                }
                self.go_on_with(generation);
            }
            Ok(Outcome::Snapshot {
                place,
                taken,
                notes,
                reply,
            }) => match taken {
                Ok(snapshot) => {
                    self.write_down(&notes).await?;
                    let event = Event::SnapshotTaken {
                        generation: place.generation,
                        snapshot: snapshot.clone(),
                    };
                    let _ = self.happen(event).await?;
                    answer(reply, Ok(snapshot));
                }
                Err(fault) => answer(reply, Err(HubError::Failed(fault))),
            },
            Ok(Outcome::Extended { place, until }) => self.extended(place, until).await?,
            Ok(Outcome::Answered { id, answer }) => self.is_answered(id, answer),
            Ok(Outcome::Dressed(dressing)) => self.dressed(dressing).await?,
            // Given up for what came after it, or a fault of ours that the deadline mends.
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                tracing::error!(%error, "work for a session broke");
            }
        }
        self.tell_waiting().await
    }

    /// What everybody is told, whoever asked for it: the session stays where it is.
    fn failed_move(&self, event: Option<&Event>) -> Option<NewEvent> {
        let State::Migrating(_) = self.lifecycle.state else {
            return None;
        };
        let Some(Event::BootFailed { fault, .. }) = event else {
            return None;
        };
        let body = json!({ "type": "error", "code": "move-failed", "message": fault.message });
        NewEvent::from_json(body.to_string()).ok()
    }

    /// Writes a move, tells it, and acts on it. A refused one changes nothing.
    pub(super) async fn happen(&mut self, event: Event) -> Result<Result<(), Refused>, End> {
        let (next, effects) = match self.lifecycle.clone().apply(event) {
            Ok(moved) => moved,
            Err(refused) => return Ok(Err(refused)),
        };
        if next != self.lifecycle {
            let write = self.write_of(&next)?;
            self.submit(write, Then::default()).await?;
            self.settle().await?;
            let before = std::mem::replace(&mut self.lifecycle, next);
            self.follow_move(&before).await?;
            self.seen.send_if_modified(|seen| {
                let now = seen_of(&self.lifecycle);
                let changed = *seen != now;
                *seen = now;
                changed
            });
        }
        self.tell_what_it_starts_from(&effects).await?;
        self.act(effects);
        Ok(Ok(()))
    }

    fn write_of(&self, next: &Lifecycle) -> Result<Write, End> {
        let before = &self.lifecycle;
        let mut write = Write::new(self.fence, self.shared.clock.now()).state(next);
        let made: Vec<_> = next
            .generations()
            .into_iter()
            .filter(|generation| *generation > before.generation)
            .collect();
        for generation in made {
            let key = label::key(self.fence.session, generation);
            write = write.request_sandbox(generation.0, key, &*self.provider_name);
        }
        if let Some(place) = next.place().filter(|place| before.place() != Some(*place)) {
            write = write.move_sandbox(place.generation.0, sandboxes::Status::Ready);
        }
        let gone = before
            .generations()
            .into_iter()
            .filter(|generation| !next.generations().contains(generation));
        for generation in gone {
            write = write.move_sandbox(generation.0, sandboxes::Status::Gone);
        }
        write = self.with_expiry(write, next);
        let (status, was) = (next.client_status(), before.client_status());
        if status != was {
            let mut body =
                json!({ "type": "status", "status": status, "message": message_of(next) });
            if let Some(fault) = next.fault() {
                body["fault"] = json!(self.traces.told(fault));
            }
            let event = NewEvent::from_json(body.to_string()).map_err(End::Store)?;
            write = write.event(event);
        }
        Ok(write)
    }

    /// One job for each session whose sandbox will be ended, and none for others.
    fn with_expiry(&self, write: Write, next: &Lifecycle) -> Write {
        let expires = |lifecycle: &Lifecycle| match &lifecycle.state {
            State::Running(running) => running.expires_at,
            State::Migrating(migrating) => migrating.expires_at,
            _ => None,
        };
        let session = self.fence.session;
        match (expires(&self.lifecycle), expires(next)) {
            (before, after) if before == after => write,
            (_, Some(expires_at)) => {
                let clock = &*self.shared.clock;
                let grace = self.shared.settings.grace;
                let at = leave_at(expires_at, clock.now(), grace);
                write.enqueue(jobs::row(&Expire { session }, at, clock))
            }
            (_, None) => {
                write.cancel_job(<Expire as Job<Sessions>>::KIND, Expire { session }.key())
            }
        }
    }

    /// What a move means for the prompts and the link.
    async fn follow_move(&mut self, before: &Lifecycle) -> Result<(), End> {
        let now = self.shared.clock.now();
        self.traces.follow_start(&self.lifecycle);
        self.follow_expiry();
        let generations = self.lifecycle.generations();
        self.booting = self
            .booting
            .filter(|booting| generations.contains(&booting.place.generation))
            .filter(|_| !matches!(self.lifecycle.state, State::Running(_)));
        let mut steps = Vec::new();
        if !self.is_served() {
            let gone = before.generations();
            for gone in gone.iter().filter(|gone| !generations.contains(gone)) {
                steps.extend(self.queue.sandbox_gone(gone.0, now));
            }
        }
        // Nobody wanted it to rest, and somebody waits for an answer.
        let died = matches!(&self.lifecycle.state, State::Paused(paused) if paused.reason == PauseReason::Recovered);
        self.is_wanted |= died && self.queue.has_waiting();
        if died && !matches!(before.state, State::Paused(_)) {
            self.count_loss(now).await?;
        }
        let is_open = match &self.lifecycle.state {
            State::Running(running) => running.leaving.is_none(),
            State::Stopped(_) => {
                steps.extend(self.queue.stop());
                false
            }
            _ => false,
        };
        if is_open {
            self.stop_turns_at = None;
            self.queue.stay();
            if before.place() != self.lifecycle.place() {
                self.idle.begin_anew(now);
            }
        }
        steps.extend(self.queue.open(is_open, now));
        self.take_steps(steps).await
    }

    /// One too many in a row is not replaced at once, and everybody is told.
    async fn count_loss(&mut self, now: Timestamp) -> Result<(), End> {
        let Some(pause) = self.cooling.lost(now) else {
            return Ok(());
        };
        let message = format!(
            "its sandbox was lost several times in a row: what waits is begun in {} min, or at once when the session is resumed",
            pause.as_secs() / 60
        );
        let body = json!({ "type": "error", "code": "cooling", "message": message });
        let write = Write::new(self.fence, now).event(NewEvent::from_json(body.to_string())?);
        self.submit(write, Then::default()).await
    }

    /// Whether the session goes on from the sandbox that it had: then its journal may still tell
    /// how a prompt ended.
    fn is_served(&self) -> bool {
        matches!(
            self.lifecycle.state,
            State::Running(_) | State::Migrating(_)
        )
    }

    /// Prompts that were sent to sandboxes that are gone, though nobody lived to write it.
    pub(super) async fn catch_up_with_prompts(&mut self) -> Result<(), End> {
        let now = self.shared.clock.now();
        let mut steps = Vec::new();
        if let State::Stopped(_) = self.lifecycle.state {
            steps.extend(self.queue.stop());
        } else if !self.is_served() {
            let generations = self.lifecycle.generations();
            for sent_to in self.queue.generations() {
                if !generations.contains(&Generation(sent_to)) {
                    steps.extend(self.queue.sandbox_gone(sent_to, now));
                }
            }
        }
        let is_open =
            matches!(&self.lifecycle.state, State::Running(running) if running.leaving.is_none());
        steps.extend(self.queue.open(is_open, now));
        self.take_steps(steps).await?;
        // Whoever took a prompt may have ended before it could wake the session for it.
        let newest = self.queue.newest();
        self.is_wanted = match &self.lifecycle.state {
            State::Starting(starting) => starting.boot == Boot::Unasked && newest.is_some(),
            State::Paused(paused) => newest.is_some_and(|newest| newest > paused.resting.since),
            _ => false,
        };
        self.tell_waiting().await
    }

    fn waits_for_an_agent(&self) -> bool {
        self.spec.work != Work::Machine
    }

    pub(super) async fn stop_turns(&mut self) -> Result<(), End> {
        self.stop_turns_at = None;
        let steps = self.queue.stop_turns();
        self.take_steps(steps).await
    }

    pub(super) fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let patience = match &effect {
                Effect::Rest { .. } => Some(Duration::ZERO),
                Effect::Capture { .. } => Some(self.shared.settings.turn),
                _ => None,
            };
            if let Some(patience) = patience {
                let patience = self.while_there(patience, 2);
                self.stop_turns_at = Some(later(self.shared.clock.now(), patience));
            }
            let generation = self.line.put(effect);
            self.go_on_with(generation);
        }
    }

    /// The next that is to be done to a sandbox, if nothing is being done to it.
    fn go_on_with(&mut self, generation: model::session::Generation) {
        let Some((effect, given_up)) = self.line.next(generation) else {
            return;
        };
        let mut hand = self.hand.anew();
        let span = self.traces.effect(&effect);
        hand.trace = span.trace();
        let fields = self.traces.work_fields();
        let settings = &self.shared.settings;
        let patience = match &effect {
            Effect::Rest { .. } => settings.drain,
            Effect::Capture { .. } => settings.turn + settings.drain,
            _ => Duration::ZERO,
        };
        let patience = self.while_there(patience, 3);
        self.follow_turns();
        let mut turns = self.turns.subscribe();
        let work = async move {
            let _until_it_is_done = span;
            let act = async {
                if !patience.is_zero() {
                    // Whatever still runs then is told by its journal, or interrupted.
                    let ended = turns.wait_for(|turns| *turns == 0);
                    let _ = tokio::time::timeout(patience, ended).await;
                }
                hand.carry_out(effect).await
            };
            let event = tokio::select! {
                biased;
                () = given_up.cancelled() => None,
                // A fault of ours: the deadline mends it, and what comes after is done all the same.
                event = AssertUnwindSafe(act).catch_unwind() => event.unwrap_or_else(|_| {
                    tracing::error!(session = %hand.session, generation = generation.0, "work for a session broke");
                    None
                }),
            };
            Outcome::Effect {
                generation,
                event,
                notes: hand.notes,
            }
        };
        self.work.spawn(work.instrument(fields));
    }

    /// So long, and no longer than so many quarters of the time that the sandbox still has: who
    /// waits for turns to end must leave enough of it to keep the files.
    fn while_there(&self, patience: Duration, quarters: u32) -> Duration {
        let expires_at = match &self.lifecycle.state {
            State::Running(running) => running.expires_at,
            State::Migrating(migrating) => migrating.expires_at,
            _ => None,
        };
        let left = expires_at.map(|at| at.duration_since(self.shared.clock.now()));
        let left = left.map(|left| Duration::try_from(left).unwrap_or_default() / 4 * quarters);
        left.map_or(patience, |left| patience.min(left))
    }

    /// The wish to run, from what the session was asked to be: it is read anew each time.
    pub(super) async fn begin(&mut self) -> Result<Event, End> {
        self.phases.begin(self.shared.clock.now());
        let record = self.shared.store.load_session(self.fence.session).await?;
        match serde_json::from_str::<Spec>(&record.spec) {
            Ok(spec) => {
                self.hand.machine = spec.machine.clone();
                self.spec = spec;
            }
            Err(error) => {
                tracing::warn!(%error, "what it was asked to be cannot be read; it stays as it was");
            }
        }
        Ok(Event::Begin {
            origin: self.spec.origin(&self.provider_name),
            until: later(self.shared.clock.now(), self.shared.settings.boot),
        })
    }

    /// Answers whoever waited for what is now the case, and begins again what had to wait.
    pub(super) async fn tell_waiting(&mut self) -> Result<(), End> {
        // Before it is begun again: whoever paused it has what they asked for.
        if self.waiting.wants_rest() {
            let store = &self.shared.store;
            let newest = store.session_snapshots(self.fence.session, None, 1).await?;
            self.waiting.tell_rested(&self.lifecycle, newest.first());
        }
        let is_cool = self.cooling.until(self.shared.clock.now()).is_none();
        let is_wanted = self.waiting.wants_ready() || (self.is_wanted && is_cool);
        if is_wanted && may_begin(&self.lifecycle) {
            self.is_wanted = false;
            let begin = self.begin().await?;
            let _ = self.happen(begin).await?;
        }
        self.waiting.tell_ready(&self.lifecycle);
        Ok(())
    }
}

/// Paused by somebody while others waited for it to run.
fn may_begin(lifecycle: &Lifecycle) -> bool {
    match &lifecycle.state {
        State::Paused(paused) => {
            paused.resting.degraded.is_none()
                && paused.resting.fault.is_none()
                && lifecycle.deadline().is_none()
        }
        State::Starting(starting) => starting.boot == Boot::Unasked,
        _ => false,
    }
}

pub(super) fn seen_of(lifecycle: &Lifecycle) -> Seen {
    Seen {
        status: lifecycle.client_status(),
        place: lifecycle.place(),
        snapshot: lifecycle.snapshot().cloned(),
        is_over: crate::records::is_over(lifecycle),
    }
}

fn message_of(lifecycle: &Lifecycle) -> Option<String> {
    match &lifecycle.state {
        State::Starting(starting) => match &starting.boot {
            Boot::Failed { fault, .. } => Some(fault.message.clone()),
            Boot::UnderWay { .. } => match &starting.held {
                Held::InPlace { .. } => Some("from memory".to_owned()),
                Held::Stored { .. } => Some("from disk".to_owned()),
                Held::Nothing => None,
            },
            Boot::Unasked => None,
        },
        State::Migrating(_) => Some("the session is being extended".to_owned()),
        State::Paused(paused) => match (&paused.resting.degraded, &paused.resting.fault) {
            (Some(degraded), _) => Some(format!("lost: {}", degraded.lost)),
            (None, Some(fault)) => Some(fault.message.clone()),
            (None, None) => None,
        },
        State::Running(_) | State::Suspended(_) | State::Stopped(_) => None,
    }
}
