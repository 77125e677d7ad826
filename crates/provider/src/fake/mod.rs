//! A provider in memory, which passes the whole contract suite and does what tests tell it.
//!
//! Its sandboxes have file trees of their own and run one program, the probe, which it simulates.
//! It can be told to fail ([`Fake::fail_next`]), to be out of reach ([`Fake::outage`]), and what it
//! was asked ([`Fake::calls`]).

#[cfg(feature = "fake-process")]
mod apart;
mod disk;
mod exec;
mod faults;
mod files;
mod keep;
mod lifecycle;
mod machine;
mod node;
mod process;
mod provider;
mod tree;
mod way_out;
mod workplace;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use model::{Clock, SnapshotId, SystemClock};
use serde::{Deserialize, Serialize};

use crate::{
    Capabilities, Capability, Isolation, Limits, ProviderError, Receipt, Sandbox, SandboxId,
    SandboxSpec, Strength, Survives,
};
use disk::Disk;
use faults::Faults;
use keep::{Keep, Nothing};
use machine::Machine;

#[cfg(feature = "fake-process")]
pub use apart::{Remote, serve};
pub use faults::Call;

/// The fake. Its clones are the same provider.
#[derive(Clone)]
pub struct Fake {
    inner: Arc<Inner>,
}

struct Inner {
    this: Weak<Inner>,
    name: String,
    capabilities: Capabilities,
    lifetime: Option<Duration>,
    holds_memory_for: Option<Duration>,
    clock: Arc<dyn Clock>,
    keep: Arc<dyn Keep>,
    faults: Faults,
    runs: Arc<Mutex<Vec<Run>>>,
    ways_out: Mutex<BTreeMap<SandboxId, way_out::WayOut>>,
    /// Where it was built.
    runtime: Option<tokio::runtime::Handle>,
    /// Held across a whole operation on a sandbox's life: they are few and quick, and so two of
    /// them never meet.
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<SandboxId, Held>,
    snapshots: BTreeMap<SnapshotId, Disk>,
}

struct Held {
    record: Record,
    disk: Arc<Mutex<Disk>>,
    /// There while it runs or is paused.
    machine: Option<Machine>,
}

/// A prompt of a session that a workplace ran.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Run {
    pub session: String,
    pub prompt: String,
}

/// What can be killed in a workplace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Victim {
    /// It starts again, as another boot.
    Runner,
    /// Its turns fail.
    Agent,
}

/// What a sandbox is, apart from its disk and its processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    sandbox: Sandbox,
    spec: SandboxSpec,
    /// Of its stop.
    receipt: Option<Receipt>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl Fake {
    pub fn builder() -> Builder {
        Builder {
            name: "fake".to_owned(),
            lifetime: None,
            max_lifetime: None,
            holds_memory_for: None,
            lacks: Vec::new(),
            clock: Arc::new(SystemClock),
            keep: Arc::new(Nothing),
            state: State::default(),
            runs: Vec::new(),
        }
    }

    /// The next time it is asked to do this operation (`"create"`, `"pause"`, …), it answers that
    /// instead. Several wait in line.
    pub fn fail_next(&self, operation: &'static str, error: ProviderError) {
        self.inner.faults.fail_next(operation, error);
    }

    /// While out of reach, it answers nothing but `Unavailable`; sandboxes run on.
    pub fn outage(&self, out_of_reach: bool) {
        self.inner.faults.outage(out_of_reach);
    }

    /// Every prompt that a workplace has run, in order: twice in it is run twice.
    pub fn runs(&self) -> Vec<Run> {
        self.inner.runs.lock().expect("no holder panics").clone()
    }

    /// Ends something in a workplace; what watches over it starts it again.
    pub async fn kill(&self, id: SandboxId, victim: Victim) -> Result<(), ProviderError> {
        let mut state = self.inner.state().await;
        state.running(id)?.inside.kill(victim);
        Ok(())
    }

    /// A connection to a door that is served, as somebody inside makes one.
    pub async fn knock(&self, id: SandboxId, door: &str) -> Option<tokio::io::DuplexStream> {
        let mut state = self.inner.state().await;
        state.running(id).ok()?.inside.connect_door(door)
    }

    /// Listens on a port of a sandbox, as a program inside does. None if somebody does already, or
    /// it does not run.
    pub async fn listen(&self, id: SandboxId, port: u16) -> Option<Listener> {
        let mut state = self.inner.state().await;
        state.running(id).ok()?.inside.bind(port).map(Listener)
    }

    /// Its workplace does nothing more, for good.
    pub async fn silence(&self, id: SandboxId) -> Result<(), ProviderError> {
        let mut state = self.inner.state().await;
        state.running(id)?.inside.silence();
        Ok(())
    }

    /// What it keeps, of everybody.
    pub async fn snapshots(&self) -> BTreeSet<SnapshotId> {
        let state = self.inner.state().await;
        state.snapshots.keys().cloned().collect()
    }

    /// Everything it was asked, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.inner.faults.calls()
    }
}

/// A port of a sandbox that is listened on, for as long as this is held.
pub struct Listener(machine::Bound);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl Listener {
    /// None once the sandbox is gone.
    pub async fn accept(&mut self) -> Option<tokio::io::DuplexStream> {
        self.0.connections.recv().await
    }
}

/// What a fake is like.
#[derive(Debug)]
pub struct Builder {
    name: String,
    lifetime: Option<Duration>,
    max_lifetime: Option<Duration>,
    holds_memory_for: Option<Duration>,
    lacks: Vec<Capability>,
    clock: Arc<dyn Clock>,
    keep: Arc<dyn Keep>,
    state: State,
    runs: Vec<Run>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.sandboxes.keys()).finish()
    }
}

impl Builder {
    /// What it calls itself, in its snapshots' ids too.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// It ends sandboxes by itself, this long after they were made, unless their specification
    /// says otherwise.
    #[must_use]
    pub fn expiring_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// No sandbox lives longer, extended or not.
    #[must_use]
    pub fn max_lifetime(mut self, most: Duration) -> Self {
        self.max_lifetime = Some(most);
        self
    }

    /// It says that it gives up the memory of a paused sandbox then; it never does.
    #[must_use]
    pub fn holding_memory_for(mut self, time: Duration) -> Self {
        self.holds_memory_for = Some(time);
        self
    }

    /// It cannot do this, as some providers cannot.
    #[must_use]
    pub fn without(mut self, capability: Capability) -> Self {
        self.lacks.push(capability);
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    pub fn build(self) -> Fake {
        let hard = Strength::Hard;
        let mut can = vec![
            Capability::Pause,
            Capability::LiveSnapshot,
            Capability::Fork,
            Capability::Extend,
            Capability::Exec,
            Capability::Dial,
            Capability::Serve,
            Capability::Egress,
        ];
        can.retain(|capability| !self.lacks.contains(capability));
        let capabilities = Capabilities {
            can,
            max_lifetime: self.max_lifetime,
            survives_resume: Survives::DiskAndMemory,
            limits: Limits {
                memory: hard,
                pids: hard,
                cpu: hard,
                disk: hard,
            },
            isolation: Isolation::SharedKernel,
        };
        let inner = Arc::new_cyclic(|this| Inner {
            this: Weak::clone(this),
            name: self.name,
            capabilities,
            lifetime: self.lifetime,
            holds_memory_for: self.holds_memory_for,
            clock: self.clock,
            keep: self.keep,
            faults: Faults::default(),
            runs: Arc::new(Mutex::new(self.runs)),
            ways_out: Mutex::default(),
            runtime: tokio::runtime::Handle::try_current().ok(),
            state: tokio::sync::Mutex::new(self.state),
        });
        Fake { inner }
    }
}
