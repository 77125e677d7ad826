//! What the command line shows of the engine beyond the provider contract.

use camino::Utf8PathBuf;
use model::{SnapshotId, Timestamp};
use provider::{Sandbox, SandboxId};
use serde::Serialize;

/// Everything known of one sandbox, for `show`.
#[derive(Debug, Clone, Serialize)]
pub struct Details {
    #[serde(flatten)]
    pub sandbox: Sandbox,
    pub first_id: u32,
    pub pid: Option<i32>,
    pub layers: usize,
    pub memory: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_millis: Option<u64>,
    pub disk: Option<u64>,
    /// Why it is not running, where that is known: `disk_limit`, `out_of_memory`, …
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SnapshotInfo {
    pub id: SnapshotId,
    pub name: Option<String>,
    pub kind: String,
    pub created_at: Timestamp,
    pub sandbox: Option<SandboxId>,
    /// Sealed from a sandbox that died.
    pub recovered: bool,
    pub layers: Vec<String>,
    pub digest: Option<String>,
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

/// What an export did.
#[derive(Debug, Clone, Serialize)]
pub struct Exported {
    pub snapshot: SnapshotId,
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
    pub layers: usize,
    /// Of all parts, whether they had to be sent or not.
    pub packed_bytes: u64,
    pub sent: portable::place::Sent,
    pub took_ms: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Verified {
    pub id: SnapshotId,
    pub ok: bool,
    pub expected: Option<String>,
    pub found: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct Usage {
    pub home: Utf8PathBuf,
    pub sandboxes: UsagePart,
    pub layers: UsagePart,
    pub trash: UsagePart,
    pub free_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct UsagePart {
    pub count: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Collected {
    pub layers: u64,
    pub bytes: u64,
    /// Dead sandboxes whose disks were sealed on the way.
    pub recovered: Vec<SnapshotId>,
}
