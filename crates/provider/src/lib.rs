//! The provider contract: what something must do to run sandboxes for Nacre.
//!
//! [`Provider`] is the trait; [`Capabilities`] says what one can do, and callers ask it instead of
//! knowing names; [`ProviderError`] has exactly the distinctions callers act on.

#![forbid(unsafe_code)]

mod capability;
#[cfg(feature = "contract")]
pub mod contract;
mod error;
mod exec;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(feature = "fake")]
pub mod faulty;
mod files;
#[cfg(feature = "probe")]
pub mod probe;
mod spec;
mod way_out;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use model::{Id, SnapshotId, Timestamp};
use tokio::io::{AsyncRead, AsyncWrite};

pub use capability::{Capabilities, Capability, Isolation, Limits, Strength, Survives};
pub use error::{BoxError, ProviderError};
pub use exec::{EXEC_QUEUE, Exec, ExecInput, ExecOutput, ExecSpec, Exit, Finished, WindowSize};
pub use files::{FileEntry, FileEvent, FileKind, FileStream, files_from};
pub use spec::{
    Alive, Edge, Endpoints, Ensured, Expected, Forward, Health, Kept, LinkBy, Measured, Network,
    Origin, Receipt, Resumed, Runtime, Sandbox, SandboxSpec, SandboxState, Workplace,
};
pub use way_out::{Blocked, Pass, Refusals};

pub type SandboxId = Id<model::Sandbox>;

/// A connection to something inside a sandbox, or from it.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The host's end of a door: connections that the sandbox makes.
#[async_trait]
pub trait Door: Send + fmt::Debug {
    async fn accept(&mut self) -> Result<Box<dyn Stream>, ProviderError>;
}

/// Something that runs sandboxes. Every answer about a sandbox comes from what is really there:
/// adapters keep nothing between calls, so one instance or many behave alike.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// `local`, `docker`, `e2b`, …
    fn name(&self) -> &str;

    fn capabilities(&self) -> &Capabilities;

    /// What it can do with a sandbox of this runtime, for a provider that has several.
    fn capabilities_under(&self, _runtime: Runtime) -> &Capabilities {
        self.capabilities()
    }

    /// A paused sandbox has its memory for so long, where that ends by itself.
    fn holds_memory_for(&self) -> Option<Duration> {
        None
    }

    /// Finds the sandbox that carries `spec.key`, or makes one. A paused one is resumed; one whose
    /// processes are gone is started again on the disk it left. The only way in for sessions.
    async fn ensure(&self, spec: &SandboxSpec) -> Result<Ensured, ProviderError>;

    /// Always a new sandbox.
    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError>;

    /// Ends the processes and leaves the disk. Twice, or for an unknown id, is fine.
    async fn terminate(&self, id: SandboxId) -> Result<(), ProviderError>;

    /// Ends the processes and seals the disk as a snapshot. Twice gives the same receipt.
    async fn stop(&self, id: SandboxId) -> Result<Receipt, ProviderError>;

    /// Ends the processes and gives up the disk. Snapshots taken from it stay.
    async fn remove(&self, id: SandboxId) -> Result<(), ProviderError>;

    /// A disk snapshot; the sandbox goes on.
    async fn snapshot(&self, id: SandboxId, name: Option<&str>) -> Result<Receipt, ProviderError>;

    /// Freezes in place; wakes from the same id.
    async fn pause(&self, id: SandboxId) -> Result<Receipt, ProviderError>;

    async fn resume(&self, id: SandboxId) -> Result<Resumed, ProviderError>;

    /// `count` new sandboxes that start from what `id` has on disk now.
    async fn fork(&self, id: SandboxId, count: usize) -> Result<Vec<Sandbox>, ProviderError>;

    /// Moves the end of the sandbox's life to `until`, or as near as the provider allows.
    async fn extend(&self, id: SandboxId, until: Timestamp) -> Result<Timestamp, ProviderError>;

    /// Starts a command. It ends when the returned handle is dropped, unless it is detached.
    async fn exec(&self, id: SandboxId, spec: ExecSpec) -> Result<Exec, ProviderError>;

    /// Everything below `path`, or the one file it names; paths in the stream are relative to it.
    /// A missing path is an empty stream.
    async fn read_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
    ) -> Result<FileStream, ProviderError>;

    /// Writes the entries below `path`, which is made if need be.
    async fn write_files(
        &self,
        id: SandboxId,
        path: &[u8],
        user: Option<&str>,
        files: FileStream,
    ) -> Result<(), ProviderError>;

    /// A stream to a port on the sandbox's loopback. A paused sandbox refuses; it never hangs.
    async fn dial(&self, id: SandboxId, port: u16) -> Result<Box<dyn Stream>, ProviderError>;

    /// A listener of ours that appears in the sandbox as the unix socket `/run/nacre/NAME`.
    async fn serve(&self, id: SandboxId, name: &str) -> Result<Box<dyn Door>, ProviderError>;

    async fn endpoints(&self, id: SandboxId) -> Result<Endpoints, ProviderError>;

    /// Which of these run, are paused, or are gone. No side effects; an error is not a death.
    async fn alive(&self, ids: &[SandboxId]) -> Result<Vec<(SandboxId, Alive)>, ProviderError>;

    /// Never fails: says what is wrong instead.
    async fn health(&self) -> Health;

    /// What lets in at the edge ports of a sandbox, if it has a workplace.
    async fn edge(&self, _id: SandboxId) -> Result<Option<Edge>, ProviderError> {
        Ok(None)
    }

    /// What a sandbox with [`Network::Proxy`] may reach beyond what it was made with: all of it, in
    /// the place of what was said before. It may be paused; it holds from the next connection on.
    async fn let_out(&self, _id: SandboxId, _passes: &[Pass]) -> Result<(), ProviderError> {
        Err(ProviderError::Unsupported(Capability::Egress))
    }

    /// What its way out refused since the mark of an earlier look.
    async fn refusals(
        &self,
        _id: SandboxId,
        _since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        Err(ProviderError::Unsupported(Capability::Egress))
    }

    /// Starts again what keeps its sandboxes and was killed. Asked now and then by whoever runs
    /// sessions; most have nothing of the kind.
    async fn tend(&self) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Every sandbox that carries all these labels.
    async fn list(&self, labels: &[(String, String)]) -> Result<Vec<Sandbox>, ProviderError>;

    /// Disk and memory; the sandbox goes on.
    async fn snapshot_memory(&self, id: SandboxId) -> Result<Receipt, ProviderError>;

    async fn restore_memory(
        &self,
        snapshot: &SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError>;

    /// What is in a snapshot, read now if nobody has yet: that may take long. None where the provider
    /// cannot say.
    async fn measure(&self, _snapshot: &SnapshotId) -> Result<Option<Measured>, ProviderError> {
        Ok(None)
    }

    /// Not-found is fine. Sandboxes and snapshots that build on it keep what they need.
    async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), ProviderError>;
}
