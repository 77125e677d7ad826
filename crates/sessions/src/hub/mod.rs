//! The one task that owns a live session.
//!
//! It never waits for a provider: what an effect comes to arrives as an event. A move is written
//! first, with what it tells clients, and acted on then; whoever waits is answered from the state
//! that was written.

mod effects;
mod expiry;
pub(crate) mod label;
mod line;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::session::{
    Boot, Effect, Event, Fault, Lifecycle, PauseReason, Place, Refused, Rest, State, StopReason,
};
use model::{Origin, SnapshotId, Timestamp};
use provider::{Capability, Provider};
use serde_json::json;
use store::{Fence, NewEvent, Write, sandboxes, sessions};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::effects::Hand;
use self::expiry::Expiry;
use self::line::Line;
use self::waiting::Waiting;
use crate::registry::{Shared, later};
use crate::{Handle, HubError, Seen};

pub(crate) type Reply<T> = oneshot::Sender<Result<T, HubError>>;

#[derive(Debug)]
pub(crate) enum Command {
    EnsureReady(Reply<Place>),
    Rest(Rest, Reply<()>),
    Clear(Reply<()>),
    Recover(Origin, Reply<Place>),
    Migrate(Reply<Place>),
    Snapshot(Reply<SnapshotId>),
    Stop(StopReason, Reply<()>),
    /// Somebody saw that this sandbox does not live any more.
    Died(Place),
    /// Its term is over.
    LetGo,
}

/// What came of work that the hub started.
#[derive(Debug)]
pub(super) enum Outcome {
    Effect {
        generation: model::session::Generation,
        event: Option<Event>,
    },
    Snapshot {
        place: Place,
        taken: Result<SnapshotId, Fault>,
        reply: Reply<SnapshotId>,
    },
    Extended {
        place: Place,
        until: Result<model::Timestamp, provider::ProviderError>,
    },
}

#[derive(Debug)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
    fence: Fence,
    provider_name: String,
    hand: Hand,
    lifecycle: Lifecycle,
    commands: mpsc::Receiver<Command>,
    work: JoinSet<Outcome>,
    line: Line,
    waiting: Waiting,
    expiry: Expiry,
    clients: Arc<AtomicUsize>,
    inbox: mpsc::Sender<Command>,
    seen: watch::Sender<Seen>,
    events: broadcast::Sender<store::Event>,
}

/// Why a hub ends.
#[derive(Debug)]
enum End {
    /// Somebody else owns the session.
    Fenced,
    ShutDown,
    /// The store does not take what must be written first.
    Store(store::Error),
}

pub(crate) async fn run(mut hub: Hub) {
    let session = hub.fence.session;
    match hub.live().await {
        End::Fenced => tracing::info!(%session, "the session has another owner"),
        End::Store(error) => tracing::error!(%session, %error, "the session cannot be written"),
        End::ShutDown => {
            // Sandboxes run on; the next owner need not wait for the lease to run out.
            if let Err(error) = hub.shared.store.release(hub.fence).await {
                tracing::warn!(%session, %error, "the session was not let go");
            }
        }
    }
}

impl Hub {
    pub(crate) fn new(
        shared: Arc<Shared>,
        fence: Fence,
        record: &sessions::Record,
    ) -> Result<Self, HubError> {
        let provider: Arc<dyn Provider> = shared
            .providers
            .get(&record.provider)
            .cloned()
            .ok_or_else(|| HubError::NoProvider(record.provider.clone()))?;
        let lifecycle = record.state.lifecycle()?;
        let (inbox, commands) = mpsc::channel(shared.settings.inbox);
        let (events, _) = broadcast::channel(shared.settings.behind);
        let (seen, _) = watch::channel(seen_of(&lifecycle));
        let hand = Hand {
            session: fence.session,
            provider,
            clock: Arc::clone(&shared.clock),
            pauses: Arc::clone(&shared.settings.retries),
            call: shared.settings.call,
        };
        Ok(Self {
            shared,
            fence,
            provider_name: record.provider.clone(),
            hand,
            lifecycle,
            commands,
            work: JoinSet::new(),
            line: Line::default(),
            waiting: Waiting::default(),
            expiry: Expiry::default(),
            clients: Arc::default(),
            inbox,
            seen,
            events,
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle {
            session: self.fence.session,
            term: self.fence.term,
            provider: self.provider_name.as_str().into(),
            clients: Arc::clone(&self.clients),
            inbox: self.inbox.clone(),
            seen: self.seen.subscribe(),
            events: self.events.clone(),
        }
    }

    async fn live(&mut self) -> End {
        // What the owner before us may not have done.
        self.act(self.lifecycle.owed());
        self.follow_expiry();
        loop {
            let deadline = self.time_until(self.lifecycle.deadline());
            let leaving = self.time_until(self.expiry.leave_at());
            let acted = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return End::ShutDown,
                Some(done) = self.work.join_next() => self.took(done).await,
                Some(command) = self.commands.recv() => self.hear(command).await,
                () = until_then(deadline) => {
                    let at = self.shared.clock.now();
                    self.happen(Event::DeadlinePassed { at }).await.map(|_| ())
                }
                () = until_then(leaving) => self.leave().await,
            };
            if let Err(end) = acted {
                return end;
            }
        }
    }

    fn time_until(&self, then: Option<Timestamp>) -> Option<Duration> {
        let left = then?.duration_since(self.shared.clock.now());
        Some(Duration::try_from(left).unwrap_or_default())
    }

    fn follow_expiry(&mut self) {
        let (now, grace) = (self.shared.clock.now(), self.shared.settings.grace);
        self.expiry.follow(&self.lifecycle, now, grace);
    }

    /// The provider will end the sandbox soon: it is kept for longer where that can be, else left.
    async fn leave(&mut self) -> Result<(), End> {
        let State::Running(running) = &self.lifecycle.state else {
            return Ok(());
        };
        let place = running.place;
        self.expiry.begin();
        if !self.hand.provider.capabilities().has(Capability::Extend) {
            return self.give_way().await;
        }
        let until = later(self.shared.clock.now(), self.shared.settings.extension);
        let hand = self.hand.clone();
        self.work.spawn(async move {
            let until = hand.extend(place.sandbox, until).await;
            Outcome::Extended { place, until }
        });
        Ok(())
    }

    /// To another sandbox while somebody is there, else to rest.
    async fn give_way(&mut self) -> Result<(), End> {
        let (now, settings) = (self.shared.clock.now(), &self.shared.settings);
        let event = if self.clients.load(Ordering::Relaxed) > 0 {
            Event::Migrate {
                until: later(now, settings.migrate),
            }
        } else {
            Event::Rest {
                to: Rest::Paused(PauseReason::Inactivity),
                at: now,
                until: later(now, settings.rest),
            }
        };
        self.expiry.end();
        let _ = self.happen(event).await?;
        self.follow_expiry();
        Ok(())
    }

    async fn extended(
        &mut self,
        place: Place,
        until: Result<Timestamp, provider::ProviderError>,
    ) -> Result<(), End> {
        let State::Running(running) = &self.lifecycle.state else {
            return Ok(());
        };
        if running.place != place {
            return Ok(());
        }
        match until {
            Ok(expires_at) if running.expires_at.is_none_or(|before| expires_at > before) => {
                self.expiry.end();
                let generation = place.generation;
                let event = Event::Extended {
                    generation,
                    expires_at,
                };
                self.happen(event).await.map(|_| ())
            }
            Ok(_) => self.give_way().await,
            Err(error) => {
                tracing::info!(session = %self.fence.session, %error, "a sandbox cannot be kept for longer");
                self.give_way().await
            }
        }
    }

    async fn hear(&mut self, command: Command) -> Result<(), End> {
        let now = self.shared.clock.now();
        let settings = &self.shared.settings;
        match command {
            Command::EnsureReady(reply) => {
                let until = later(now, settings.boot);
                let origin = Origin::Bare;
                match self.happen(Event::Begin { origin, until }).await? {
                    // Once it rests it is begun again.
                    Ok(()) | Err(Refused::Leaving) => self.waiting.for_ready(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
                }
            }
            Command::Rest(to, reply) => {
                let until = later(now, settings.rest);
                match self.happen(Event::Rest { to, at: now, until }).await? {
                    Ok(()) => self.waiting.for_rest(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
                }
            }
            Command::Recover(origin, reply) => {
                let until = later(now, settings.boot);
                match self.happen(Event::Recover { origin, until }).await? {
                    Ok(()) => self.waiting.for_ready(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
                }
            }
            Command::Migrate(reply) => {
                let until = later(now, settings.migrate);
                match self.happen(Event::Migrate { until }).await? {
                    Ok(()) => self.waiting.for_move(reply),
                    Err(refused) => answer(reply, Err(refused.into())),
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
            Command::Snapshot(reply) => self.take_snapshot(reply),
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

    fn take_snapshot(&mut self, reply: Reply<SnapshotId>) {
        let State::Running(running) = &self.lifecycle.state else {
            return answer(reply, Err(Refused::NotRunning.into()));
        };
        if running.leaving.is_some() {
            return answer(reply, Err(Refused::Leaving.into()));
        }
        let (place, hand) = (running.place, self.hand.clone());
        let until = later(self.shared.clock.now(), self.shared.settings.rest);
        self.work.spawn(async move {
            let taken = hand.snapshot(place.sandbox, until).await;
            Outcome::Snapshot {
                place,
                taken,
                reply,
            }
        });
    }

    async fn took(&mut self, done: Result<Outcome, tokio::task::JoinError>) -> Result<(), End> {
        match done {
            Ok(Outcome::Effect { generation, event }) => {
                self.line.is_done(generation);
                if let Some(event) = event {
                    let _ = self.happen(event).await?;
                }
                self.go_on_with(generation);
            }
            Ok(Outcome::Snapshot {
                place,
                taken,
                reply,
            }) => match taken {
                Ok(snapshot) => {
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
            // Given up for what came after it, or a fault of ours that the deadline mends.
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                tracing::error!(session = %self.fence.session, %error, "work for a session broke");
            }
        }
        self.tell_waiting().await
    }

    /// Writes a move, tells it, and acts on it. A refused one changes nothing.
    async fn happen(&mut self, event: Event) -> Result<Result<(), Refused>, End> {
        let (next, effects) = match self.lifecycle.clone().apply(event) {
            Ok(moved) => moved,
            Err(refused) => return Ok(Err(refused)),
        };
        if next != self.lifecycle {
            self.write(&next).await?;
            self.lifecycle = next;
            self.follow_expiry();
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

    async fn write(&mut self, next: &Lifecycle) -> Result<(), End> {
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
        let (status, was) = (next.client_status(), before.client_status());
        if status != was {
            let body = json!({ "type": "status", "status": status, "message": message_of(next) });
            let event = NewEvent::from_json(body.to_string()).map_err(End::Store)?;
            write = write.event(event);
        }
        let committed = match self.shared.store.append(write).await {
            Ok(committed) => committed,
            Err(store::Error::Fenced { .. }) => return Err(End::Fenced),
            Err(error) => return Err(End::Store(error)),
        };
        for event in committed.events {
            // Nobody may be listening.
            let _ = self.events.send(event);
        }
        Ok(())
    }

    fn act(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let generation = self.line.put(effect);
            self.go_on_with(generation);
        }
    }

    /// The next that is to be done to a sandbox, if nothing is being done to it.
    fn go_on_with(&mut self, generation: model::session::Generation) {
        let Some((effect, given_up)) = self.line.next(generation) else {
            return;
        };
        let hand = self.hand.clone();
        self.work.spawn(async move {
            let event = tokio::select! {
                biased;
                () = given_up.cancelled() => None,
                event = hand.carry_out(effect) => event,
            };
            Outcome::Effect { generation, event }
        });
    }

    /// Answers whoever waited for what is now the case, and begins again what had to wait.
    async fn tell_waiting(&mut self) -> Result<(), End> {
        // Before it is begun again: whoever paused it has what they asked for.
        self.waiting.tell_rested(&self.lifecycle);
        if self.waiting.wants_ready() && may_begin(&self.lifecycle) {
            let until = later(self.shared.clock.now(), self.shared.settings.boot);
            let origin = Origin::Bare;
            let _ = self.happen(Event::Begin { origin, until }).await?;
        }
        self.waiting.tell_ready(&self.lifecycle);
        Ok(())
    }
}

impl Handle {
    pub(crate) async fn died(&self, place: Place) {
        let _ = self.inbox.send(Command::Died(place)).await;
    }

    /// Tells the hub that its term is over.
    pub(crate) async fn let_go(&self) {
        let _ = self.inbox.send(Command::LetGo).await;
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

fn seen_of(lifecycle: &Lifecycle) -> Seen {
    Seen {
        status: lifecycle.client_status(),
        place: lifecycle.place(),
        snapshot: lifecycle.snapshot().cloned(),
    }
}

fn message_of(lifecycle: &Lifecycle) -> Option<String> {
    match &lifecycle.state {
        State::Starting(starting) => match &starting.boot {
            Boot::Failed { fault, .. } => Some(fault.message.clone()),
            Boot::UnderWay { .. } | Boot::Unasked => None,
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

/// Whoever asked may have gone.
fn answer<T>(reply: Reply<T>, answer: Result<T, HubError>) {
    let _ = reply.send(answer);
}

async fn until_then(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}
