use serde::{Deserialize, Serialize};

use super::{Boot, Lifecycle, State, Way};
use crate::Origin;

/// What a client is shown: the state, and how it came to be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientStatus {
    Creating,
    Resuming,
    Running,
    Migrating,
    Paused,
    Suspended,
    Degraded,
    Stopped,
    Error,
}

impl Lifecycle {
    pub fn client_status(&self) -> ClientStatus {
        match &self.state {
            State::Starting(starting) => match &starting.boot {
                Boot::Failed { .. } => ClientStatus::Error,
                Boot::UnderWay { way, .. } => match way {
                    Way::Wake
                    | Way::New {
                        origin: Origin::Session(_),
                    } => ClientStatus::Resuming,
                    Way::New { .. } => ClientStatus::Creating,
                },
                Boot::Unasked => ClientStatus::Creating,
            },
            State::Running(_) => ClientStatus::Running,
            State::Migrating(_) => ClientStatus::Migrating,
            State::Paused(paused) if paused.resting.degraded.is_some() => ClientStatus::Degraded,
            State::Paused(_) => ClientStatus::Paused,
            State::Suspended(_) => ClientStatus::Suspended,
            State::Stopped(_) => ClientStatus::Stopped,
        }
    }
}
