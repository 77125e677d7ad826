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

/// What the agent does, as a list tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// A turn is under way.
    Busy,
    /// It has asked something, and goes on when a person answers.
    Waiting,
    Idle,
    /// Somebody wants something that it has not begun.
    Queued,
    /// Its sandbox is on its way.
    Waking,
    Sleeping,
}

/// What a session has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    pub is_under_way: bool,
    pub is_queued: bool,
    /// A question, a permission or an action waits for a person.
    pub is_asked: bool,
}

impl Lifecycle {
    /// None where no agent will ever do anything again.
    pub fn agent_state(&self, work: Work) -> Option<AgentState> {
        let asleep = if work.is_queued {
            AgentState::Queued
        } else {
            AgentState::Sleeping
        };
        Some(match &self.state {
            State::Stopped(_) => return None,
            State::Paused(_) | State::Suspended(_) => asleep,
            State::Starting(starting) => match &starting.boot {
                Boot::Unasked | Boot::Failed { .. } => asleep,
                Boot::UnderWay { .. } => AgentState::Waking,
            },
            State::Running(_) | State::Migrating(_) if work.is_under_way && work.is_asked => {
                AgentState::Waiting
            }
            State::Running(_) | State::Migrating(_) if work.is_under_way => AgentState::Busy,
            State::Migrating(_) => AgentState::Waking,
            State::Running(_) if work.is_queued => AgentState::Queued,
            State::Running(_) => AgentState::Idle,
        })
    }

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
