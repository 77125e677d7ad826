use serde::{Deserialize, Serialize};

use super::{Boot, Fault, Lifecycle, State, Way};
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
    /// Why the last start failed, until another is tried.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.state {
            State::Starting(starting) => match &starting.boot {
                Boot::Failed { fault, .. } => Some(fault),
                Boot::Unasked | Boot::UnderWay { .. } => None,
            },
            State::Paused(paused) => paused.resting.fault.as_ref(),
            State::Suspended(suspended) => suspended.resting.fault.as_ref(),
            State::Running(_) | State::Migrating(_) | State::Stopped(_) => None,
        }
    }

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
