use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use model::{Clock, SignedDuration, Timestamp};
use store::Store;
use store::jobs::{Claimed, Heard, PutBack};
use tokio_util::sync::CancellationToken;

use crate::retry::chance;
use crate::{Context, Job, JobError, Retry};

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), JobError>> + Send + 'a>>;

/// What is known of a kind of job.
pub(crate) struct Handler<A> {
    pub(crate) at_once: usize,
    pub(crate) retry: Retry,
    start: for<'a> fn(String, &'a Context<A>) -> Running<'a>,
}

impl<A> Clone for Handler<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Handler<A> {}

impl<A> fmt::Debug for Handler<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("at_once", &self.at_once)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

impl<A: Send + Sync + 'static> Handler<A> {
    pub(crate) fn of<J: Job<A>>() -> Self {
        Self {
            at_once: J::AT_ONCE.max(1),
            retry: J::RETRY,
            start: |payload, context| {
                Box::pin(async move {
                    let job: J = serde_json::from_str(&payload).map_err(JobError::give_up)?;
                    job.run(context).await
                })
            },
        }
    }
}

/// One claimed job on its way.
pub(crate) struct Run<A> {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) app: Arc<A>,
    pub(crate) owner: Arc<str>,
    pub(crate) lease: Duration,
    pub(crate) handler: Handler<A>,
    pub(crate) job: Claimed,
    pub(crate) shutdown: CancellationToken,
    /// Not even a safe point is waited for.
    pub(crate) insist: CancellationToken,
}

enum Outcome {
    Done,
    Retry(String),
    GiveUp(String),
    Interrupted,
    /// Somebody else has it now.
    Lost,
}

impl<A: Send + Sync + 'static> Run<A> {
    pub(crate) async fn run(self) {
        let outcome = self.outcome().await;
        let told = self.tell(&outcome).await;
        let (job, kind) = (self.job.id, &self.job.kind);
        match (told, outcome) {
            // The lease runs out, and it is run again.
            (Err(error), _) => {
                let error = &error as &dyn Error;
                tracing::warn!(%job, kind, error, "its end could not be written down");
            }
            (Ok(Heard::TooLate), _) | (_, Outcome::Lost) => {
                tracing::warn!(%job, kind, "its lease was lost");
            }
            (Ok(_), Outcome::GiveUp(reason)) => tracing::warn!(%job, kind, reason, "failed"),
            (Ok(_), Outcome::Retry(reason)) => tracing::info!(%job, kind, reason, "put back"),
            (Ok(_), Outcome::Done | Outcome::Interrupted) => {}
        }
    }

    async fn outcome(&self) -> Outcome {
        let attempts = self.handler.retry.attempts;
        if self.job.attempt > attempts {
            // Its workers died of it, or with it.
            let last = self.job.reason.as_deref().unwrap_or("no reason is known");
            return Outcome::GiveUp(format!("tried {attempts} times; {last}"));
        }
        let context = Context {
            app: Arc::clone(&self.app),
            clock: Arc::clone(&self.clock),
            attempt: self.job.attempt,
            shutdown: self.shutdown.clone(),
        };
        let work = (self.handler.start)(self.job.payload.clone(), &context);
        tokio::select! {
            ended = AssertUnwindSafe(work).catch_unwind() => match ended {
                Ok(Ok(())) => Outcome::Done,
                Ok(Err(JobError::Retry(error))) => Outcome::Retry(chain(error.as_ref())),
                Ok(Err(JobError::GiveUp(error))) => Outcome::GiveUp(chain(error.as_ref())),
                Ok(Err(JobError::Interrupted)) => Outcome::Interrupted,
                Err(panic) => Outcome::Retry(format!("it panicked: {}", said(panic.as_ref()))),
            },
            () = self.keep_lease() => Outcome::Lost,
            () = self.insist.cancelled() => Outcome::Interrupted,
        }
    }

    /// Ends when the lease is somebody else's.
    async fn keep_lease(&self) {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            let until = self.until();
            match self.store.renew_job(&self.job, &self.owner, until).await {
                Ok(Heard::Yes | Heard::Superseded) => {}
                Ok(Heard::TooLate) => return,
                // Others see the lease run out, if it goes on.
                Err(error) => {
                    let error = &error as &dyn Error;
                    tracing::warn!(job = %self.job.id, error, "its lease cannot be renewed");
                }
            }
        }
    }

    fn until(&self) -> Timestamp {
        self.after(self.lease)
    }

    fn after(&self, wait: Duration) -> Timestamp {
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        self.clock.now().checked_add(wait).unwrap_or(Timestamp::MAX)
    }

    async fn tell(&self, outcome: &Outcome) -> Result<Heard, store::Error> {
        let (store, job, owner) = (&self.store, &self.job, &*self.owner);
        match outcome {
            Outcome::Done => store.finish_job(job, owner).await,
            Outcome::GiveUp(reason) => store.fail_job(job, owner, reason, self.clock.now()).await,
            Outcome::Retry(reason) => match self.handler.retry.after(job.attempt, chance()) {
                Some(wait) => {
                    let why = PutBack::Failed { reason };
                    store.put_back_job(job, owner, self.after(wait), why).await
                }
                None => store.fail_job(job, owner, reason, self.clock.now()).await,
            },
            Outcome::Interrupted => {
                let now = self.clock.now();
                store.put_back_job(job, owner, now, PutBack::Unbegun).await
            }
            Outcome::Lost => Ok(Heard::TooLate),
        }
    }
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn said(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without words")
}
