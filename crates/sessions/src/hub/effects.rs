//! What a provider is asked to do for a session. Each is done as often as it takes and may be done
//! twice: a sandbox is found by its label, whoever made it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use model::session::{Effect, Event, Fault, FaultCode, Generation, Place, Way};
use model::{Clock, Id, Organisation, Origin, Session, SnapshotId, Timestamp};
use provider::{
    Capability, Kept, LinkBy, Provider, ProviderError, Receipt, Sandbox, SandboxId, SandboxSpec,
    SandboxState, Workplace,
};
use telemetry::{Kind, Trace};

use super::label;
use crate::Machine;
use crate::lease::Lease;
use crate::registry::later;

/// Between two looks at a lease that is over.
const LEASE: Duration = Duration::from_millis(50);
/// What a fault says to people, at most.
const MESSAGE: usize = 500;

/// What came of an effect, to be written down.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    kept: Arc<Mutex<Vec<Note>>>,
    failed: Arc<Mutex<Vec<Failed>>>,
}

/// What did not come about, for the session's log: whoever asks why finds it there.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) code: &'static str,
    pub(super) message: String,
}

#[derive(Debug)]
pub(super) struct Note {
    pub(super) receipt: Receipt,
    pub(super) generation: Generation,
    /// Of a sandbox that died.
    pub(super) is_recovered: bool,
    /// Of whoever asked for it.
    pub(super) wish: Option<Wish>,
}

/// Somebody wants a snapshot, to be kept until it is given up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// What is to be said of it.
    pub(crate) message: Option<String>,
}

impl Notes {
    fn add(&self, receipt: &Receipt, generation: Generation, is_recovered: bool) {
        self.lock().push(Note {
            receipt: receipt.clone(),
            generation,
            is_recovered,
            wish: None,
        });
    }

    fn add_wanted(&self, receipt: &Receipt, generation: Generation, wish: Option<Wish>) {
        self.lock().push(Note {
            receipt: receipt.clone(),
            generation,
            is_recovered: false,
            wish,
        });
    }

    /// The first of each kind is enough: what is tried again may fail again.
    fn fail(&self, code: &'static str, error: &ProviderError) {
        let mut failed = self.failed.lock().expect("no holder of this lock panics");
        if failed.iter().all(|known| known.code != code) {
            let message = words(error);
            failed.push(Failed { code, message });
        }
    }

    pub(super) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn take_failed(&self) -> Vec<Failed> {
        let mut failed = self.failed.lock().expect("no holder of this lock panics");
        std::mem::take(&mut *failed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Note>> {
        self.kept.lock().expect("no holder of this lock panics")
    }
}

/// Acts for one session.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    pub(super) organisation: Id<Organisation>,
    pub(super) session: Id<Session>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) clock: Arc<dyn Clock>,
    /// Between two tries of what may work when tried again; the last goes on.
    pub(super) pauses: Arc<[Duration]>,
    /// What one call may take.
    pub(super) call: Duration,
    /// What the second half of a move may take.
    pub(super) migrate: Duration,
    /// Of a session with a workplace: who dials.
    pub(super) link: Option<LinkBy>,
    pub(super) machine: Machine,
    pub(super) lease: Lease,
    /// What it does is a step of this.
    pub(super) trace: Option<Trace>,
    /// What was kept on the way, to be written down.
    pub(super) notes: Notes,
}

/// What there is of a generation.
enum Found {
    Running(Sandbox),
    Paused(Sandbox),
    Stopped(SnapshotId),
    /// Gone, and the disk with it or not.
    Dead(Event),
}

impl Hand {
    /// With nothing noted.
    pub(super) fn anew(&self) -> Self {
        Self {
            notes: Notes::default(),
            ..self.clone()
        }
    }

    /// What came of it; nothing when nobody waits for that.
    pub(super) async fn carry_out(&self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Boot {
                generation,
                way,
                until,
            } => Some(self.boot(generation, &way, until).await),
            Effect::Rest { generation, until } => {
                let rested = self.rest(generation, until).await;
                Some(self.or_as_before(generation, rested))
            }
            Effect::Thaw { generation } => self.thaw(generation).await,
            Effect::Capture { generation, until } => {
                let captured = self.capture(generation, until).await;
                Some(self.or_as_before(generation, captured))
            }
            Effect::End { generation } => Some(self.end(generation).await),
            Effect::Discard { generation } => {
                self.discard(generation).await;
                None
            }
        }
    }

    async fn boot(&self, generation: Generation, way: &Way, until: Timestamp) -> Event {
        let booted = match way {
            Way::Wake => self.wake(generation, until).await,
            Way::New { origin } => {
                let spec = self.spec(generation, origin);
                let ensured = self
                    .trying("ensure", until, || self.provider.ensure(&spec))
                    .await;
                ensured.map(|ensured| ready(generation, &ensured.sandbox))
            }
        };
        booted.unwrap_or_else(|error| Event::BootFailed {
            generation,
            fault: fault_of(&error, way),
            at: self.clock.now(),
        })
    }

    /// The same sandbox goes on, or is said to be lost: never is an empty one put in its place.
    async fn wake(&self, generation: Generation, until: Timestamp) -> Result<Event, ProviderError> {
        let sandbox = match self.reach(generation, until).await? {
            Found::Running(sandbox) => return Ok(ready(generation, &sandbox)),
            Found::Paused(sandbox) => sandbox,
            Found::Stopped(snapshot) => return Ok(self.lost(generation, Some(snapshot))),
            Found::Dead(lost) => return Ok(lost),
        };
        let resuming = self.trying("resume", until, || self.provider.resume(sandbox.id));
        match resuming.await {
            Ok(_) => Ok(ready(generation, &sandbox)),
            Err(ProviderError::NotFound { .. }) => Ok(self.lost(generation, None)),
            Err(error) => Err(error),
        }
    }

    async fn rest(&self, generation: Generation, until: Timestamp) -> Result<Event, ProviderError> {
        let in_place = self.provider.capabilities().has(Capability::Pause);
        let snapshot = match self.reach(generation, until).await? {
            Found::Dead(lost) => return Ok(lost),
            // It was done before, and the answer did not come.
            Found::Stopped(snapshot) => {
                self.notes
                    .add(&done_before(Some(snapshot.clone())), generation, false);
                Some(snapshot)
            }
            Found::Paused(_) if in_place => {
                self.notes.add(&done_before(None), generation, false);
                None
            }
            Found::Paused(sandbox) | Found::Running(sandbox) => {
                let rested = if in_place {
                    self.trying("pause", until, || self.provider.pause(sandbox.id))
                        .await
                } else {
                    self.trying("stop", until, || self.provider.stop(sandbox.id))
                        .await
                };
                match rested {
                    Ok(receipt) => {
                        self.notes.add(&receipt, generation, false);
                        receipt.snapshot
                    }
                    Err(ProviderError::NotFound { .. }) => {
                        return Ok(self.lost(generation, None));
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(Event::Rested {
            generation,
            snapshot,
            at: self.clock.now(),
        })
    }

    /// It goes on, from memory or from the disk that it left; nothing to tell if it does.
    async fn thaw(&self, generation: Generation) -> Option<Event> {
        match self.wake(generation, Timestamp::MAX).await {
            Ok(Event::Ready { .. }) => None,
            Ok(event) => Some(event),
            Err(error) => {
                // Whoever looks at what lives will find it.
                tracing::warn!(%error, "a sandbox cannot be let go on");
                self.notes.fail("thaw-failed", &error);
                None
            }
        }
    }

    async fn capture(
        &self,
        generation: Generation,
        until: Timestamp,
    ) -> Result<Event, ProviderError> {
        let snapshot = match self.reach(generation, until).await? {
            Found::Dead(lost) => return Ok(lost),
            Found::Stopped(snapshot) => Some(snapshot),
            Found::Running(sandbox) | Found::Paused(sandbox) => {
                let id = sandbox.id;
                // From the capture on nothing may write there.
                let receipt = if self.provider.capabilities().has(Capability::Pause) {
                    self.trying("pause", until, || self.provider.pause(id))
                        .await?;
                    self.trying("snapshot", until, || self.provider.snapshot(id, None))
                        .await?
                } else {
                    self.trying("stop", until, || self.provider.stop(id))
                        .await?
                };
                self.notes.add(&receipt, generation, false);
                receipt.snapshot
            }
        };
        Ok(match snapshot {
            Some(snapshot) => Event::Captured {
                generation,
                snapshot,
                // Each half of a move has its own time.
                until: later(self.clock.now(), self.migrate),
            },
            None => Event::RestFailed { generation },
        })
    }

    /// Tried until it is done: nobody else will.
    async fn end(&self, generation: Generation) -> Event {
        let ended = async || {
            let Some(sandbox) = self.find(generation).await? else {
                return Ok(None);
            };
            if let SandboxState::Stopped { snapshot } = sandbox.state {
                return Ok(Some(snapshot));
            }
            let receipt = self.provider.stop(sandbox.id).await?;
            self.notes.add(&receipt, generation, false);
            Ok(receipt.snapshot)
        };
        let pause = self.pauses.last().copied().unwrap_or(LEASE);
        let snapshot = loop {
            match self.trying("stop", Timestamp::MAX, &ended).await {
                Ok(snapshot) => break snapshot,
                Err(ProviderError::NotFound { .. }) => break None,
                // A disk that is full, say: what is not sealed is not called lost.
                Err(error) => {
                    tracing::warn!(%error, "a disk cannot be sealed yet");
                    self.notes.fail("seal-failed", &error);
                    tokio::time::sleep(pause).await;
                }
            }
        };
        Event::Sealed {
            generation,
            snapshot,
            at: self.clock.now(),
        }
    }

    /// What is left of it when this is not done is an orphan, and sealed as one.
    async fn discard(&self, generation: Generation) {
        let removed = async || match self.find(generation).await? {
            Some(sandbox) => self.provider.remove(sandbox.id).await,
            None => Ok(()),
        };
        match self.trying("remove", Timestamp::MAX, removed).await {
            Ok(()) | Err(ProviderError::NotFound { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, "a sandbox cannot be removed");
            }
        }
    }

    /// A pause or a capture that did not come about leaves the session as it was.
    fn or_as_before(&self, generation: Generation, done: Result<Event, ProviderError>) -> Event {
        done.unwrap_or_else(|error| {
            tracing::warn!(%error, "a sandbox cannot be made to rest");
            self.notes.fail("rest-failed", &error);
            Event::RestFailed { generation }
        })
    }

    /// The sandbox of a generation, or what became of it: where its processes are gone, its disk is
    /// saved if there is one. An error of the provider is not a death.
    async fn reach(
        &self,
        generation: Generation,
        until: Timestamp,
    ) -> Result<Found, ProviderError> {
        let found = self.trying("list", until, || self.find(generation)).await?;
        let Some(sandbox) = found else {
            return Ok(Found::Dead(self.lost(generation, None)));
        };
        match sandbox.state {
            SandboxState::Running => return Ok(Found::Running(sandbox)),
            SandboxState::Paused { .. } => return Ok(Found::Paused(sandbox)),
            SandboxState::Stopped { snapshot } => return Ok(Found::Stopped(snapshot)),
            SandboxState::Ended => {}
        }
        let recovered = match self
            .trying("stop", until, || self.provider.stop(sandbox.id))
            .await
        {
            Ok(receipt) => {
                self.notes.add(&receipt, generation, true);
                receipt.snapshot
            }
            Err(ProviderError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Found::Dead(self.lost(generation, recovered)))
    }

    /// The later end that the provider agrees to, if it says so before the sandbox's own.
    pub(super) async fn extend(
        &self,
        sandbox: SandboxId,
        until: Timestamp,
        before: Timestamp,
    ) -> Result<Timestamp, ProviderError> {
        self.trying("extend", before, || self.provider.extend(sandbox, until))
            .await
    }

    /// A snapshot beside everything else.
    pub(super) async fn snapshot(
        &self,
        place: Place,
        wish: Option<Wish>,
        until: Timestamp,
    ) -> Result<SnapshotId, Fault> {
        let taken = self.trying("snapshot", until, || {
            self.provider.snapshot(place.sandbox, None)
        });
        let receipt = taken.await.map_err(|error| fault_of(&error, &Way::Wake))?;
        self.notes.add_wanted(&receipt, place.generation, wish);
        receipt.snapshot.ok_or_else(|| Fault {
            code: FaultCode::Provider,
            message: "the provider named no snapshot".to_owned(),
        })
    }

    fn lost(&self, generation: Generation, recovered: Option<SnapshotId>) -> Event {
        Event::Lost {
            generation,
            recovered,
            at: self.clock.now(),
        }
    }

    /// The sandbox of a generation, if the provider has it.
    async fn find(&self, generation: Generation) -> Result<Option<Sandbox>, ProviderError> {
        let labels: Vec<(String, String)> =
            label::of(self.session, generation).into_iter().collect();
        let found = self.provider.list(&labels).await?;
        // Of two that carry one label the one that lives counts.
        Ok(found.into_iter().max_by_key(|sandbox| match sandbox.state {
            SandboxState::Running => 3,
            SandboxState::Paused { .. } => 2,
            SandboxState::Ended => 1,
            SandboxState::Stopped { .. } => 0,
        }))
    }

    fn spec(&self, generation: Generation, origin: &Origin) -> SandboxSpec {
        SandboxSpec {
            key: Some(label::key(self.session, generation)),
            generation: generation.0,
            labels: label::new(self.organisation, self.session, generation),
            workplace: self.link.map(|link| Workplace {
                session: Some(self.session.to_string()),
                link,
            }),
            memory: Some(self.machine.memory),
            cpu_millis: Some(self.machine.cpu_millis),
            network: self.machine.network,
            allow: self.machine.allow.clone(),
            forwards: self.machine.forwards.clone(),
            lifetime: self.machine.lifetime.map(Duration::from_millis),
            ..SandboxSpec::from(origin_of(origin))
        }
    }

    /// One call, as a span and in the counters.
    async fn timed<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let name = self.provider.name().to_owned();
        let mut span = telemetry::span(format!("provider {operation}"), self.trace)
            .of_kind(Kind::Client)
            .with("nacre.session", self.session.to_string())
            .with("nacre.provider", name.clone());
        let begun = Instant::now();
        let called = call.await;
        let outcome = match &called {
            Ok(_) => "ok",
            Err(error) => {
                span.fail(error.to_string());
                word(error)
            }
        };
        let labels = [("provider", name), ("operation", operation.to_owned())];
        histogram!("nacre_provider_seconds", &labels).record(begun.elapsed().as_secs_f64());
        let [provider, operation] = labels;
        let labels = [provider, operation, ("outcome", outcome.to_owned())];
        counter!("nacre_provider_calls_total", &labels).increment(1);
        called
    }

    /// Tries again what may work then, until the deadline.
    async fn trying<T, F>(
        &self,
        operation: &'static str,
        until: Timestamp,
        once: impl Fn() -> F,
    ) -> Result<T, ProviderError>
    where
        F: Future<Output = Result<T, ProviderError>>,
    {
        let last = self.pauses.last();
        let mut pauses = self.pauses.iter().chain(last.into_iter().cycle());
        loop {
            let left = until.duration_since(self.clock.now());
            let Ok(left) = Duration::try_from(left) else {
                return Err(too_late());
            };
            // Somebody else may act for the session meanwhile; the store will tell.
            while !self.lease.holds(self.clock.now()) {
                tokio::time::sleep(LEASE).await;
            }
            let call = self.timed(operation, once());
            let error = match tokio::time::timeout(left.min(self.call), call).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                Err(_) => too_late(),
            };
            let pause = match &error {
                ProviderError::Throttled { retry_after } => {
                    retry_after.or_else(|| pauses.next().copied())
                }
                ProviderError::Unavailable { .. } => pauses.next().copied(),
                ProviderError::NotFound { .. }
                | ProviderError::Damaged { .. }
                | ProviderError::Unsupported(_)
                | ProviderError::Refused { .. } => None,
            };
            match pause {
                Some(pause) if pause < left => tokio::time::sleep(pause).await,
                _ => return Err(error),
            }
        }
    }
}

fn ready(generation: Generation, sandbox: &Sandbox) -> Event {
    Event::Ready {
        place: Place {
            sandbox: sandbox.id,
            generation,
        },
        expires_at: sandbox.expires_at,
    }
}

/// The receipt for what was done before, when its answer was lost.
fn done_before(snapshot: Option<SnapshotId>) -> Receipt {
    Receipt {
        kept: match snapshot {
            Some(_) => Kept::Disk,
            None => Kept::Memory,
        },
        snapshot,
        digest: None,
        bytes: None,
        files: None,
        took_ms: 0.0,
        frozen_ms: 0.0,
        sync_ms: 0.0,
        sealed_ms: 0.0,
    }
}

fn word(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::NotFound { .. } => "not_found",
        ProviderError::Damaged { .. } => "damaged",
        ProviderError::Unsupported(_) => "unsupported",
        ProviderError::Refused { .. } => "refused",
        ProviderError::Throttled { .. } => "throttled",
        ProviderError::Unavailable { .. } => "unavailable",
    }
}

fn too_late() -> ProviderError {
    ProviderError::unavailable("the provider", "it did not answer in time")
}

fn origin_of(origin: &Origin) -> provider::Origin {
    match origin.snapshot() {
        Some(snapshot) => provider::Origin::Snapshot(snapshot.clone()),
        None => provider::Origin::Bare,
    }
}

fn fault_of(error: &ProviderError, way: &Way) -> Fault {
    let is_of_the_session = matches!(
        way,
        Way::New {
            origin: Origin::Session(_)
        }
    );
    let code = match error {
        ProviderError::NotFound { .. } | ProviderError::Damaged { .. } if is_of_the_session => {
            FaultCode::OriginGone
        }
        _ => FaultCode::Provider,
    };
    Fault {
        code,
        message: words(error),
    }
}

fn words(error: &ProviderError) -> String {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        message.push_str(": ");
        message.push_str(&source.to_string());
        cause = source.source();
    }
    message.chars().take(MESSAGE).collect()
}
