//! A durable, delayed queue of jobs over the store.
//!
//! A [`Job`] is a value that is written down and run later, at least once: it must be safe to run
//! twice. Of those with one kind and key, one waits; another takes its place, so that moving a
//! deadline is scheduling it again. [`row`] makes what a transaction puts into the queue, beside
//! the change it is about; a [`Runner`] runs what is due.
//!
//! ```text
//!            due, claimed                Ok
//!  queued ─────────────────► running ──────────► gone
//!    ▲                          │
//!    │   Retry, panic, lease over    GiveUp, or tried too often
//!    └──────────────────────────┴──────────────► failed, until it is forgotten
//! ```
//!
//! ```
//! use nacre_jobs::{Context, Job, JobError};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Expire {
//!     session: String,
//! }
//!
//! struct App;
//!
//! impl Job<App> for Expire {
//!     const KIND: &'static str = "expire";
//!
//!     fn key(&self) -> String {
//!         self.session.clone()
//!     }
//!
//!     async fn run(self, context: &Context<App>) -> Result<(), JobError> {
//!         let _ = (&context.app, context.attempt);
//!         Ok(())
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod lost;
mod retry;
mod runner;
mod running;

use std::error::Error;
use std::future::Future;
use std::sync::Arc;

use model::{Clock, Id, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use store::jobs::NewJob;
use tokio_util::sync::CancellationToken;

pub use retry::Retry;
pub use runner::{Config, Runner};

/// Something to be done later. `A` is what all jobs of a program work with.
pub trait Job<A>: Serialize + DeserializeOwned + Send + 'static {
    /// Kept with the row: it does not change.
    const KIND: &'static str;
    /// How many of this kind a runner runs at once.
    const AT_ONCE: usize = 8;
    /// How often it is tried, and how long apart.
    const RETRY: Retry = Retry::USUAL;

    /// Of jobs of this kind with one key, one waits.
    fn key(&self) -> String;

    /// At least once. Dropped where it waits when its lease is lost.
    fn run(self, context: &Context<A>) -> impl Future<Output = Result<(), JobError>> + Send;
}

/// What a job has at hand.
#[derive(Debug)]
pub struct Context<A> {
    pub app: Arc<A>,
    pub clock: Arc<dyn Clock>,
    /// From 1.
    pub attempt: u64,
    /// A long job ends at its next safe point when this is cancelled, with
    /// [`JobError::Interrupted`].
    pub shutdown: CancellationToken,
}

/// Whether to try again is the job's to say: the queue cannot know.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("it may work another time")]
    Retry(#[source] Box<dyn Error + Send + Sync>),
    #[error("it will not work another time")]
    GiveUp(#[source] Box<dyn Error + Send + Sync>),
    /// Not tried, or not to its end, because the program ends. Another will run it.
    #[error("the program ends")]
    Interrupted,
}

impl JobError {
    pub fn retry(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Retry(error.into())
    }

    pub fn give_up(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::GiveUp(error.into())
    }
}

impl From<store::Error> for JobError {
    fn from(error: store::Error) -> Self {
        Self::retry(error)
    }
}

/// What a transaction puts into the queue.
pub fn row<A, J: Job<A>>(job: &J, run_at: Timestamp, clock: &dyn Clock) -> NewJob {
    NewJob {
        id: Id::new(clock),
        kind: J::KIND.to_owned(),
        key: job.key(),
        payload: serde_json::to_string(job).expect("a job has string keys and does not fail"),
        run_at,
        at: clock.now(),
    }
}
