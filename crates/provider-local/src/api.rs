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
    /// Of all blobs, whether they had to be sent or not.
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
    /// Layers of it that are not what they were.
    pub damaged: Vec<Damaged>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Damaged {
    pub layer: String,
    /// What changed, is gone, or is new; the first of them.
    pub paths: Vec<String>,
    pub count: u64,
}

/// Every byte below the home is in exactly one of the parts.
#[derive(Debug, Clone, Serialize)]
pub struct Usage {
    pub home: Utf8PathBuf,
    /// Disks of sandboxes, and what is kept beside them.
    pub sandboxes: UsagePart,
    pub layers: UsagePart,
    /// Records of snapshots.
    pub snapshots: UsagePart,
    pub trash: UsagePart,
    /// Keeper and runner of each build that was used here.
    pub programs: UsagePart,
    /// Claims, intents and whatever else is in the home.
    pub records: UsagePart,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub by_layer: Vec<LayerUsage>,
    pub by_snapshot: Vec<SnapshotUsage>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct UsagePart {
    pub count: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct LayerUsage {
    pub id: String,
    pub bytes: u64,
    /// How many snapshots and sandboxes stand on it.
    pub snapshots: u64,
    pub sandboxes: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct SnapshotUsage {
    pub id: SnapshotId,
    pub name: Option<String>,
    /// What removing it would free.
    pub own_bytes: u64,
    /// What others stand on too.
    pub shared_bytes: u64,
}

/// Equal files in different places of the layers. They are counted, not joined.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Duplicates {
    /// Files that could be one with another.
    pub files: u64,
    /// What they take beyond that one.
    pub bytes: u64,
    pub largest: Vec<Duplicate>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Duplicate {
    pub size: u64,
    pub copies: u64,
    /// What all but one of them take.
    pub bytes: u64,
    /// One of them, as `layer/path`.
    pub example: String,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct Collected {
    pub layers: u64,
    pub bytes: u64,
    /// Dead sandboxes whose disks were sealed on the way.
    pub recovered: Vec<SnapshotId>,
}
