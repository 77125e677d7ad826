//! Workers that run, die, stall and end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{Clock as _, SignedDuration};
use nacre_jobs::Config;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::office::{How, Office, until};

struct Workers {
    running: JoinSet<()>,
    shutdown: CancellationToken,
}

impl Workers {
    fn start(office: &Office, count: usize, config: &Config) -> Self {
        let mut workers = Self {
            running: JoinSet::new(),
            shutdown: CancellationToken::new(),
        };
        for _ in 0..count {
            let runner = office.runner_with(config.clone());
            workers.running.spawn(runner.run(workers.shutdown.clone()));
        }
        workers
    }

    async fn end(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.unwrap();
        }
    }

    /// As a process that is killed: whatever it held stays held.
    async fn kill(mut self) {
        self.running.shutdown().await;
    }
}

async fn begun(office: &Office, count: usize) {
    until("jobs begin", async || {
        office.desk.begun.load(Ordering::SeqCst) >= count
    })
    .await;
}

#[tokio::test]
async fn a_worker_runs_what_is_put_in_at_once() {
    let office = Office::open().await;
    let config = Config {
        // Told, and not because it looked.
        poll: Duration::from_hours(1),
        ..Office::config()
    };
    let workers = Workers::start(&office, 1, &config);
    office.put("a", 1, How::Well, 0).await;
    until("the first", async || office.desk.done().len() == 1).await;
    office.put("b", 1, How::Well, 0).await;
    until("the second", async || office.desk.done().len() == 2).await;
    workers.end().await;
}

#[tokio::test]
async fn a_worker_finds_what_comes_due() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::Well, 60).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(office.desk.done().is_empty());
    office.advance(60);
    until("it is due", async || office.desk.done().len() == 1).await;
    workers.end().await;
}

#[tokio::test]
async fn scheduled_again_while_it_runs_it_runs_once_more() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    office.put("a", 2, How::Well, 3600).await;
    office.put("a", 3, How::Well, 3600).await;
    assert_eq!(office.rows().await, ["a 1 #1 running", "a 3 #0 queued"]);
    office.desk.go_on.notify_one();
    until("the first ends", async || office.desk.done().len() == 1).await;
    until("its row goes", async || {
        office.rows().await == ["a 3 #0 queued"]
    })
    .await;
    workers.end().await;
}

#[tokio::test]
async fn one_that_fails_gives_way_to_a_newer_one() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::UntilShutdown, 0).await;
    begun(&office, 1).await;
    office.put("a", 2, How::Well, 3600).await;
    workers.end().await;
    assert_eq!(office.rows().await, ["a 2 #0 queued"]);
}

#[tokio::test]
async fn two_workers_never_run_one_job_at_once() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 4, &Office::config());
    for round in 0..10 {
        for key in ["a", "b", "c", "d", "e", "f"] {
            office.put(key, round, How::Briefly, 0).await;
        }
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    until("all ran", async || office.rows().await.is_empty()).await;
    workers.end().await;
    let mut done = office.desk.done();
    let runs = done.len();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), runs, "none ran twice");
    assert!(done.iter().any(|run| run == "a 9 #1"), "the newest ran");
    assert_eq!(office.desk.most_at_once(), 1);
}

#[tokio::test]
async fn what_a_killed_worker_held_is_run_by_another() {
    let office = Office::open().await;
    let first = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    first.kill().await;
    assert_eq!(office.rows().await, ["a 1 #1 running"]);
    let second = Workers::start(&office, 1, &Office::config());
    // The lease ends by the clock, which stands still.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(office.rows().await, ["a 1 #1 running"]);
    office.advance(1);
    begun(&office, 2).await;
    office.desk.go_on.notify_waiters();
    office.desk.go_on.notify_one();
    until("it is done", async || office.desk.done() == ["a 1 #2"]).await;
    second.end().await;
    assert!(office.rows().await.is_empty());
}

#[tokio::test]
async fn a_job_that_kills_its_workers_is_given_up_in_the_end() {
    let office = Office::open().await;
    office.put("a", 1, How::Wait, 0).await;
    for attempt in 1..=3 {
        let workers = Workers::start(&office, 1, &Office::config());
        until("it is begun", async || {
            office.desk.begun.load(Ordering::SeqCst) == attempt
        })
        .await;
        workers.kill().await;
        office.advance(1);
    }
    let workers = Workers::start(&office, 1, &Office::config());
    until("it is given up", async || {
        office.rows().await.iter().any(|row| row.contains("failed"))
    })
    .await;
    workers.end().await;
    let rows = office.rows().await;
    assert!(rows[0].contains("tried 3 times"), "{rows:?}");
    assert_eq!(office.desk.begun.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_crash_between_running_and_saying_so_runs_it_again() {
    let office = Office::open().await;
    office.put("a", 1, How::Well, 0).await;
    let now = office.clock.now();
    let until_then = now + SignedDuration::from_secs(1);
    // A worker that ran it, and died before it said so.
    let claimed = office
        .store
        .claim_jobs("task", "dead", now, until_then, 1)
        .await;
    assert_eq!(claimed.unwrap().len(), 1);
    let workers = Workers::start(&office, 1, &Office::config());
    office.advance(1);
    until("again", async || office.desk.done() == ["a 1 #2"]).await;
    workers.end().await;
}

#[tokio::test]
async fn a_long_job_keeps_its_lease_and_a_jump_of_the_clock_does_not_take_it() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 3, &Office::config());
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    for _ in 0..4 {
        // As after a night asleep: every lease is over at once.
        office.advance(8 * 3600);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert_eq!(office.rows().await, ["a 1 #1 running"]);
    assert_eq!(office.desk.begun.load(Ordering::SeqCst), 1);
    office.desk.go_on.notify_one();
    until("it ends", async || office.rows().await.is_empty()).await;
    assert_eq!(office.desk.done(), ["a 1 #1"]);
    workers.end().await;
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_stops_and_is_not_heard() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    // Somebody else took it for lost.
    office.advance(3600);
    let now = office.clock.now();
    until("it is lost", async || {
        let lost = office.store.lost_jobs(office.clock.now()).await.unwrap();
        if let Some(lost) = lost.first() {
            let heard = office.store.requeue_job(lost, now).await.unwrap();
            return heard == store::jobs::Heard::Yes;
        }
        office.advance(3600);
        false
    })
    .await;
    // It is run again, by the same worker perhaps.
    begun(&office, 2).await;
    office.desk.go_on.notify_waiters();
    office.desk.go_on.notify_one();
    until("one of them ends", async || office.rows().await.is_empty()).await;
    workers.end().await;
    assert_eq!(office.desk.done().last().unwrap(), "a 1 #2");
}

#[tokio::test]
async fn the_end_of_the_program_waits_for_what_runs() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    let end = workers.end();
    tokio::pin!(end);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut end).await;
    assert!(early.is_err(), "it waits");
    office.put("b", 1, How::Well, 0).await;
    office.desk.go_on.notify_one();
    end.await;
    assert_eq!(office.desk.done(), ["a 1 #1"]);
    assert_eq!(office.rows().await, ["b 1 #0 queued"]);
}

#[tokio::test]
async fn what_does_not_end_in_time_goes_back_to_the_queue() {
    let office = Office::open().await;
    let config = Config {
        drain: Duration::from_millis(50),
        ..Office::config()
    };
    let workers = Workers::start(&office, 1, &config);
    office.put("a", 1, How::Wait, 0).await;
    begun(&office, 1).await;
    workers.end().await;
    assert_eq!(office.rows().await, ["a 1 #0 queued"]);
}

#[tokio::test]
async fn no_more_of_a_kind_run_at_once_than_it_allows() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    for key in ["a", "b", "c", "d", "e", "f"] {
        office.put(key, 1, How::Wait, 0).await;
    }
    begun(&office, 4).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(office.desk.begun.load(Ordering::SeqCst), 4);
    for ended in 1..=6 {
        office.desk.go_on.notify_one();
        until("one ends", async || office.desk.done().len() == ended).await;
    }
    workers.end().await;
}

#[tokio::test]
async fn failures_are_forgotten_after_their_time() {
    let office = Office::open().await;
    let workers = Workers::start(&office, 1, &Office::config());
    office.put("a", 1, How::GiveUp, 0).await;
    until("it failed", async || {
        office.rows().await == ["a 1 #1 failed (never)"]
    })
    .await;
    office.advance(3601);
    until("it is forgotten", async || office.rows().await.is_empty()).await;
    workers.end().await;
}
