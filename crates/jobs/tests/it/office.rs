use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino_tempfile::Utf8TempDir;
use model::{Clock, ManualClock, SignedDuration};
use nacre_jobs::{Config, Context, Job, JobError, Retry, Runner, row};
use serde::{Deserialize, Serialize};
use store::{Location, Store};
use tokio::sync::Notify;

/// What jobs do in these tests, and what they did.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// Each run, in order: key and payload.
    done: Mutex<Vec<String>>,
    /// Keys, in the order in which they began.
    began: Mutex<Vec<String>>,
    /// How many runs of a job there are now, and the most that ever were.
    at_once: Mutex<BTreeMap<String, (usize, usize)>>,
    pub(crate) begun: AtomicUsize,
    pub(crate) go_on: Notify,
}

impl Desk {
    pub(crate) fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    pub(crate) fn began(&self) -> Vec<String> {
        self.began.lock().unwrap().clone()
    }

    fn enters(&self, key: &str, number: u32) -> Leaves<'_> {
        let job = format!("{key} {number}");
        let mut at_once = self.at_once.lock().unwrap();
        let (now, most) = at_once.entry(job.clone()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        self.began.lock().unwrap().push(key.to_owned());
        self.begun.fetch_add(1, Ordering::SeqCst);
        Leaves { desk: self, job }
    }

    pub(crate) fn most_at_once(&self) -> usize {
        let at_once = self.at_once.lock().unwrap();
        at_once.values().map(|(_, most)| *most).max().unwrap_or(0)
    }
}

struct Leaves<'a> {
    desk: &'a Desk,
    job: String,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        let mut at_once = self.desk.at_once.lock().unwrap();
        if let Some((now, _)) = at_once.get_mut(&self.job) {
            *now -= 1;
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) key: String,
    pub(crate) number: u32,
    pub(crate) how: How,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum How {
    Well,
    Retry,
    GiveUp,
    Panic,
    /// Fails so often, then goes well.
    Retries(u64),
    /// Until it is told to go on.
    Wait,
    /// Until the program is to end, and then in an orderly way.
    UntilShutdown,
    /// For a moment, so that others could come between.
    Briefly,
}

impl Job<Desk> for Task {
    const KIND: &'static str = "task";
    const AT_ONCE: usize = 4;
    const RETRY: Retry = Retry {
        attempts: 3,
        first: Duration::from_secs(5),
        longest: Duration::from_mins(1),
    };

    fn key(&self) -> String {
        self.key.clone()
    }

    async fn run(self, context: &Context<Desk>) -> Result<(), JobError> {
        let desk = &context.app;
        let _leaves = desk.enters(&self.key, self.number);
        let told = format!("{} {} #{}", self.key, self.number, context.attempt);
        match self.how {
            How::Retry => return Err(JobError::retry(anyhow::anyhow!("not today").context("no"))),
            How::GiveUp => return Err(JobError::give_up("never")),
            How::Panic => panic!("oh"),
            How::Retries(times) if context.attempt <= times => {
                return Err(JobError::retry("not yet"));
            }
            How::Well | How::Retries(_) => {}
            How::Wait => desk.go_on.notified().await,
            How::UntilShutdown => {
                context.shutdown.cancelled().await;
                return Err(JobError::Interrupted);
            }
            How::Briefly => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        desk.done.lock().unwrap().push(told);
        Ok(())
    }
}

pub(crate) struct Office {
    pub(crate) store: Store,
    pub(crate) desk: Arc<Desk>,
    pub(crate) clock: Arc<ManualClock>,
    _directory: Utf8TempDir,
}

impl Office {
    pub(crate) async fn open() -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let location = Location::File(directory.path().join("nacre.db"));
        let store = Store::open(&store::Config::new(location)).await.unwrap();
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        Self {
            store,
            desk: Arc::default(),
            clock: Arc::new(ManualClock::starting_at(start)),
            _directory: directory,
        }
    }

    /// Quick, so that tests are.
    pub(crate) fn config() -> Config {
        Config {
            lease: Duration::from_millis(300),
            poll: Duration::from_millis(20),
            drain: Duration::from_secs(20),
            keep_failed: Duration::from_hours(1),
        }
    }

    pub(crate) fn runner(&self) -> Runner<Desk> {
        self.runner_with(Self::config())
    }

    pub(crate) fn runner_with(&self, config: Config) -> Runner<Desk> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let (store, desk) = (self.store.clone(), Arc::clone(&self.desk));
        Runner::new(store, desk, clock, config, "test").with::<Task>()
    }

    pub(crate) async fn put(&self, key: &str, number: u32, how: How, after: i64) {
        let task = Task {
            key: key.to_owned(),
            number,
            how,
        };
        let run_at = self.clock.now() + SignedDuration::from_secs(after);
        let mut tx = self.store.begin().await.unwrap();
        tx.enqueue(&row(&task, run_at, &*self.clock)).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// What is in the queue.
    pub(crate) async fn rows(&self) -> Vec<String> {
        let rows = self.store.list_jobs("task", 100).await.unwrap();
        let mut told: Vec<String> = rows
            .iter()
            .map(|row| {
                let task: Task = serde_json::from_str(&row.payload).unwrap();
                let standing = match (row.leased_until, row.failed_at) {
                    (Some(_), _) => "running".to_owned(),
                    (None, Some(_)) => format!("failed ({})", row.reason.as_deref().unwrap()),
                    (None, None) => "queued".to_owned(),
                };
                format!("{} {} #{} {standing}", row.key, task.number, row.attempt)
            })
            .collect();
        told.sort();
        told
    }
}

/// Waits for something that can be seen.
pub(crate) async fn until(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !seen().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(30);
    assert!(tokio::time::timeout(limit, looking).await.is_ok(), "{what}");
}
