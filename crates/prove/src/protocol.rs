//! What a storm says to its server: a JSON value a line, each request on a connection of its own.

use model::{Id, Session};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Create {
        /// How long its sandboxes shall live, where their provider ends them.
        lifetime_ms: Option<u64>,
    },
    Fork(Id<Session>),
    Do(Id<Session>, Deed),
    Prompt {
        session: Id<Session>,
        id: String,
        content: String,
        mode: Mode,
    },
    /// Answered by what is told after that number, without end.
    Watch {
        session: Id<Session>,
        since: u64,
    },
    /// Looks for what nobody acts on, now.
    Sweep,
    /// What it owns now.
    Owned,
}

/// What a prompt does while another runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Followup,
    Steer,
    Collect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    Ensure,
    Pause,
    Store,
    Migrate,
    Snapshot,
    Cancel,
    Stop,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    Session(Id<Session>),
    /// With the term of each.
    Owned(Vec<(Id<Session>, u64)>),
    /// The session may not do that now.
    Refused(String),
    Failed(String),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame {
    Numbered { seq: u64, body: String },
    Passing(String),
}
