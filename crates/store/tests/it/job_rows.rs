//! The rows under the queue. How jobs are run is tested where they are run.

use model::{Id, Job, SystemClock, Timestamp};
use nacre_store::jobs::{Claimed, Heard, NewJob, PutBack};

use crate::world::{World, seconds};

stories! {
    a_second_takes_the_place_of_the_first_while_it_waits,
    while_one_runs_the_same_key_makes_a_new_row,
    what_goes_back_gives_way_to_a_newer_one,
    who_lost_the_lease_is_not_heard,
    a_renewed_lease_is_not_lost,
    two_who_claim_get_different_jobs,
    failures_stay_until_they_are_forgotten,
    a_rolled_back_job_was_never_there,
    jobs_go_with_their_session,
    what_was_not_begun_does_not_count,
}

fn job(world: &World, key: &str, payload: &str, run_at: Timestamp) -> NewJob {
    NewJob {
        id: Id::<Job>::new(&SystemClock),
        kind: "k".to_owned(),
        key: key.to_owned(),
        payload: payload.to_owned(),
        run_at,
        at: world.now(),
    }
}

async fn enqueue(world: &World, key: &str, payload: &str, run_at: Timestamp) {
    let mut tx = world.store.begin().await.unwrap();
    let job = job(world, key, payload, run_at);
    tx.enqueue(&job).await.unwrap();
    tx.commit().await.unwrap();
}

async fn claim(world: &World, owner: &str) -> Vec<Claimed> {
    let (now, soon) = (world.now(), world.soon());
    world
        .store
        .claim_jobs("k", owner, now, soon, 10)
        .await
        .unwrap()
}

async fn rows(world: &World) -> Vec<String> {
    let rows = world.store.list_jobs("k", 100).await.unwrap();
    let told = rows.iter().map(|row| {
        let standing = match (row.leased_until, row.failed_at) {
            (Some(_), _) => "running",
            (None, Some(_)) => "failed",
            (None, None) => "queued",
        };
        format!("{} {} {standing} {}", row.key, row.payload, row.attempt)
    });
    let mut told: Vec<String> = told.collect();
    told.sort();
    told
}

async fn a_second_takes_the_place_of_the_first_while_it_waits(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    enqueue(&world, "a", "2", world.now() + seconds(60)).await;
    enqueue(&world, "b", "1", world.now()).await;
    assert_eq!(rows(&world).await, ["a 2 queued 0", "b 1 queued 0"]);
    let claimed = claim(&world, "w").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].key, "b");
    let next = world.store.next_job_at(&["k", "other"]).await.unwrap();
    assert_eq!(next, Some(world.now() + seconds(60)));
}

async fn while_one_runs_the_same_key_makes_a_new_row(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    let running = claim(&world, "w").await;
    enqueue(&world, "a", "2", world.now()).await;
    enqueue(&world, "a", "3", world.now()).await;
    assert_eq!(rows(&world).await, ["a 1 running 1", "a 3 queued 0"]);
    let heard = world.store.finish_job(&running[0], "w").await.unwrap();
    assert_eq!(heard, Heard::Yes);
    assert_eq!(rows(&world).await, ["a 3 queued 0"]);
}

async fn what_goes_back_gives_way_to_a_newer_one(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    let running = claim(&world, "w").await;
    let why = PutBack::Failed { reason: "no" };
    let back = || world.store.put_back_job(&running[0], "w", world.now(), why);
    enqueue(&world, "a", "2", world.now()).await;
    assert_eq!(back().await.unwrap(), Heard::Superseded);
    assert_eq!(rows(&world).await, ["a 2 queued 0"]);
    assert_eq!(back().await.unwrap(), Heard::TooLate);
}

async fn who_lost_the_lease_is_not_heard(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    let first = claim(&world, "w").await.remove(0);
    assert_eq!(world.store.lost_jobs(world.now()).await.unwrap(), []);
    world.clock.advance(seconds(31));
    let lost = world.store.lost_jobs(world.now()).await.unwrap();
    let requeued = world
        .store
        .requeue_job(&lost[0], world.now())
        .await
        .unwrap();
    assert_eq!(requeued, Heard::Yes);
    let second = claim(&world, "w").await.remove(0);
    assert_eq!(second.attempt, 2);
    assert_eq!(second.reason.as_deref(), Some("w did not say how it ended"));
    let store = &world.store;
    let (now, why) = (world.now(), PutBack::Unbegun);
    assert_eq!(store.finish_job(&first, "w").await.unwrap(), Heard::TooLate);
    assert_eq!(
        store.fail_job(&first, "w", "no", now).await.unwrap(),
        Heard::TooLate
    );
    assert_eq!(
        store.renew_job(&first, "w", now).await.unwrap(),
        Heard::TooLate
    );
    assert_eq!(
        store.put_back_job(&first, "w", now, why).await.unwrap(),
        Heard::TooLate
    );
    assert_eq!(rows(&world).await, ["a 1 running 2"]);
    assert_eq!(store.finish_job(&second, "w").await.unwrap(), Heard::Yes);
}

async fn a_renewed_lease_is_not_lost(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    let running = claim(&world, "w").await.remove(0);
    world.clock.advance(seconds(31));
    let lost = world.store.lost_jobs(world.now()).await.unwrap();
    let renewed = world.store.renew_job(&running, "w", world.soon()).await;
    assert_eq!(renewed.unwrap(), Heard::Yes);
    let requeued = world
        .store
        .requeue_job(&lost[0], world.now())
        .await
        .unwrap();
    assert_eq!(requeued, Heard::TooLate);
    assert_eq!(rows(&world).await, ["a 1 running 1"]);
}

async fn two_who_claim_get_different_jobs(world: World) {
    for number in 0..30 {
        enqueue(&world, &number.to_string(), "{}", world.now()).await;
    }
    let claims = (0..6).map(|_| async { claim(&world, "w").await });
    let claimed = futures::future::join_all(claims).await;
    let mut keys: Vec<i32> = claimed
        .iter()
        .flatten()
        .map(|job| job.key.parse().unwrap())
        .collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..30).collect::<Vec<i32>>());
}

async fn failures_stay_until_they_are_forgotten(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    let running = claim(&world, "w").await.remove(0);
    let long = "\u{1f980}\0".repeat(2000);
    let failed = world
        .store
        .fail_job(&running, "w", &long, world.now())
        .await;
    assert_eq!(failed.unwrap(), Heard::Yes);
    enqueue(&world, "a", "2", world.now()).await;
    assert_eq!(rows(&world).await, ["a 1 failed 1", "a 2 queued 0"]);
    assert_eq!(
        world.store.forget_failed_jobs(world.now()).await.unwrap(),
        0
    );
    let later = world.now() + seconds(1);
    assert_eq!(world.store.forget_failed_jobs(later).await.unwrap(), 1);
    assert_eq!(rows(&world).await, ["a 2 queued 0"]);
}

async fn a_rolled_back_job_was_never_there(world: World) {
    let mut tx = world.store.begin().await.unwrap();
    let job = job(&world, "a", "1", world.now());
    tx.enqueue(&job).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(rows(&world).await.is_empty());
    assert_eq!(world.store.next_job_at(&["k"]).await.unwrap(), None);
}

async fn jobs_go_with_their_session(world: World) {
    let (gone, kept) = (world.session().await, world.session().await);
    for (fence, key) in [(gone, "gone"), (kept, "kept")] {
        let write = world
            .write(fence)
            .enqueue(job(&world, key, "1", world.now()));
        world.store.append(write).await.unwrap();
    }
    let mut tx = world.store.begin().await.unwrap();
    tx.fenced(gone)
        .await
        .unwrap()
        .delete(world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rows(&world).await, ["kept 1 queued 0"]);
    let write = world.write(kept).cancel_jobs();
    world.store.append(write).await.unwrap();
    assert!(rows(&world).await.is_empty());
}

async fn what_was_not_begun_does_not_count(world: World) {
    enqueue(&world, "a", "1", world.now()).await;
    for _ in 0..3 {
        let claimed = claim(&world, "w").await.remove(0);
        assert_eq!(claimed.attempt, 1);
        let back = world
            .store
            .put_back_job(&claimed, "w", world.now(), PutBack::Unbegun)
            .await;
        assert_eq!(back.unwrap(), Heard::Yes);
    }
}
