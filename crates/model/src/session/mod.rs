//! What a session is at, as one pure machine.
//!
//! ```text
//!             Ready                    Migrate
//!  Starting ─────────► Running ─────────────────► Migrating
//!     ▲                 │   │  ◄───────────────────   │
//!     │          Rested │   │ Lost        Ready (generation + 1)
//!     │                 ▼   ▼             or BootFailed (the old one goes on)
//!     └── Begin ── Paused · Suspended
//!
//!  Stop: any state ─► Stopped
//! ```
//!
//! [`Lifecycle::apply`] takes what happened and answers the next state and what is to be done. It
//! reads no clock and calls nobody: times and ids arrive inside events. Whoever owns the session
//! writes the new state first and acts then; after a crash [`Lifecycle::owed`] tells again what is
//! to be done, so that every effect must be safe to do twice.

mod apply;
mod moves;
mod refused;
mod shown;
#[cfg(test)]
mod table;
#[cfg(test)]
mod walk;

use serde::{Deserialize, Serialize};

pub use self::refused::Refused;
pub use self::shown::{AgentState, ClientStatus, Work};
use crate::{Id, Origin, Sandbox, SnapshotId, Timestamp};

/// Which sandbox of a session this is. Never used again, not even when that sandbox never came up.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A sandbox of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub sandbox: Id<Sandbox>,
    pub generation: Generation,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// The highest that was ever given to a sandbox.
    pub generation: Generation,
    #[serde(flatten)]
    pub state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum State {
    Starting(Starting),
    Running(Running),
    Migrating(Migrating),
    Paused(Paused),
    Suspended(Suspended),
    Stopped(Stopped),
}

/// A record without a sandbox that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starting {
    /// What is there should the boot fail.
    pub held: Held,
    pub boot: Boot,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Boot {
    /// Nobody has asked for it yet.
    Unasked,
    UnderWay {
        generation: Generation,
        way: Way,
        until: Timestamp,
    },
    Failed {
        fault: Fault,
        at: Timestamp,
    },
}

/// How a sandbox comes to serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Way {
    /// The same one goes on.
    Wake,
    New {
        origin: Origin,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub place: Place,
    /// When the provider will end it.
    pub expires_at: Option<Timestamp>,
    /// The newest snapshot of this session.
    pub last: Option<SnapshotId>,
    pub leaving: Option<Leaving>,
}

/// A pause under way: the sandbox still serves the session, and goes on if it fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    pub to: Rest,
    pub until: Timestamp,
}

/// As what a session rests, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "as", content = "reason", rename_all = "snake_case")]
pub enum Rest {
    Paused(PauseReason),
    Suspended(SuspendReason),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    Manual,
    Inactivity,
    /// Its sandbox died; the disk was saved.
    Recovered,
    /// It could not be started again; nothing was lost.
    StartFailed,
    /// What had suspended it is gone.
    Cleared,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    CreditLimit,
    Administrator,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrating {
    /// Serves the session until the new one is up.
    pub old: Place,
    pub expires_at: Option<Timestamp>,
    pub last: Option<SnapshotId>,
    pub step: Step,
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Step {
    /// The old one is made to stand still and its disk taken. The new one has its number already.
    Capturing { new: Generation },
    /// The old one stands still.
    Moving { new: Generation, from: SnapshotId },
}

impl Step {
    pub fn new_generation(&self) -> Generation {
        match self {
            Self::Capturing { new } | Self::Moving { new, .. } => *new,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub reason: PauseReason,
    pub resting: Resting,
}

/// Imposed, and not to be left before its reason is gone. Holds no memory for long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspended {
    pub reason: SuspendReason,
    pub resting: Resting,
}

/// A session without a sandbox that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resting {
    pub held: Held,
    pub since: Timestamp,
    /// Why the last start failed.
    pub fault: Option<Fault>,
    /// Only consent leaves it.
    pub degraded: Option<Degraded>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    pub reason: StopReason,
    pub at: Timestamp,
    /// What a fork can start from.
    pub last: Option<SnapshotId>,
    /// Sandboxes whose disks are still to be sealed.
    pub ending: Vec<Generation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Manual,
    /// It died, and neither its disk nor a snapshot was left.
    SandboxTerminated,
    /// It was paused for longer than it is kept.
    PausedTooLong,
}

/// What a session at rest goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "held", rename_all = "snake_case")]
pub enum Held {
    /// Its sandbox, standing still with its memory.
    InPlace {
        place: Place,
        last: Option<SnapshotId>,
        /// Memory is being given up for the disk.
        storing_until: Option<Timestamp>,
    },
    Stored {
        snapshot: SnapshotId,
    },
    /// It never made anything of its own.
    Nothing,
}

/// A session that is less than it was, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Degraded {
    pub kept: Option<SnapshotId>,
    pub lost: String,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub code: FaultCode,
    /// For people; bounded by whoever makes it.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    /// The provider refused or failed.
    Provider,
    /// A phase of the boot failed.
    Boot,
    DeadlinePassed,
    /// What it was to start from is not there or cannot be read.
    OriginGone,
}

/// What happened. Answers name the sandbox they are about: one of an older generation changes
/// nothing but its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants it to run. `origin` is used when the session has nothing of its own.
    Begin {
        origin: Origin,
        until: Timestamp,
    },
    Ready {
        place: Place,
        expires_at: Option<Timestamp>,
    },
    BootFailed {
        generation: Generation,
        fault: Fault,
        at: Timestamp,
    },
    Rest {
        to: Rest,
        at: Timestamp,
        until: Timestamp,
    },
    /// It stands still, or is on disk.
    Rested {
        generation: Generation,
        /// None: in place.
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    },
    /// A pause or the capture of a migration did not come about.
    RestFailed {
        generation: Generation,
    },
    /// A pause in place is to go to disk.
    Store {
        until: Timestamp,
    },
    /// A sandbox was ended and its disk sealed.
    Sealed {
        generation: Generation,
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    },
    SnapshotTaken {
        generation: Generation,
        snapshot: SnapshotId,
    },
    Extended {
        generation: Generation,
        expires_at: Timestamp,
    },
    Migrate {
        until: Timestamp,
    },
    /// The old one stands still, and this is its disk.
    Captured {
        generation: Generation,
        snapshot: SnapshotId,
        until: Timestamp,
    },
    /// The provider says that it is gone; its disk was saved, or was not.
    Lost {
        generation: Generation,
        recovered: Option<SnapshotId>,
        at: Timestamp,
    },
    DeadlinePassed {
        at: Timestamp,
    },
    /// Consent to what a degraded session lost.
    Recover {
        origin: Origin,
        until: Timestamp,
    },
    /// What suspended it is gone.
    Cleared,
    Stop {
        reason: StopReason,
        at: Timestamp,
    },
}

/// What is to be done, after the state that asks for it is written. Each is safe to do twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Boot {
        generation: Generation,
        way: Way,
        until: Timestamp,
    },
    /// End the turn, drain, freeze; in place where the provider can, else to disk.
    Rest {
        generation: Generation,
        until: Timestamp,
    },
    /// Let it go on, where it stands still; and look whether it is there.
    Thaw { generation: Generation },
    /// Make it stand still and take its disk.
    Capture {
        generation: Generation,
        until: Timestamp,
    },
    /// End its processes, seal its disk.
    End { generation: Generation },
    /// End it and its disk: nothing in it was ever acknowledged, or all of it is in a snapshot.
    Discard { generation: Generation },
}

impl Lifecycle {
    /// A record that nobody has asked to run.
    pub fn new() -> Self {
        Self {
            generation: Generation::default(),
            state: State::Starting(Starting {
                held: Held::Nothing,
                boot: Boot::Unasked,
            }),
        }
    }

    /// One that goes on from another's snapshot.
    pub fn forked(snapshot: SnapshotId) -> Self {
        Self {
            generation: Generation::default(),
            state: State::Starting(Starting {
                held: Held::Stored { snapshot },
                boot: Boot::Unasked,
            }),
        }
    }

    /// The sandbox that serves the session.
    pub fn place(&self) -> Option<Place> {
        match &self.state {
            State::Running(running) => Some(running.place),
            State::Migrating(migrating) => Some(migrating.old),
            _ => None,
        }
    }

    /// The sandbox that serves the session, or stands still for it.
    pub fn whereabouts(&self) -> Option<Place> {
        self.place().or_else(|| match &self.state {
            State::Starting(Starting { held, .. }) => held.place(),
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                resting.held.place()
            }
            _ => None,
        })
    }

    /// Every sandbox that is the session's; whatever else carries its label is an orphan.
    pub fn generations(&self) -> Vec<Generation> {
        match &self.state {
            State::Starting(Starting { boot, held }) => {
                let booting = match boot {
                    Boot::UnderWay { generation, .. } => Some(*generation),
                    _ => None,
                };
                let mut all: Vec<Generation> =
                    booting.into_iter().chain(held.generation()).collect();
                all.dedup();
                all
            }
            State::Running(running) => vec![running.place.generation],
            State::Migrating(migrating) => {
                vec![migrating.old.generation, migrating.step.new_generation()]
            }
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                resting.held.generation().into_iter().collect()
            }
            State::Stopped(stopped) => stopped.ending.clone(),
        }
    }

    /// The newest snapshot that a resume or a fork starts from.
    pub fn snapshot(&self) -> Option<&SnapshotId> {
        match &self.state {
            State::Starting(Starting { held, .. }) => held.snapshot(),
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                resting.held.snapshot()
            }
            State::Running(Running { last, .. })
            | State::Migrating(Migrating { last, .. })
            | State::Stopped(Stopped { last, .. }) => last.as_ref(),
        }
    }

    /// When somebody must act if nothing happens until then.
    pub fn deadline(&self) -> Option<Timestamp> {
        match &self.state {
            State::Starting(starting) => match starting.boot {
                Boot::UnderWay { until, .. } => Some(until),
                Boot::Unasked | Boot::Failed { .. } => None,
            },
            State::Running(running) => running.leaving.as_ref().map(|leaving| leaving.until),
            State::Migrating(migrating) => Some(migrating.until),
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                match resting.held {
                    Held::InPlace { storing_until, .. } => storing_until,
                    Held::Stored { .. } | Held::Nothing => None,
                }
            }
            State::Stopped(_) => None,
        }
    }

    /// What is still to be done in this state: asked for again by an owner that takes over.
    pub fn owed(&self) -> Vec<Effect> {
        match &self.state {
            State::Starting(starting) => match &starting.boot {
                Boot::UnderWay {
                    generation,
                    way,
                    until,
                } => vec![Effect::Boot {
                    generation: *generation,
                    way: way.clone(),
                    until: *until,
                }],
                Boot::Unasked | Boot::Failed { .. } => Vec::new(),
            },
            State::Running(running) => match &running.leaving {
                Some(leaving) => vec![Effect::Rest {
                    generation: running.place.generation,
                    until: leaving.until,
                }],
                // Whoever gave up a pause may have ended before it was let go on.
                None => vec![Effect::Thaw {
                    generation: running.place.generation,
                }],
            },
            State::Migrating(migrating) => vec![match &migrating.step {
                Step::Capturing { .. } => Effect::Capture {
                    generation: migrating.old.generation,
                    until: migrating.until,
                },
                Step::Moving { new, from } => Effect::Boot {
                    generation: *new,
                    way: Way::New {
                        origin: Origin::Session(from.clone()),
                    },
                    until: migrating.until,
                },
            }],
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                match resting.held {
                    Held::InPlace {
                        place,
                        storing_until: Some(_),
                        ..
                    } => vec![Effect::End {
                        generation: place.generation,
                    }],
                    _ => Vec::new(),
                }
            }
            State::Stopped(stopped) => stopped
                .ending
                .iter()
                .map(|generation| Effect::End {
                    generation: *generation,
                })
                .collect(),
        }
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

impl Held {
    pub fn snapshot(&self) -> Option<&SnapshotId> {
        match self {
            Self::InPlace { last, .. } => last.as_ref(),
            Self::Stored { snapshot } => Some(snapshot),
            Self::Nothing => None,
        }
    }

    pub fn place(&self) -> Option<Place> {
        match self {
            Self::InPlace { place, .. } => Some(*place),
            Self::Stored { .. } | Self::Nothing => None,
        }
    }

    pub fn generation(&self) -> Option<Generation> {
        self.place().map(|place| place.generation)
    }

    fn stored(snapshot: Option<SnapshotId>) -> Self {
        snapshot.map_or(Self::Nothing, |snapshot| Self::Stored { snapshot })
    }
}
