//! The running half of a simulated sandbox.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock, mpsc};
use tokio::task::JoinSet;

use super::disk::Disk;
use super::keep::Keep;
use super::{Run, Victim};
use crate::{ProviderError, SandboxId, SandboxSpec};

/// How many connections may wait at a port or a door.
pub(super) const BACKLOG: usize = 16;
/// How much a connection holds before its writer waits.
const CONNECTION: usize = 64 << 10;

/// Processes, and the means to freeze them. Dropping it ends them all.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) inside: Arc<Inside>,
    processes: JoinSet<()>,
    /// Processes end with the fake, and not with whoever asked for them.
    runtime: Option<Handle>,
    frozen: Option<OwnedRwLockWriteGuard<()>>,
}

impl Machine {
    pub(super) fn start(inside: Inside, runtime: Option<Handle>) -> Self {
        Self {
            inside: Arc::new(inside),
            processes: JoinSet::new(),
            runtime,
            frozen: None,
        }
    }

    pub(super) fn spawn(&mut self, process: impl Future<Output = ()> + Send + 'static) {
        while self.processes.try_join_next().is_some() {}
        match &self.runtime {
            Some(runtime) => self.processes.spawn_on(process, runtime),
            None => self.processes.spawn(process),
        };
    }

    pub(super) async fn freeze(&mut self) {
        if self.frozen.is_none() {
            self.frozen = Some(self.inside.gate.clone().write_owned().await);
        }
    }

    pub(super) fn thaw(&mut self) {
        self.frozen = None;
    }

    /// Ends every process, and returns when none runs any more.
    pub(super) async fn end(mut self) {
        self.processes.shutdown().await;
    }
}

/// What the processes of a sandbox see of it.
pub(super) struct Inside {
    pub(super) id: SandboxId,
    pub(super) hostname: String,
    pub(super) env: BTreeMap<String, String>,
    disk: Arc<Mutex<Disk>>,
    keep: Arc<dyn Keep>,
    /// A process holds it for reading at each step; a pause holds it for writing.
    gate: Arc<RwLock<()>>,
    ports: Mutex<HashMap<u16, mpsc::Sender<DuplexStream>>>,
    doors: Mutex<HashMap<String, mpsc::Sender<DuplexStream>>>,
    pub(super) memory: Gauge,
    pub(super) pids: Gauge,
    pub(super) cpu_millis: u64,
    next_pid: AtomicI32,
    runs: Arc<Mutex<Vec<Run>>>,
    runner_killed: Notify,
    is_silent: AtomicBool,
    agent_killed: Notify,
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Inside {
    pub(super) fn new(
        id: SandboxId,
        spec: &SandboxSpec,
        disk: Arc<Mutex<Disk>>,
        keep: Arc<dyn Keep>,
        runs: Arc<Mutex<Vec<Run>>>,
    ) -> Self {
        Self {
            id,
            hostname: id.to_string().replace('_', "-"),
            env: spec.env.clone(),
            disk,
            keep,
            gate: Arc::default(),
            ports: Mutex::default(),
            doors: Mutex::default(),
            memory: Gauge::up_to(spec.memory.map(model::ByteCount::bytes)),
            pids: Gauge::up_to(spec.pids),
            cpu_millis: spec.cpu_millis.unwrap_or(u64::MAX),
            next_pid: AtomicI32::new(2),
            runs,
            runner_killed: Notify::new(),
            is_silent: AtomicBool::new(false),
            agent_killed: Notify::new(),
        }
    }

    /// One step of a process on the disk; a frozen sandbox takes none.
    pub(super) async fn step<T>(&self, step: impl FnOnce(&mut Disk) -> T) -> T {
        let _permit = self.gate.read().await;
        step(&mut self.disk())
    }

    /// Waits while the sandbox is frozen.
    pub(super) async fn pass(&self) {
        drop(self.gate.read().await);
    }

    pub(super) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("no holder panics")
    }

    pub(super) fn save(&self) -> Result<(), ProviderError> {
        self.keep.disk(self.id, &self.disk())
    }

    pub(super) fn kill(&self, victim: Victim) {
        match victim {
            Victim::Runner => self.runner_killed.notify_one(),
            Victim::Agent => self.agent_killed.notify_one(),
        }
    }

    pub(super) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
        self.runner_killed.notify_one();
    }

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    pub(super) async fn runner_killed(&self) {
        self.runner_killed.notified().await;
    }

    pub(super) async fn agent_killed(&self) {
        self.agent_killed.notified().await;
    }

    pub(super) fn count_run(&self, run: Run) {
        self.keep.run(&run);
        self.runs.lock().expect("no holder panics").push(run);
    }

    pub(super) fn next_pid(&self) -> i32 {
        self.next_pid.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn bind(self: &Arc<Self>, port: u16) -> Option<Bound> {
        let mut ports = self.ports.lock().expect("no holder panics");
        if ports.contains_key(&port) {
            return None;
        }
        let (sender, connections) = mpsc::channel(BACKLOG);
        ports.insert(port, sender);
        Some(Bound {
            inside: self.clone(),
            port,
            connections,
        })
    }

    /// Opens a door; one of the same name that was there before leads nowhere any more.
    pub(super) fn open_door(&self, name: &str) -> mpsc::Receiver<DuplexStream> {
        let (sender, connections) = mpsc::channel(BACKLOG);
        self.doors
            .lock()
            .expect("no holder panics")
            .insert(name.to_owned(), sender);
        connections
    }

    pub(super) fn connect_port(&self, port: u16) -> Option<DuplexStream> {
        connect(self.ports.lock().expect("no holder panics").get(&port)?)
    }

    pub(super) fn connect_door(&self, name: &str) -> Option<DuplexStream> {
        connect(self.doors.lock().expect("no holder panics").get(name)?)
    }
}

fn connect(to: &mpsc::Sender<DuplexStream>) -> Option<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(CONNECTION);
    to.try_send(theirs).ok().map(|()| ours)
}

/// A port that a process listens on, until it drops this.
pub(super) struct Bound {
    inside: Arc<Inside>,
    port: u16,
    pub(super) connections: mpsc::Receiver<DuplexStream>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.inside
            .ports
            .lock()
            .expect("no holder panics")
            .remove(&self.port);
    }
}

/// Something there is only so much of.
#[derive(Debug)]
pub(super) struct Gauge {
    used: AtomicU64,
    most: u64,
}

impl Gauge {
    fn up_to(most: Option<u64>) -> Self {
        Self {
            used: AtomicU64::new(0),
            most: most.unwrap_or(u64::MAX),
        }
    }

    /// Takes some, for as long as the answer is held; `None` if there is not that much.
    pub(super) fn take(&self, amount: u64) -> Option<Taken<'_>> {
        let fits = |used: u64| used.checked_add(amount).filter(|sum| *sum <= self.most);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.ok().map(|_| Taken { of: self, amount })
    }
}

#[derive(Debug)]
pub(super) struct Taken<'g> {
    of: &'g Gauge,
    amount: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}
