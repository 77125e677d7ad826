//! Records and logs: what a session is and what happened in it, in SQLite or PostgreSQL.
//!
//! Whoever owns a session writes by a [`Fence`]: the term under which it owns it. A write of a term
//! that is over fails, whatever it says, in the transaction in which it would have been made. What
//! an owner has to say at once is a [`Write`]; those of many sessions are committed together by one
//! task, and each is answered after its commit.
//!
//! ```no_run
//! # async fn example(session: model::Id<model::Session>) -> Result<(), Box<dyn std::error::Error>> {
//! use model::{Clock, SignedDuration, SystemClock};
//! use nacre_store::{Config, NewEvent, Store, Write};
//!
//! let store = Store::open(&Config::new("sqlite:/var/lib/nacre/nacre.db".parse()?)).await?;
//! let now = SystemClock.now();
//! let until = now + SignedDuration::from_secs(30);
//! let fence = store.take_over(session, "this process", now, until).await?;
//! let event = NewEvent::from_json(r#"{"type":"title","title":"A better one"}"#)?;
//! let write = Write::new(fence, now).title("A better one").event(event);
//! let committed = store.append(write).await?;
//! assert_eq!(committed.events[0].seq, 1);
//! store.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! All SQL is in this crate, one file per noun, in what SQLite and PostgreSQL share; where they
//! differ is `dialect`.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod actions;
pub mod audit;
mod blocked;
pub mod channels;
mod columns;
mod connection;
mod dialect;
mod error;
pub mod evidence;
pub mod faults;
mod fence;
pub mod frames;
pub mod idempotency;
pub mod jobs;
pub mod last_faults;
pub mod leases;
pub mod limits;
mod log;
pub mod logins;
pub mod members;
mod migrate;
mod open;
pub mod phases;
mod projection;
pub mod prompts;
pub mod pulls;
pub mod repositories;
pub mod sandboxes;
pub mod secrets;
pub mod sessions;
pub mod setups;
pub mod shares;
pub mod snapshots;
mod state;
pub mod transcript;
mod tx;
pub mod uploads;
pub mod usage;
mod write;
mod writer;

use std::sync::Arc;

use tokio::sync::{Notify, RwLock, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use error::{Error, Result};
pub use fence::{Fence, Fenced};
pub use log::{Event, NewEvent, Replay};
pub use open::{Config, Durability, Location, LocationError, OpenError};
pub use projection::Role;
pub use state::StateColumns;
pub use tx::Tx;
pub use write::{Committed, Write};
pub use writer::Pending;

use crate::open::Database;

/// One database, opened. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) database: Arc<Database>,
    /// Told when a job was put into the queue.
    pub(crate) jobs: Arc<Notify>,
    /// None once it is closed.
    writes: Arc<RwLock<Option<mpsc::Sender<writer::Request>>>>,
    tasks: TaskTracker,
    /// The last one that is dropped ends it.
    _moving: Arc<DropGuard>,
    stop: CancellationToken,
}

impl Store {
    /// Opens it, makes it when it is missing, and brings its schema to ours.
    pub async fn open(config: &Config) -> Result<Self, OpenError> {
        let database = Arc::new(open::open(config).await?);
        let jobs = Arc::new(Notify::new());
        let (writes, requests) = mpsc::channel(writer::WAITING);
        let tasks = TaskTracker::new();
        tasks.spawn(writer::run(
            Arc::clone(&database),
            Arc::clone(&jobs),
            config.faults.clone(),
            requests,
        ));
        let stop = CancellationToken::new();
        let moving = open::keep_moving(Arc::clone(&database), stop.clone());
        tasks.spawn(moving);
        tasks.close();
        Ok(Self {
            _moving: Arc::new(stop.clone().drop_guard()),
            stop,
            database,
            jobs,
            writes: Arc::new(RwLock::new(Some(writes))),
            tasks,
        })
    }

    pub async fn begin(&self) -> Result<Tx> {
        Tx::begin(&self.database, &self.jobs).await
    }

    /// Hands a write in, and answers when it is committed.
    pub async fn append(&self, write: Write) -> Result<Committed> {
        self.submit(write).await?.await
    }

    /// Hands a write in. Those of one caller are committed in the order of their calls, and may be
    /// many at a time.
    pub async fn submit(&self, write: Write) -> Result<Pending> {
        let writes = self.writes.read().await;
        let Some(writes) = writes.as_ref() else {
            return Err(Error::Closed);
        };
        let (request, pending) = writer::Request::new(write);
        writes.send(request).await.map_err(|_| Error::Closed)?;
        Ok(pending)
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        tx::ping(&self.database).await
    }

    /// Commits what was handed in, takes no more, and leaves one file that can be copied.
    pub async fn close(&self) -> Result<()> {
        self.writes.write().await.take();
        self.stop.cancel();
        self.tasks.wait().await;
        open::close(&self.database).await
    }
}
