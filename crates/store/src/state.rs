use model::Timestamp;
use model::session::{Lifecycle, State};
use serde::Serialize;

use crate::Result;
use crate::columns::{from_json, json};
use crate::limits::{self, within};
use crate::sessions::Status;

/// A state as its columns: all of it in `state`, and beside it what the checks and the sweeps look
/// at. What contradicts itself is refused by the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateColumns {
    pub status: Status,
    /// The whole state, as JSON.
    pub state: String,
    /// The highest that was ever given to a sandbox.
    pub generation: u64,
    /// The sandbox that serves the session.
    pub sandbox_id: Option<String>,
    /// What a resume starts from.
    pub snapshot_id: Option<String>,
    /// Why it is paused, suspended or stopped.
    pub reason: Option<String>,
    pub degraded: bool,
    /// When somebody must act if nothing happens until then.
    pub deadline_at: Option<Timestamp>,
    /// When the provider will end the sandbox.
    pub expires_at: Option<Timestamp>,
    /// Since when it is paused or suspended.
    pub paused_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl From<&Lifecycle> for StateColumns {
    fn from(lifecycle: &Lifecycle) -> Self {
        let mut columns = Self {
            status: Status::Starting,
            state: json(lifecycle),
            generation: lifecycle.generation.0,
            sandbox_id: lifecycle.place().map(|place| place.sandbox.to_string()),
            snapshot_id: lifecycle.snapshot().map(ToString::to_string),
            reason: None,
            degraded: false,
            deadline_at: lifecycle.deadline(),
            expires_at: None,
            paused_at: None,
            ended_at: None,
        };
        match &lifecycle.state {
            State::Starting(_) => {}
            State::Running(running) => {
                columns.status = Status::Running;
                columns.expires_at = running.expires_at;
            }
            State::Migrating(migrating) => {
                columns.status = Status::Migrating;
                columns.expires_at = migrating.expires_at;
            }
            State::Paused(paused) => {
                columns.status = Status::Paused;
                columns.reason = Some(word(&paused.reason));
                columns.degraded = paused.resting.degraded.is_some();
                columns.paused_at = Some(paused.resting.since);
            }
            State::Suspended(suspended) => {
                columns.status = Status::Suspended;
                columns.reason = Some(word(&suspended.reason));
                columns.degraded = suspended.resting.degraded.is_some();
                columns.paused_at = Some(suspended.resting.since);
            }
            State::Stopped(stopped) => {
                columns.status = Status::Stopped;
                columns.reason = Some(word(&stopped.reason));
                columns.ended_at = Some(stopped.at);
            }
        }
        columns
    }
}

impl From<Lifecycle> for StateColumns {
    fn from(lifecycle: Lifecycle) -> Self {
        Self::from(&lifecycle)
    }
}

/// The word that an enumeration is written as.
fn word(reason: &impl Serialize) -> String {
    json(reason).trim_matches('"').to_owned()
}

impl StateColumns {
    pub fn lifecycle(&self) -> Result<Lifecycle> {
        from_json("state", &self.state)
    }

    pub(crate) fn check(&self) -> Result<()> {
        within("the state", &self.state, limits::DOCUMENT)?;
        let words = [&self.sandbox_id, &self.snapshot_id, &self.reason];
        for word in words.into_iter().flatten() {
            within("a word of the state", word, limits::NAME)?;
        }
        Ok(())
    }
}
