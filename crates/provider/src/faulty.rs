//! A provider whose answers go wrong where a test wants it.

use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use async_trait::async_trait;
use model::{SnapshotId, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::{
    Alive, Capabilities, Door, Edge, Endpoints, Ensured, Exec, ExecSpec, FileStream, Health,
    Measured, Pass, Provider, ProviderError, Receipt, Refusals, Resumed, Sandbox, SandboxId,
    SandboxSpec, Stream,
};

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not done, and says so.
    Fail,
    /// It is done, and its answer is lost.
    Lose,
    /// It is not done, and never answers.
    Hang,
    /// It is done, and never answers.
    HangAfter,
}

/// After how many bytes from inside a connection breaks.
type Cuts = Box<dyn FnMut() -> Option<u64> + Send>;
type Plan = Box<dyn FnMut(&'static str) -> Option<Fault> + Send>;

/// Does all that `inner` does, but for what the plan spoils.
pub struct Faulty {
    inner: Arc<dyn Provider>,
    plan: Mutex<Plan>,
    cuts: Arc<Mutex<Cuts>>,
    /// Told for each fault.
    spoiled: Notify,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl Faulty {
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self {
            inner,
            plan: Mutex::new(Box::new(|_| None)),
            cuts: Arc::new(Mutex::new(Box::new(|| None))),
            spoiled: Notify::new(),
        }
    }

    /// From now on: asked with the name of the operation, at each call.
    pub fn spoil(&self, plan: impl FnMut(&'static str) -> Option<Fault> + Send + 'static) {
        *self.plan.lock().expect("no holder panics") = Box::new(plan);
    }

    pub fn spoil_nothing(&self) {
        self.spoil(|_| None);
    }

    /// From now on: asked for each connection that somebody inside makes to a door.
    pub fn cut(&self, cuts: impl FnMut() -> Option<u64> + Send + 'static) {
        *self.cuts.lock().expect("no holder panics") = Box::new(cuts);
    }

    /// Until a call is spoiled that nobody has been told of.
    pub async fn spoiled(&self) {
        self.spoiled.notified().await;
    }

    async fn around<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        let fault = (self.plan.lock().expect("no holder panics"))(operation);
        let Some(fault) = fault else {
            return work.await;
        };
        if matches!(fault, Fault::Lose | Fault::HangAfter) {
            let _ = work.await;
        }
        self.spoiled.notify_one();
        match fault {
            Fault::Fail => Err(ProviderError::unavailable(operation, "a fault")),
            Fault::Lose => Err(ProviderError::unavailable(operation, "a lost answer")),
            Fault::Hang | Fault::HangAfter => pending().await,
        }
    }
}

#[async_trait]
impl Provider for Faulty {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn holds_memory_for(&self) -> Option<Duration> {
        self.inner.holds_memory_for()
    }

    async fn ensure(&self, spec: &SandboxSpec) -> Result<Ensured, ProviderError> {
        self.around("ensure", self.inner.ensure(spec)).await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.around("create", self.inner.create(spec)).await
    }

    async fn terminate(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.around("terminate", self.inner.terminate(id)).await
    }

    async fn stop(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.around("stop", self.inner.stop(id)).await
    }

    async fn remove(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.around("remove", self.inner.remove(id)).await
    }

    async fn snapshot(&self, id: SandboxId, name: Option<&str>) -> Result<Receipt, ProviderError> {
        self.around("snapshot", self.inner.snapshot(id, name)).await
    }

    async fn pause(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.around("pause", self.inner.pause(id)).await
    }

    async fn resume(&self, id: SandboxId) -> Result<Resumed, ProviderError> {
        self.around("resume", self.inner.resume(id)).await
    }

    async fn fork(&self, id: SandboxId, count: usize) -> Result<Vec<Sandbox>, ProviderError> {
        self.around("fork", self.inner.fork(id, count)).await
    }

    async fn extend(&self, id: SandboxId, until: Timestamp) -> Result<Timestamp, ProviderError> {
        self.around("extend", self.inner.extend(id, until)).await
    }

    async fn exec(&self, id: SandboxId, spec: ExecSpec) -> Result<Exec, ProviderError> {
        self.around("exec", self.inner.exec(id, spec)).await
    }

    async fn read_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
    ) -> Result<FileStream, ProviderError> {
        self.around("read_files", self.inner.read_files(id, path, user))
            .await
    }

    async fn write_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
        files: FileStream,
    ) -> Result<(), ProviderError> {
        self.around("write_files", self.inner.write_files(id, path, user, files))
            .await
    }

    async fn dial(&self, id: SandboxId, port: u16) -> Result<Box<dyn Stream>, ProviderError> {
        self.around("dial", self.inner.dial(id, port)).await
    }

    async fn serve(&self, id: SandboxId, name: &str) -> Result<Box<dyn Door>, ProviderError> {
        let door = self.around("serve", self.inner.serve(id, name)).await?;
        Ok(Box::new(FaultyDoor {
            door,
            cuts: Arc::clone(&self.cuts),
        }))
    }

    async fn endpoints(&self, id: SandboxId) -> Result<Endpoints, ProviderError> {
        self.around("endpoints", self.inner.endpoints(id)).await
    }

    async fn alive(&self, ids: &[SandboxId]) -> Result<Vec<(SandboxId, Alive)>, ProviderError> {
        self.around("alive", self.inner.alive(ids)).await
    }

    async fn health(&self) -> Health {
        self.inner.health().await
    }

    async fn edge(&self, id: SandboxId) -> Result<Option<Edge>, ProviderError> {
        self.around("edge", self.inner.edge(id)).await
    }

    async fn let_out(&self, id: SandboxId, passes: &[Pass]) -> Result<(), ProviderError> {
        self.around("let_out", self.inner.let_out(id, passes)).await
    }

    async fn refusals(
        &self,
        id: SandboxId,
        since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        self.around("refusals", self.inner.refusals(id, since))
            .await
    }

    async fn tend(&self) -> Result<(), ProviderError> {
        self.around("tend", self.inner.tend()).await
    }

    async fn list(&self, labels: &[(String, String)]) -> Result<Vec<Sandbox>, ProviderError> {
        self.around("list", self.inner.list(labels)).await
    }

    async fn snapshot_memory(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.around("snapshot_memory", self.inner.snapshot_memory(id))
            .await
    }

    async fn restore_memory(
        &self,
        snapshot: &SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        self.around("restore_memory", self.inner.restore_memory(snapshot, spec))
            .await
    }

    async fn measure(&self, snapshot: &SnapshotId) -> Result<Option<Measured>, ProviderError> {
        self.around("measure", self.inner.measure(snapshot)).await
    }

    async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), ProviderError> {
        self.around("delete_snapshot", self.inner.delete_snapshot(snapshot))
            .await
    }
}

struct FaultyDoor {
    door: Box<dyn Door>,
    cuts: Arc<Mutex<Cuts>>,
}

impl fmt::Debug for FaultyDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.door.fmt(f)
    }
}

#[async_trait]
impl Door for FaultyDoor {
    async fn accept(&mut self) -> Result<Box<dyn Stream>, ProviderError> {
        let stream = self.door.accept().await?;
        let left = (self.cuts.lock().expect("no holder panics"))();
        Ok(match left {
            Some(left) => Box::new(Cut { stream, left }),
            None => stream,
        })
    }
}

/// A connection that breaks, with what was sent and not read.
struct Cut {
    stream: Box<dyn Stream>,
    left: u64,
}

impl AsyncRead for Cut {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let got = buffer.filled().len().saturating_sub(before) as u64;
        self.left = self.left.saturating_sub(got);
        read
    }
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
