use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::{Clock, Id, SignedDuration, Timestamp};
use store::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Job;
use crate::lost::Watch;
use crate::retry::{chance, spread};
use crate::running::{Handler, Run};

#[derive(Debug, Clone)]
pub struct Config {
    /// How long a job is a worker's without a word. Renewed three times as often.
    pub lease: Duration,
    /// How often to look without being told.
    pub poll: Duration,
    /// How long what runs may take to end, once the program is to end.
    pub drain: Duration,
    /// How long failures are kept.
    pub keep_failed: Duration,
}

impl Config {
    pub fn usual() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            drain: Duration::from_secs(30),
            keep_failed: Duration::from_hours(7 * 24),
        }
    }
}

/// Runs what is due, of the kinds that it knows.
pub struct Runner<A> {
    store: Store,
    app: Arc<A>,
    clock: Arc<dyn Clock>,
    config: Config,
    /// Ours alone, in this life of the program.
    owner: Arc<str>,
    kinds: BTreeMap<&'static str, Handler<A>>,
}

impl<A> fmt::Debug for Runner<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("owner", &self.owner)
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

impl<A: Send + Sync + 'static> Runner<A> {
    /// `name` says to people where it runs.
    pub fn new(
        store: Store,
        app: Arc<A>,
        clock: Arc<dyn Clock>,
        config: Config,
        name: &str,
    ) -> Self {
        let unique: Id<model::Boot> = Id::new(&*clock);
        let name: String = name.chars().take(64).collect();
        Self {
            store,
            app,
            config,
            owner: format!("{name} {unique}").into(),
            clock,
            kinds: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn with<J: Job<A>>(mut self) -> Self {
        self.kinds.insert(J::KIND, Handler::of::<J>());
        self
    }

    /// Until `shutdown`; then no more is begun, and what runs is waited for.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut work = Work {
            running: JoinSet::new(),
            counts: BTreeMap::new(),
            soft: shutdown.child_token(),
            insist: CancellationToken::new(),
        };
        let mut watch = Watch::new(self.config.lease * 2 / 3);
        while !shutdown.is_cancelled() {
            if let Err(error) = self.look(&mut work, &mut watch).await {
                let error = &error as &dyn Error;
                tracing::warn!(error, "the queue cannot be read");
            }
            let pause = self.pause(&work).await;
            tokio::select! {
                () = shutdown.cancelled() => {}
                // What came while we looked is remembered.
                () = self.store.job_queued() => {}
                () = tokio::time::sleep(pause) => {}
                () = work.one_ends() => {}
            }
        }
        self.drain(work).await;
    }

    /// Runs all that is due now to its end, and what they put in that is due too. For those who
    /// hold the clock: answers how many runs it took.
    pub async fn run_due(&self) -> Result<usize, store::Error> {
        let mut runs = 0;
        loop {
            let mut work = Work {
                running: JoinSet::new(),
                counts: BTreeMap::new(),
                soft: CancellationToken::new(),
                insist: CancellationToken::new(),
            };
            self.claim(&mut work).await?;
            if work.running.is_empty() {
                return Ok(runs);
            }
            runs += work.running.len();
            while !work.running.is_empty() {
                work.one_ends().await;
            }
        }
    }

    async fn look(&self, work: &mut Work, watch: &mut Watch) -> Result<(), store::Error> {
        watch.look(&self.store, &*self.clock, &self.owner).await?;
        let keep = SignedDuration::try_from(self.config.keep_failed).unwrap_or(SignedDuration::MAX);
        if let Ok(before) = self.clock.now().checked_sub(keep) {
            self.store.forget_failed_jobs(before).await?;
        }
        self.claim(work).await
    }

    async fn claim(&self, work: &mut Work) -> Result<(), store::Error> {
        for (kind, handler) in &self.kinds {
            let running = work.counts.get(kind).copied().unwrap_or(0);
            let free = handler.at_once.saturating_sub(running);
            let Some(free) = u32::try_from(free).ok().filter(|free| *free > 0) else {
                continue;
            };
            let now = self.clock.now();
            let lease = SignedDuration::try_from(self.config.lease).unwrap_or(SignedDuration::MAX);
            let until = now.checked_add(lease).unwrap_or(Timestamp::MAX);
            let claimed = self
                .store
                .claim_jobs(kind, &self.owner, now, until, free)
                .await?;
            for job in claimed {
                *work.counts.entry(kind).or_default() += 1;
                let run = Run {
                    store: self.store.clone(),
                    clock: Arc::clone(&self.clock),
                    app: Arc::clone(&self.app),
                    owner: Arc::clone(&self.owner),
                    lease: self.config.lease,
                    handler: *handler,
                    job,
                    shutdown: work.soft.clone(),
                    insist: work.insist.clone(),
                };
                let kind = *kind;
                work.running.spawn(async move {
                    run.run().await;
                    kind
                });
            }
        }
        Ok(())
    }

    /// Until the next is due, but no longer than a poll: clocks jump, and other processes put jobs
    /// in without telling us.
    async fn pause(&self, work: &Work) -> Duration {
        let poll = spread(self.config.poll, chance());
        let free: Vec<&str> = self
            .kinds
            .iter()
            .filter(|(kind, handler)| {
                work.counts.get(*kind).copied().unwrap_or(0) < handler.at_once
            })
            .map(|(kind, _)| *kind)
            .collect();
        match self.store.next_job_at(&free).await {
            Ok(Some(at)) => {
                let wait = at.duration_since(self.clock.now());
                Duration::try_from(wait).unwrap_or(Duration::ZERO).min(poll)
            }
            Ok(None) | Err(_) => poll,
        }
    }

    async fn drain(&self, mut work: Work) {
        let ended = tokio::time::timeout(self.config.drain, async {
            while !work.running.is_empty() {
                work.one_ends().await;
            }
        });
        if ended.await.is_ok() {
            return;
        }
        for (kind, count) in work.counts.iter().filter(|(_, count)| **count > 0) {
            tracing::warn!(kind, count, "still running; given back to the queue");
        }
        work.insist.cancel();
        while !work.running.is_empty() {
            work.one_ends().await;
        }
    }
}

/// What runs now.
struct Work {
    running: JoinSet<&'static str>,
    counts: BTreeMap<&'static str, usize>,
    soft: CancellationToken,
    insist: CancellationToken,
}

impl Work {
    /// For ever, when nothing runs.
    async fn one_ends(&mut self) {
        match self.running.join_next().await {
            Some(Ok(kind)) => {
                if let Some(count) = self.counts.get_mut(kind) {
                    *count = count.saturating_sub(1);
                }
            }
            // A job's panic is caught inside; this is one of our own.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            None => std::future::pending().await,
        }
    }
}
