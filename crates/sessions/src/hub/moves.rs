//! From one state of the session to the next, and what is done about it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jobs::Job;
use model::session::{
    Boot, Effect, Event, Generation, Held, Lifecycle, PauseReason, Place, Refused, Rest, State,
};
use model::{Id, Session, Timestamp};
use provider::Capability;
use serde_json::json;
use store::snapshots::{Kept, Kind, Sizes, Snapshot as Receipt};
use store::{NewEvent, Write, sandboxes};

use super::commits::Then;
use super::effects::{Note, Notes};
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
        let is_in_use = self.clients.load(Ordering::Relaxed) > 0 || !self.queue.is_idle();
        if !is_in_use {
            return self.rest_for_want_of_use().await;
        }
        let until = later(self.shared.clock.now(), self.shared.settings.migrate);
        let _ = self.happen(Event::Migrate { until }).await?;
        self.follow_expiry();
        Ok(())
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
                tracing::info!(session = %self.fence.session, %error, "a sandbox cannot be kept for longer");
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
                match event {
                    Some(Event::Ready { place, expires_at }) if self.waits_for_an_agent() => {
                        self.phase_is_over("sandbox").await?;
                        self.wait_for_agent(Booting { place, expires_at });
                    }
                    Some(event) => {
                        let _ = self.happen(event).await?;
                    }
                    None => {}
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
                tracing::error!(session = %self.fence.session, %error, "work for a session broke");
            }
        }
        self.tell_waiting().await
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
            let body = json!({ "type": "status", "status": status, "message": message_of(next) });
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
            let settings = &self.shared.settings;
            let patience = match &effect {
                Effect::Rest { .. } => Some(Duration::ZERO),
                Effect::Capture { .. } => Some(settings.turn),
                _ => None,
            };
            if let Some(patience) = patience {
                self.stop_turns_at = Some(later(self.shared.clock.now(), patience));
            }
            if matches!(effect, Effect::Boot { .. }) {
                self.phase_since = Some(self.shared.clock.now());
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
        let hand = self.hand.anew();
        let settings = &self.shared.settings;
        let patience = match &effect {
            Effect::Rest { .. } => settings.drain,
            Effect::Capture { .. } => settings.turn + settings.drain,
            _ => Duration::ZERO,
        };
        self.follow_turns();
        let mut turns = self.turns.subscribe();
        self.work.spawn(async move {
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
                event = act => event,
            };
            Outcome::Effect {
                generation,
                event,
                notes: hand.notes,
            }
        });
    }

    /// Told with the time since the phase before it was over.
    pub(super) async fn phase_is_over(&mut self, name: &str) -> Result<(), End> {
        let now = self.shared.clock.now();
        let Some(since) = self.phase_since.replace(now) else {
            return Ok(());
        };
        let took = now.duration_since(since).as_millis();
        let took_ms = u64::try_from(took).unwrap_or_default();
        tracing::info!(session = %self.fence.session, phase = name, took_ms, "a phase of a start is over");
        let phase = json!({ "name": name, "state": "done", "took_ms": took_ms });
        let status = self.lifecycle.client_status();
        let body = json!({ "type": "status", "status": status, "phase": phase });
        let event = NewEvent::from_json(body.to_string())?;
        let write = Write::new(self.fence, now).event(event);
        self.submit(write, Then::default()).await
    }

    /// Receipts for what was kept. Before the move that follows from it.
    async fn write_down(&mut self, notes: &Notes) -> Result<(), End> {
        let now = self.shared.clock.now();
        let notes = notes.take();
        if notes.is_empty() {
            return Ok(());
        }
        let mut write = Write::new(self.fence, now);
        for note in notes {
            write = write.snapshot(receipt(&note, self.fence.session, &self.provider_name, now));
        }
        self.submit(write, Then::default()).await
    }

    /// The wish to run, from what the session was asked to be: it is read anew each time.
    pub(super) async fn begin(&mut self) -> Result<Event, End> {
        let record = self.shared.store.load_session(self.fence.session).await?;
        match serde_json::from_str::<Spec>(&record.spec) {
            Ok(spec) => {
                self.hand.machine = spec.machine.clone();
                self.spec = spec;
            }
            Err(error) => {
                tracing::warn!(session = %self.fence.session, %error, "what it was asked to be cannot be read; it stays as it was");
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
        if (self.waiting.wants_ready() || self.is_wanted) && may_begin(&self.lifecycle) {
            self.is_wanted = false;
            let begin = self.begin().await?;
            let _ = self.happen(begin).await?;
        }
        self.waiting.tell_ready(&self.lifecycle);
        Ok(())
    }
}

fn receipt(note: &Note, session: Id<Session>, provider: &str, now: Timestamp) -> Receipt {
    let millis = |time: f64| Duration::try_from_secs_f64(time / 1000.0).unwrap_or_default();
    let millis = |time| u64::try_from(millis(time).as_millis()).unwrap_or(u64::MAX);
    let (id, kind) = if let Some(snapshot) = &note.receipt.snapshot {
        (snapshot.to_string(), Kind::Disk)
    } else {
        // Nothing was copied: a name of its own, for the receipt alone.
        let name = Id::<model::Snapshot>::new(&model::SystemClock);
        (format!("{provider}:pause:{name}"), Kind::Pause)
    };
    let (digest, bytes, files) = (
        note.receipt.digest.clone(),
        note.receipt.bytes,
        note.receipt.files,
    );
    Receipt {
        id,
        organisation: None,
        session: Some(session),
        generation: Some(note.generation.0),
        provider: provider.to_owned(),
        kind,
        kept: match note.receipt.kept {
            provider::Kept::Disk => Kept::Disk,
            provider::Kept::Memory => Kept::Memory,
        },
        recovered: note.is_recovered,
        message: note.message.clone(),
        sizes: digest
            .zip(bytes)
            .zip(files)
            .map(|((digest, bytes), files)| Sizes {
                digest,
                bytes,
                files,
            }),
        took_ms: Some(millis(note.receipt.took_ms)),
        frozen_ms: Some(millis(note.receipt.frozen_ms)),
        created_at: now,
        removed_at: None,
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
