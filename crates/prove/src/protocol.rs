//! What a storm says to its server: a JSON value a line, each request on a connection of its own.

use model::{Id, Session};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Create,
    Fork(Id<Session>),
    Do(Id<Session>, Deed),
    Prompt {
        session: Id<Session>,
        id: String,
        content: String,
    },
    /// Answered by what is told after that number, without end.
    Watch {
        session: Id<Session>,
        since: u64,
    },
    /// Looks for what nobody acts on, now.
    Sweep,
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
