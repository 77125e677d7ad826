//! What a provider is asked to do for a session. Each is done as often as it takes and may be done
//! twice: a sandbox is found by its label, whoever made it.

use std::sync::Arc;
use std::time::Duration;

use model::session::{Effect, Event, Fault, FaultCode, Generation, Place, Way};
use model::{Clock, Id, Origin, Session, Timestamp};
use provider::{
    Capability, Provider, ProviderError, Sandbox, SandboxId, SandboxSpec, SandboxState,
};

use super::label;

/// Between two tries of what may work when tried again; the last goes on.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];
/// What a fault says to people, at most.
const MESSAGE: usize = 500;

/// Acts for one session.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    pub(super) session: Id<Session>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Hand {
    /// What came of it; nothing when nobody waits for that.
    pub(super) async fn carry_out(&self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Boot {
                generation,
                way,
                until,
            } => Some(self.boot(generation, &way, until).await),
            Effect::Rest { generation, until } => Some(self.rest(generation, until).await),
            Effect::Thaw { generation } => self.thaw(generation).await,
            Effect::Capture { generation, until } => Some(self.capture(generation, until).await),
            Effect::End { generation } => Some(self.end(generation).await),
            Effect::Discard { generation } => {
                self.discard(generation).await;
                None
            }
        }
    }

    async fn boot(&self, generation: Generation, way: &Way, until: Timestamp) -> Event {
        let spec = self.spec(generation, way);
        let ensured = self.trying(until, || self.provider.ensure(&spec)).await;
        match ensured {
            Ok(ensured) => Event::Ready {
                place: Place {
                    sandbox: ensured.sandbox.id,
                    generation,
                },
                expires_at: ensured.sandbox.expires_at,
            },
            Err(error) => Event::BootFailed {
                generation,
                fault: fault_of(&error, way),
                at: self.clock.now(),
            },
        }
    }

    async fn rest(&self, generation: Generation, until: Timestamp) -> Event {
        let Some(sandbox) = self.find_or_retry(generation, until).await else {
            return self.lost(generation);
        };
        let in_place = self.provider.capabilities().has(Capability::Pause);
        let rested = if in_place {
            self.trying(until, || self.provider.pause(sandbox.id)).await
        } else {
            self.trying(until, || self.provider.stop(sandbox.id)).await
        };
        match rested {
            Ok(receipt) => Event::Rested {
                generation,
                snapshot: receipt.snapshot,
                at: self.clock.now(),
            },
            Err(ProviderError::NotFound { .. }) => self.lost(generation),
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "a pause did not come about");
                Event::RestFailed { generation }
            }
        }
    }

    /// It goes on, from memory or from the disk that it left.
    async fn thaw(&self, generation: Generation) -> Option<Event> {
        let sandbox = self.find(generation).await.ok()?;
        let Some(sandbox) = sandbox else {
            return Some(self.lost(generation));
        };
        match self.provider.resume(sandbox.id).await {
            Ok(_) => None,
            Err(ProviderError::NotFound { .. }) => Some(self.lost(generation)),
            // It was running; or whoever looks at what lives will find it.
            Err(_) => None,
        }
    }

    async fn capture(&self, generation: Generation, until: Timestamp) -> Event {
        let Some(sandbox) = self.find_or_retry(generation, until).await else {
            return self.lost(generation);
        };
        let id = sandbox.id;
        // From the capture on nothing may write there.
        let captured = if self.provider.capabilities().has(Capability::Pause) {
            match self.trying(until, || self.provider.pause(id)).await {
                Ok(_) => {
                    self.trying(until, || self.provider.snapshot(id, None))
                        .await
                }
                Err(error) => Err(error),
            }
        } else {
            self.trying(until, || self.provider.stop(id)).await
        };
        match captured.map(|receipt| receipt.snapshot) {
            Ok(Some(snapshot)) => Event::Captured {
                generation,
                snapshot,
                until,
            },
            Err(ProviderError::NotFound { .. }) => self.lost(generation),
            Ok(None) | Err(_) => Event::RestFailed { generation },
        }
    }

    async fn end(&self, generation: Generation) -> Event {
        let snapshot = match self.find(generation).await {
            Ok(Some(sandbox)) => match self.provider.stop(sandbox.id).await {
                Ok(receipt) => receipt.snapshot,
                Err(error) => return self.not_ended(generation, &error),
            },
            Ok(None) => None,
            Err(error) => return self.not_ended(generation, &error),
        };
        Event::Sealed {
            generation,
            snapshot,
            at: self.clock.now(),
        }
    }

    /// Its deadline asks for it again, or the look for orphans does.
    fn not_ended(&self, generation: Generation, error: &ProviderError) -> Event {
        match error {
            ProviderError::NotFound { .. } => Event::Sealed {
                generation,
                snapshot: None,
                at: self.clock.now(),
            },
            _ => {
                tracing::warn!(session = %self.session, %error, "a sandbox cannot be ended");
                Event::RestFailed { generation }
            }
        }
    }

    async fn discard(&self, generation: Generation) {
        let removed = match self.find(generation).await {
            Ok(Some(sandbox)) => self.provider.remove(sandbox.id).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(session = %self.session, %error, "a sandbox cannot be removed yet");
        }
    }

    /// A snapshot of the running one, beside everything else.
    pub(super) async fn snapshot(&self, sandbox: SandboxId) -> Result<provider::Receipt, Fault> {
        self.provider
            .snapshot(sandbox, None)
            .await
            .map_err(|error| fault_of(&error, &Way::Wake))
    }

    fn lost(&self, generation: Generation) -> Event {
        Event::Lost {
            generation,
            recovered: None,
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

    /// An error of the provider is not a death.
    async fn find_or_retry(&self, generation: Generation, until: Timestamp) -> Option<Sandbox> {
        self.trying(until, || self.find(generation))
            .await
            .ok()
            .flatten()
    }

    fn spec(&self, generation: Generation, way: &Way) -> SandboxSpec {
        let origin = match way {
            // Only used if there is none to wake.
            Way::Wake => provider::Origin::Bare,
            Way::New { origin } => origin_of(origin),
        };
        SandboxSpec {
            key: Some(label::key(self.session, generation)),
            generation: generation.0,
            labels: label::of(self.session, generation),
            ..SandboxSpec::from(origin)
        }
    }

    /// Tries again what may work then, until the deadline.
    async fn trying<T, F>(&self, until: Timestamp, once: impl Fn() -> F) -> Result<T, ProviderError>
    where
        F: Future<Output = Result<T, ProviderError>>,
    {
        let mut pauses = PAUSES
            .iter()
            .chain(std::iter::repeat(&PAUSES[PAUSES.len() - 1]));
        loop {
            let left = until.duration_since(self.clock.now());
            let Ok(left) = Duration::try_from(left) else {
                return Err(too_late());
            };
            let error = match tokio::time::timeout(left, once()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                Err(_) => return Err(too_late()),
            };
            let pause = match &error {
                ProviderError::Throttled { retry_after } => {
                    retry_after.or_else(|| pauses.next().copied())
                }
                ProviderError::Unavailable { .. } => pauses.next().copied(),
                ProviderError::NotFound { .. }
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
        ProviderError::NotFound { .. } if is_of_the_session => FaultCode::OriginGone,
        _ => FaultCode::Provider,
    };
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        message.push_str(": ");
        message.push_str(&source.to_string());
        cause = source.source();
    }
    Fault {
        code,
        message: message.chars().take(MESSAGE).collect(),
    }
}
