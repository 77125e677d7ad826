use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::{ByteCount, SnapshotId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Isolation, SandboxId};

/// What to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Unique per provider while the sandbox lives.
    pub name: Option<String>,
    /// How [`crate::Provider::ensure`] finds it again: a session and its generation, say.
    pub key: Option<String>,
    pub origin: Origin,
    pub generation: u64,
    pub memory: Option<ByteCount>,
    pub pids: Option<u64>,
    /// In thousandths of a core.
    pub cpu_millis: Option<u64>,
    pub disk: Option<ByteCount>,
    pub env: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub network: Network,
    /// With [`Network::Proxy`], what it may reach beyond what every sandbox may: `host`,
    /// `host:port`, `*.domain`, `*`.
    #[serde(default)]
    pub allow: Vec<String>,
    pub runtime: Runtime,
    pub forwards: Vec<Forward>,
    /// What makes it a place to work in. Without it, it is a machine and nothing more.
    #[serde(default)]
    pub workplace: Option<Workplace>,
    /// Where the provider ends sandboxes by itself: how long this one shall live.
    pub lifetime: Option<Duration>,
}

impl SandboxSpec {
    pub fn from(origin: Origin) -> Self {
        Self {
            name: None,
            key: None,
            origin,
            generation: 1,
            memory: None,
            pids: None,
            cpu_millis: None,
            disk: None,
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            network: Network::None,
            allow: Vec::new(),
            runtime: Runtime::Native,
            forwards: Vec::new(),
            workplace: None,
            lifetime: None,
        }
    }
}

/// What a sandbox's disk starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Snapshot(SnapshotId),
    /// The provider's own bare image; for local, the host's `/usr` behind a synthesised `/etc`.
    Bare,
    /// A directory or tar on the provider's machine.
    Rootfs(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback alone.
    None,
    /// Loopback, and a policed way out.
    Proxy,
    /// The host's own. Never for sessions.
    Host,
}

/// What runs a sandbox's processes, where a provider has a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    #[default]
    Native,
    Runsc,
}

/// Agent, services, terminal and the rest, and the link that leads to them. What opens it to people
/// and hubs is derived from a key of the provider's, never part of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workplace {
    /// Whose it is. Without one it is the sandbox's own.
    pub session: Option<String>,
    pub link: LinkBy,
}

/// Opens a workplace's gateway. It cannot be printed.
#[derive(Debug, Clone)]
pub struct Edge {
    pub session: String,
    /// Tokens and codes are derived from it.
    pub secret: model::Secret,
}

/// Who dials, where hub and runner are to find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkBy {
    /// The runner, at the link door.
    Door,
    /// The hub, at the gateway's port.
    Hub,
}

/// A port on the sandbox's loopback that leads to an address of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    pub port: u16,
    pub to: SocketAddr,
}

/// A sandbox as its provider knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: SandboxId,
    pub name: Option<String>,
    pub key: Option<String>,
    pub state: SandboxState,
    pub generation: u64,
    pub runtime: Runtime,
    pub isolation: Isolation,
    pub labels: BTreeMap<String, String>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum SandboxState {
    Running,
    Paused {
        kept: Kept,
    },
    /// Its processes are gone and its disk is still its own.
    Ended,
    /// Its disk is now this snapshot.
    Stopped {
        snapshot: SnapshotId,
    },
}

/// What a pause, stop or snapshot keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    Disk,
    Memory,
}

/// What a user gets for a pause, stop or snapshot. `digest`, `bytes` and `files` follow in the
/// background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// None for a pause in place: nothing was copied.
    pub snapshot: Option<SnapshotId>,
    pub digest: Option<String>,
    pub bytes: Option<u64>,
    pub files: Option<u64>,
    pub kept: Kept,
    pub took_ms: f64,
    /// How long the sandbox's processes stood still.
    pub frozen_ms: f64,
    /// How long writing back to the disk took, of `took_ms`.
    pub sync_ms: f64,
    /// How long from the last process's end to the layer in its place, of `took_ms`.
    pub sealed_ms: f64,
}

/// What is in a snapshot, once somebody has read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    pub digest: String,
    pub bytes: u64,
    pub files: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ensured {
    pub sandbox: Sandbox,
    pub expected: Expected,
}

/// What `ensure` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It was running.
    Found,
    /// It was paused and goes on.
    Resumed(Kept),
    /// Its processes were gone; a new start on its sealed disk.
    Restarted(SnapshotId),
    /// There was none.
    Created,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// What was still there: memory, or only the disk.
    pub kept: Kept,
    pub took_ms: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Alive {
    Running,
    Paused,
    Dead,
}

/// Where a sandbox is reached, for a provider with public addresses. A local one is reached by
/// `dial` alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Endpoints {
    pub preview: Option<String>,
    pub agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub ok: bool,
    pub detail: String,
}
