//! Host to keeper. A keeper is started with a connected socket as its standard input and gets one
//! [`Start`] on it; afterwards anyone who can reach `keeper.sock` in the sandbox's directory may
//! open a connection and send [`Request`]s, each answered by one [`Reply`].

use serde::{Deserialize, Serialize};

use crate::guest;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// With one descriptor, the network namespace, unless the host's own is to be used.
    Launch(Launch),
    /// Take over a sandbox whose keeper is gone. One that stands still but is not meant to be
    /// paused was held by somebody who is gone too, and goes on.
    Adopt { order: Launch, paused: bool },
}

/// Everything that is needed to bring one sandbox up. Paths are the host's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launch {
    pub sandbox: String,
    /// The sandbox's own directory: sockets, `keeper.json`, `keeper.log`.
    pub dir: String,
    /// Immutable layers, the topmost first.
    pub layers: Vec<String>,
    /// Holds `upper` and `work`.
    pub disk: String,
    /// An empty directory, if the disk is on another file system than the layers, or on a part of
    /// theirs with inode numbers of its own: then the kernel must tell files of the two apart.
    #[serde(default)]
    pub apart: Option<String>,
    /// The program that becomes PID 1.
    pub runner: String,
    /// The program that PID 1 starts if it is told to: see [`guest::Config::workplace`].
    pub workplace: String,
    /// A program for those inside, as [`INSIDE`], where there is a workplace that it talks to.
    #[serde(default)]
    pub inside: Option<String>,
    #[serde(default)]
    pub runtime: Runtime,
    /// Host directories to be seen inside, read-only: host path and path inside.
    pub binds: Vec<(String, String)>,
    /// Who it is: content to lay over files that the root file system has, by their path inside.
    pub identity: Vec<(String, String)>,
    pub first_id: u32,
    pub ids: u32,
    pub hostname: String,
    pub cgroups: Cgroups,
    pub host_network: bool,
    pub forwards: Vec<Forward>,
    pub shm_bytes: u64,
    /// Processes and threads of each user inside, where the cgroup counts other things too.
    #[serde(default)]
    pub processes_per_user: Option<u64>,
    /// Over this much on its disk the sandbox is frozen.
    pub disk_limit: Option<u64>,
    /// A frozen sandbox is ended, its disk kept, after this long.
    pub to_disk_after_ms: u64,
    pub config: guest::Config,
    /// A policed way out, where it has one.
    #[serde(default)]
    pub egress: Option<Egress>,
    /// Files of the host to be seen in `/run/nacre/files`, by name: what they hold.
    #[serde(default)]
    pub files: Vec<(String, String)>,
}

/// The port on the sandbox's loopback and the door that lead out.
pub const EGRESS_PORT: u16 = 3128;
pub const EGRESS_DOOR: &str = "egress";
/// Where [`Launch::inside`] is seen, and the directory of it that `PATH` names.
pub const INSIDE: &str = "bin/nacre";
pub const INSIDE_PATH: &str = "/run/nacre/bin";
/// Where [`Launch::files`] are seen.
pub const FILES: &str = "files";

/// What the keeper runs beside a sandbox with a way out. The program gets [`EgressOrder`] on its
/// standard input together with the listening sockets, and ends when that closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    pub program: String,
    pub order: EgressOrder,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressOrder {
    /// What may be reached: `host`, `host:port`, `*.domain`, `*`.
    pub allow: Vec<String>,
    /// What may be reached although its address is not public.
    pub private: Vec<String>,
    /// A proxy that everything else goes through; may hold a password.
    pub upstream: Option<String>,
    /// The directory for its log, which becomes its own.
    pub log: String,
    /// The directory in which it finds what was let through since, which stays root's.
    #[serde(default)]
    pub passes: Option<String>,
    /// The host id that it runs as.
    pub user: u32,
}

impl std::fmt::Debug for EgressOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressOrder")
            .field("allow", &self.allow)
            .field("private", &self.private)
            .field("upstream", &self.upstream.as_ref().map(|_| "***"))
            .field("log", &self.log)
            .field("passes", &self.passes)
            .field("user", &self.user)
            .finish()
    }
}

/// Sockets that travel with an [`EgressOrder`], in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressSockets {
    pub door: bool,
    pub port: bool,
}

/// What runs the processes of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// The host's kernel.
    #[default]
    Native,
    /// gVisor, whose program is at this path.
    Runsc { program: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroups {
    /// The sandbox's directory on the v2 hierarchy: freeze and kill, and limits where it has the
    /// controllers.
    pub unified: String,
    /// Its directories on v1 hierarchies, for limits.
    pub legacy: Vec<String>,
    /// The file and values that lift and restore the processor quota around a freeze.
    pub quota: Option<Quota>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    pub file: String,
    pub lifted: String,
    pub limited: String,
}

/// A port on the sandbox's loopback that leads to an address of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forward {
    pub port: u16,
    pub to: std::net::SocketAddr,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Whether it lives: a connection that was made is no sign of it.
    Hello,
    /// Stays frozen after this connection is gone only if [`Request::Keep`] came before.
    Freeze,
    Keep,
    Thaw,
    /// Ends every process and waits until the disk is no longer mounted; the keeper ends too.
    End,
    /// Answered with the listening socket of `/run/nacre/NAME`, made if need be.
    Door {
        name: String,
    },
}

/// A door becomes a file in a directory that holds the env files too.
pub fn is_door_name(name: &str) -> bool {
    (1..=32).contains(&name.len())
        && name.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.')
        })
        && !name.starts_with('.')
        && !matches!(name, "bin" | "env" | "nacre" | "boot" | FILES)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Launched(Launched),
    Frozen { took_us: u64 },
    Done,
    Ended(Ended),
    Door,
    Failed { stage: String, message: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// PID 1 of the sandbox, as the host counts; under gVisor, the process that all others end with.
    pub pid: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// From the order to kill until the last process was gone.
    pub processes_us: u64,
    /// From then until the disk was unmounted.
    pub unmount_us: u64,
}

/// `keeper.json` in the sandbox's directory: how the sandbox is found again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub keeper: i32,
    pub pid: i32,
    /// Start time of `pid` in clock ticks since boot, against reuse of its number.
    pub started: u64,
    pub host_boot: String,
}

/// `exit.json` in the sandbox's directory: how PID 1 ended, and why the keeper ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// `to_disk`, `out_of_memory`; absent when nobody knows.
    pub reason: Option<String>,
}
