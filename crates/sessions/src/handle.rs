use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::session::{
    ClientStatus, Fault, PauseReason, Place, Refused, Rest, StopReason, SuspendReason,
};
use model::{Id, Origin, Session, SnapshotId};
use store::Event;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::hub::{Command, Reply};

/// A live session. Clones lead to the same hub, which ends when it is told to or loses its term.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) session: Id<Session>,
    pub(crate) term: u64,
    /// The name of the provider whose sandboxes it has.
    pub(crate) provider: Arc<str>,
    pub(crate) clients: Arc<AtomicUsize>,
    pub(crate) inbox: mpsc::Sender<Command>,
    pub(crate) seen: watch::Receiver<Seen>,
    pub(crate) events: broadcast::Sender<Event>,
}

/// What is to be seen of a session from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub status: ClientStatus,
    pub place: Option<Place>,
    pub snapshot: Option<SnapshotId>,
}

/// See [`Handle::attend`].
#[derive(Debug)]
pub struct Attendance(Arc<AtomicUsize>);

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It was tried, and did not come about. The session is as before, or rests.
    #[error("{}", .0.message)]
    Failed(Fault),
    /// This process does not own the session any more: open it again.
    #[error("the session has another owner")]
    Gone,
    #[error("the session cannot be written")]
    Store(#[from] store::Error),
    #[error("no provider is called `{0}`")]
    NoProvider(String),
}

impl Handle {
    pub fn session(&self) -> Id<Session> {
        self.session
    }

    /// Under which it owns the session.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The sandbox that serves the session. Whoever asks while one is on its way waits for that.
    pub async fn ensure_ready(&self) -> Result<Place, HubError> {
        self.ask(Command::EnsureReady).await
    }

    pub async fn pause(&self, reason: PauseReason) -> Result<(), HubError> {
        self.ask(|reply| Command::Rest(Rest::Paused(reason), reply))
            .await
    }

    pub async fn suspend(&self, reason: SuspendReason) -> Result<(), HubError> {
        self.ask(|reply| Command::Rest(Rest::Suspended(reason), reply))
            .await
    }

    /// What suspended it is gone.
    pub async fn clear(&self) -> Result<(), HubError> {
        self.ask(Command::Clear).await
    }

    /// Consents to what a degraded session lost, and starts it from `origin`.
    pub async fn recover(&self, origin: Origin) -> Result<Place, HubError> {
        self.ask(|reply| Command::Recover(origin, reply)).await
    }

    /// To another sandbox, with all it has on its disk.
    pub async fn migrate(&self) -> Result<Place, HubError> {
        self.ask(Command::Migrate).await
    }

    /// A snapshot of the running sandbox, which goes on.
    pub async fn snapshot(&self) -> Result<SnapshotId, HubError> {
        self.ask(Command::Snapshot).await
    }

    /// For good. Answered when that is written; its sandbox is ended and its disk sealed after.
    pub async fn stop(&self, reason: StopReason) -> Result<(), HubError> {
        self.ask(|reply| Command::Stop(reason, reply)).await
    }

    /// Now, and whenever it changes.
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    /// Numbered events from now on, each committed before. One who falls behind reads the log.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Somebody is there for as long as this is held: a sandbox that ends is moved then, and not
    /// paused.
    pub fn attend(&self) -> Attendance {
        self.clients.fetch_add(1, Ordering::Relaxed);
        Attendance(Arc::clone(&self.clients))
    }

    pub fn is_gone(&self) -> bool {
        self.inbox.is_closed()
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, HubError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(command(reply))
            .await
            .map_err(|_| HubError::Gone)?;
        answer.await.unwrap_or(Err(HubError::Gone))
    }
}
