use model::Timestamp;
use serde::{Deserialize, Serialize};

/// Something that a sandbox with a policed way out may reach beyond what it was made with. It opens
/// no private address: those are refused whatever is passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// As in [`SandboxSpec::allow`](crate::SandboxSpec::allow).
    pub rule: String,
    /// Nothing is let through by it from then on, and what it let through ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Something that a sandbox asked for and did not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    pub at: Timestamp,
    pub host: String,
    pub port: u16,
    /// A stable code: `not-listed`, `port-not-listed`, `private`, `metadata`, …
    pub reason: String,
}

impl Blocked {
    /// Whether a [`Pass`] would let it through: it is not on the list, and no more is known of it.
    pub fn is_unlisted(&self) -> bool {
        matches!(&*self.reason, "not-listed" | "port-not-listed")
    }
}

/// What was refused, and where the next look begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// The oldest first. Of a sandbox that asks for more than anybody can read, the newest.
    pub blocked: Vec<Blocked>,
    /// For whoever made it to read.
    pub mark: String,
}
