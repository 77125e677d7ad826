//! What the command line asks of the local engine beyond the provider contract.
#![allow(unused_variables, clippy::todo, missing_debug_implementations)]
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use model::{SnapshotId, Timestamp};
use provider::{ProviderError, SandboxId, SandboxSpec, Sandbox};
use serde::Serialize;

#[derive(Debug, Clone)]
pub struct Config {
    pub home: Utf8PathBuf,
    /// The first host id of the first range, and how many ranges of 65,536 there are.
    pub first_id: u32,
    pub ranges: u32,
    /// A frozen sandbox goes to disk after this long.
    pub to_disk_after: Duration,
}

impl Config {
    pub fn at(home: impl Into<Utf8PathBuf>) -> Self {
        todo!()
    }
}

#[derive(Clone)]
pub struct Local;

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

impl Local {
    /// Opens the home, makes it if need be, and finishes or removes what an earlier process left
    /// half-made.
    pub fn open(config: Config) -> Result<Self, ProviderError> {
        todo!()
    }

    /// By id, by name, or by a prefix of the id that fits only one.
    pub fn find_sandbox(&self, text: &str) -> Result<SandboxId, ProviderError> {
        todo!()
    }

    pub fn find_snapshot(&self, text: &str) -> Result<SnapshotId, ProviderError> {
        todo!()
    }

    pub async fn show(&self, id: SandboxId) -> Result<Details, ProviderError> {
        todo!()
    }

    pub async fn snapshots(&self) -> Result<Vec<SnapshotInfo>, ProviderError> {
        todo!()
    }

    /// With `wait`: computes the digest if nobody has yet.
    pub async fn show_snapshot(&self, id: &SnapshotId) -> Result<SnapshotInfo, ProviderError> {
        todo!()
    }

    pub async fn digest_snapshot(&self, id: &SnapshotId) -> Result<SnapshotInfo, ProviderError> {
        todo!()
    }

    pub async fn verify_snapshot(&self, id: &SnapshotId) -> Result<Verified, ProviderError> {
        todo!()
    }

    pub async fn usage(&self) -> Result<Usage, ProviderError> {
        todo!()
    }

    pub async fn collect_garbage(&self) -> Result<Collected, ProviderError> {
        todo!()
    }

    /// Builds a Debian root file system with mmdebstrap and keeps it as the base snapshot named
    /// `base`; `progress` gets a line at a time.
    pub async fn build_base(
        &self,
        slim: bool,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<SnapshotInfo, ProviderError> {
        todo!()
    }

    /// The snapshot named `base`, if there is one.
    pub fn base(&self) -> Result<Option<SnapshotId>, ProviderError> {
        todo!()
    }
}

/// What `doctor` looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub status: FindingStatus,
    pub found: String,
    /// What to do, when something is to be done.
    pub advice: Option<String>,
    #[serde(skip)]
    pub fix: Option<Fix>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    Ok,
    /// Works, with less.
    Warning,
    /// Sandboxes cannot run.
    Missing,
}

#[derive(Debug, Clone)]
pub enum Fix {
    /// Debian packages to install.
    Packages(Vec<&'static str>),
    /// A directory to make.
    Directory(Utf8PathBuf),
    /// A kernel module to load.
    Module(&'static str),
    /// A file to be given this content.
    Write(Utf8PathBuf, String),
}
