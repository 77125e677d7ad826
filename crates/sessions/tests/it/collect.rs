//! Disks that nobody goes on from any more.

use std::collections::BTreeSet;
use std::time::Duration;

use model::SnapshotId;
use model::session::{PauseReason, StopReason};
use nacre_sessions::{Handle, Settings};
use provider::fake::Fake;
use provider::{Capability, ProviderError};
use store::prompts::Status;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::prompts::{is, prompt};
use crate::world::{World, quick, within};

/// Each pause leaves a disk there.
async fn without_pause(settings: Settings) -> World {
    let fake = Fake::builder().without(Capability::Pause).build();
    World::set(fake, settings).await
}

fn last(session: &Handle) -> SnapshotId {
    session.seen().borrow().snapshot.clone().unwrap()
}

#[tokio::test]
async fn what_a_deleted_session_had_is_given_back() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    world.sessions.delete(session.session()).await.unwrap();
    within("nothing is left", || async {
        world.sandboxes().await.is_empty() && world.fake.snapshots().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_session_is_deleted_however_many_open_it_meanwhile() {
    let world = World::new().await;
    let mut crowd = JoinSet::new();
    let (ids, _) = watch::channel(None);
    for _ in 0..8 {
        let (sessions, ids) = (world.sessions.clone(), ids.subscribe());
        crowd.spawn(async move {
            loop {
                let id = *ids.borrow();
                if let Some(id) = id {
                    let _ = sessions.open(id).await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    for _ in 0..20 {
        let session = world.session().await;
        session.ensure_ready().await.unwrap();
        ids.send_replace(Some(session.session()));
        world.sessions.delete(session.session()).await.unwrap();
    }
    crowd.shutdown().await;
}

#[tokio::test]
async fn a_deleted_session_leaves_what_was_asked_for_and_what_others_go_on_from() {
    let world = World::new().await;
    let session = world.session().await;
    session
        .prompt(prompt("p", "write note.txt kept"))
        .await
        .unwrap();
    is(&world, &session, "p", Status::Finished).await;
    let asked_for = session.snapshot().await.unwrap();
    let parent = session.session();
    let fork = world.sessions.fork(parent, None, None).await.unwrap();
    world.sessions.delete(parent).await.unwrap();
    within("the rest is given back", || async {
        world.sandboxes().await.is_empty() && world.fake.snapshots().await.len() == 2
    })
    .await;
    assert!(world.fake.snapshots().await.contains(&asked_for));
    let fork = world.sessions.open(fork).await.unwrap();
    let place = fork.ensure_ready().await.unwrap();
    assert_eq!(world.read(place.sandbox, "note.txt").await, "kept");
}

#[tokio::test]
async fn of_ten_pauses_the_last_disks_are_kept() {
    let settings = Settings {
        snapshots: 2,
        ..quick()
    };
    let world = without_pause(settings).await;
    let session = world.session().await;
    let mut taken = Vec::new();
    for _ in 0..10 {
        session.ensure_ready().await.unwrap();
        session.pause(PauseReason::Manual).await.unwrap();
        taken.push(last(&session));
        world.sessions.collect().await.unwrap();
        world.sessions.seal_orphans().await;
    }
    let expected: BTreeSet<SnapshotId> = taken[8..].iter().cloned().collect();
    assert_eq!(world.fake.snapshots().await, expected);
    // Nor is anything left of the sandboxes that they were.
    assert!(world.sandboxes().await.len() <= 1);
    session.ensure_ready().await.unwrap();
}

#[tokio::test]
async fn a_stopped_session_keeps_its_last_disk() {
    let settings = Settings {
        snapshots: 1,
        ..quick()
    };
    let world = without_pause(settings).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.stop(StopReason::Manual).await.unwrap();
    session.is_over().await.unwrap();
    world.sessions.seal_orphans().await;
    world.sessions.collect().await.unwrap();
    assert!(world.sandboxes().await.is_empty());
    let kept = BTreeSet::from([last(&session)]);
    assert_eq!(world.fake.snapshots().await, kept);
    let fork = world.sessions.fork(session.session(), None, None).await;
    let fork = world.sessions.open(fork.unwrap()).await.unwrap();
    fork.ensure_ready().await.unwrap();
}

#[tokio::test]
async fn a_provider_that_does_not_give_it_up_is_asked_again() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let why = ProviderError::unavailable("the fake", "out for lunch");
    world.fake.fail_next("delete_snapshot", why);
    world.sessions.delete(session.session()).await.unwrap();
    within("it is asked again", || async {
        world.sessions.collect().await.unwrap();
        world.fake.snapshots().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn nobody_begins_from_what_was_given_up() {
    let world = without_pause(quick()).await;
    let session = world.session().await;
    let mut taken = Vec::new();
    for _ in 0..2 {
        session.ensure_ready().await.unwrap();
        session.pause(PauseReason::Manual).await.unwrap();
        taken.push(last(&session));
    }
    let mut tx = world.store.begin().await.unwrap();
    let now = model::Clock::now(&model::SystemClock);
    for (snapshot, is_given_up) in taken.iter().zip([true, false]) {
        let given_up = tx
            .give_up_snapshot(&snapshot.to_string(), store::snapshots::Needed::ByAny, now)
            .await
            .unwrap();
        assert_eq!(given_up, is_given_up, "{snapshot}");
    }
    tx.commit().await.unwrap();
    let parent = session.session();
    let refused = world.sessions.fork(parent, Some(taken[0].clone()), None);
    assert!(refused.await.is_err());
    world
        .sessions
        .fork(parent, Some(taken[1].clone()), None)
        .await
        .unwrap();
}

#[tokio::test]
async fn memory_is_given_up_before_its_provider_does_so_by_itself() {
    let settings = Settings {
        paused: Duration::from_hours(3),
        sweep: Duration::from_millis(50),
        ..quick()
    };
    let fake = Fake::builder().holding_memory_for(Duration::from_millis(200));
    let world = World::set(fake.build(), settings).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    within("it is on disk", || async {
        world.sessions.store_held().await.unwrap();
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    session.ensure_ready().await.unwrap();
    let told = world.told(session.session(), "status").await;
    let resumed = told.iter().find(|told| told["status"] == "resuming");
    assert_eq!(resumed.unwrap()["message"], "from disk");
}
