//! When a job runs, how often, and which of several.

use crate::office::{How, Office};

#[tokio::test]
async fn a_job_runs_when_it_is_due_and_is_gone_then() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::Well, 10).await;
    office.advance(9);
    assert_eq!(runner.run_due().await.unwrap(), 0);
    office.advance(1);
    assert_eq!(runner.run_due().await.unwrap(), 1);
    assert_eq!(office.desk.done(), ["a 1 #1"]);
    assert!(office.rows().await.is_empty());
    assert_eq!(runner.run_due().await.unwrap(), 0);
}

#[tokio::test]
async fn scheduled_again_while_it_waits_it_moves() {
    let office = Office::open().await;
    office.put("a", 1, How::Well, 10).await;
    office.put("a", 2, How::Well, 60).await;
    office.advance(30);
    assert_eq!(office.runner().run_due().await.unwrap(), 0);
    office.advance(30);
    office.runner().run_due().await.unwrap();
    assert_eq!(office.desk.done(), ["a 2 #1"]);
}

#[tokio::test]
async fn jobs_that_are_due_run_the_longest_due_first() {
    let office = Office::open().await;
    for (key, after) in [("a", 3), ("b", 1), ("c", 2)] {
        office.put(key, 1, How::Briefly, after).await;
    }
    office.advance(3);
    office.runner().run_due().await.unwrap();
    assert_eq!(office.desk.began(), ["b", "c", "a"]);
}

#[tokio::test]
async fn what_fails_is_tried_again_later_and_then_kept_as_failed() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::Retry, 0).await;
    runner.run_due().await.unwrap();
    assert_eq!(office.rows().await, ["a 1 #1 queued"]);
    assert_eq!(runner.run_due().await.unwrap(), 0, "not at once");
    // Five seconds, a fifth more or less, then twice that.
    office.advance(6);
    runner.run_due().await.unwrap();
    office.advance(7);
    assert_eq!(runner.run_due().await.unwrap(), 0, "later each time");
    office.advance(5);
    runner.run_due().await.unwrap();
    assert_eq!(office.rows().await, ["a 1 #3 failed (no: not today)"]);
    office.advance(600);
    assert_eq!(runner.run_due().await.unwrap(), 0);
}

#[tokio::test]
async fn what_fails_and_then_goes_well_leaves_nothing() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::Retries(2), 0).await;
    for _ in 0..3 {
        runner.run_due().await.unwrap();
        office.advance(60);
    }
    assert_eq!(office.desk.done(), ["a 1 #3"]);
    assert!(office.rows().await.is_empty());
}

#[tokio::test]
async fn what_gives_up_is_not_tried_again() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::GiveUp, 0).await;
    runner.run_due().await.unwrap();
    assert_eq!(office.rows().await, ["a 1 #1 failed (never)"]);
    // Its key is free.
    office.put("a", 2, How::Well, 0).await;
    runner.run_due().await.unwrap();
    assert_eq!(office.desk.done(), ["a 2 #1"]);
    assert_eq!(office.rows().await, ["a 1 #1 failed (never)"]);
}

#[tokio::test]
async fn a_panic_is_a_failure_of_its_job_alone() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::Panic, 0).await;
    office.put("b", 1, How::Well, 0).await;
    runner.run_due().await.unwrap();
    assert_eq!(office.desk.done(), ["b 1 #1"]);
    for _ in 0..2 {
        office.advance(60);
        runner.run_due().await.unwrap();
    }
    assert_eq!(office.rows().await, ["a 1 #3 failed (it panicked: oh)"]);
}

#[tokio::test]
async fn a_payload_that_nobody_can_read_is_given_up() {
    let office = Office::open().await;
    let mut tx = office.store.begin().await.unwrap();
    let mut row = nacre_jobs::row::<crate::office::Desk, _>(
        &crate::office::Task {
            key: "a".to_owned(),
            number: 1,
            how: How::Well,
        },
        model::Clock::now(&*office.clock),
        &*office.clock,
    );
    row.payload = "{}".to_owned();
    tx.enqueue(&row).await.unwrap();
    tx.commit().await.unwrap();
    office.runner().run_due().await.unwrap();
    let rows = office.store.list_jobs("task", 10).await.unwrap();
    assert!(rows[0].failed_at.is_some());
    assert!(rows[0].reason.as_deref().unwrap().contains("missing field"));
}

#[tokio::test]
async fn a_clock_that_jumps_back_delays_and_one_that_jumps_on_hurries() {
    let office = Office::open().await;
    let runner = office.runner();
    office.put("a", 1, How::Well, 10).await;
    office.advance(-3600);
    assert_eq!(runner.run_due().await.unwrap(), 0);
    office.put("b", 1, How::Well, 0).await;
    assert_eq!(runner.run_due().await.unwrap(), 1);
    office.advance(7200);
    assert_eq!(runner.run_due().await.unwrap(), 1);
    assert_eq!(office.desk.done(), ["b 1 #1", "a 1 #1"]);
}
