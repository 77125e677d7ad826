use model::Origin;
use model::session::{ClientStatus, PauseReason, Refused, StopReason, SuspendReason};
use nacre_sessions::HubError;
use provider::fake::Fake;
use provider::{Capability, Provider as _, ProviderError, SandboxState};
use store::snapshots::Kept;

use crate::world::{World, within};

#[tokio::test]
async fn however_many_ask_one_sandbox_is_made() {
    let world = World::new().await;
    let session = world.session().await;
    let asked = (0..20).map(|_| {
        let session = session.clone();
        async move { session.ensure_ready().await.unwrap() }
    });
    let places = futures::future::join_all(asked).await;
    assert!(places.windows(2).all(|two| two[0] == two[1]), "{places:?}");
    assert_eq!(world.sandboxes().await.len(), 1);
    assert_eq!(world.history(session.session()).await, "running");
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
}

#[tokio::test]
async fn a_pause_in_place_keeps_the_sandbox_and_its_generation() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    let after = session.ensure_ready().await.unwrap();
    assert_eq!(after, before);
    assert_eq!(
        world.history(session.session()).await,
        "running > paused > resuming > running"
    );
}

#[tokio::test]
async fn who_comes_while_it_is_being_paused_gets_it_after() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let (paused, ready) = tokio::join!(session.pause(PauseReason::Manual), session.ensure_ready());
    // Which of the two was heard first is theirs to know; it runs in the end.
    paused.unwrap();
    ready.unwrap();
    session.ensure_ready().await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
    assert_eq!(world.sandboxes().await.len(), 1);
}

#[tokio::test]
async fn a_suspended_session_gives_up_its_memory_and_waits_for_its_reason_to_go() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    session.suspend(SuspendReason::CreditLimit).await.unwrap();
    assert!(matches!(
        session.ensure_ready().await,
        Err(HubError::Refused(Refused::Suspended))
    ));
    within("its disk is sealed", || async {
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    session.clear().await.unwrap();
    let after = session.ensure_ready().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
}

#[tokio::test]
async fn a_session_that_never_ran_is_suspended_with_nothing_to_keep() {
    let world = World::new().await;
    let session = world.session().await;
    let kept = session.suspend(SuspendReason::CreditLimit).await.unwrap();
    assert_eq!(kept, None);
    assert_eq!(session.seen().borrow().status, ClientStatus::Suspended);
}

#[tokio::test]
async fn a_pause_without_memory_is_told_from_one_with_it() {
    let world = World::with(Fake::builder().without(Capability::Pause).build()).await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    let receipt = session.pause(PauseReason::Manual).await.unwrap();
    assert_eq!(receipt.kept, Kept::Disk);
    let after = session.ensure_ready().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
}

#[tokio::test]
async fn a_move_that_does_not_come_about_is_told_to_all_and_the_session_runs_on() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    world
        .fake
        .fail_next("ensure", ProviderError::refused("no room"));
    let moved = session.migrate().await;
    assert!(matches!(moved, Err(HubError::Failed(_))), "{moved:?}");
    assert_eq!(session.ensure_ready().await.unwrap(), before);
    within("it runs", || async {
        let all = world.sandboxes().await;
        matches!(&all[..], [one] if one.state == SandboxState::Running)
    })
    .await;
    let told = world.store.events_after(session.session(), 0, 1000).await;
    let Ok(store::Replay::Events { events, .. }) = told else {
        panic!("{told:?}");
    };
    let mut told = events.iter().filter(|event| event.kind == "error");
    let told = told.next().unwrap();
    assert!(told.body.contains("move-failed") && told.body.contains("no room"));
}

#[tokio::test]
async fn a_fork_of_a_session_that_is_just_stopped_has_its_last_files() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    session.stop(StopReason::Manual).await.unwrap();
    // Whether or not its disk is sealed by now.
    let fork = world.sessions.fork(session.session(), None, None).await;
    let fork = world.sessions.open(fork.unwrap()).await.unwrap();
    let forked = fork.ensure_ready().await.unwrap();
    assert_ne!(forked.sandbox, place.sandbox);
    assert!(fork.seen().borrow().snapshot.is_some());
}

#[tokio::test]
async fn a_start_tells_its_phases_in_order() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let phases = world.store.last_phases(session.session()).await.unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| &*phase.name).collect();
    assert_eq!(names[..4], ["context", "origin", "sandbox", "link"]);
}

#[tokio::test]
async fn a_boot_that_fails_is_told_and_may_be_tried_again() {
    let world = World::new().await;
    let session = world.session().await;
    world
        .fake
        .fail_next("ensure", ProviderError::refused("no room"));
    let failed = session.ensure_ready().await.unwrap_err();
    assert_eq!(failed.to_string(), "no room");
    assert_eq!(session.seen().borrow().status, ClientStatus::Error);
    session.ensure_ready().await.unwrap();
    assert_eq!(
        world.history(session.session()).await,
        "error > creating > running"
    );
}

#[tokio::test]
async fn what_cannot_be_restored_is_not_given_up_without_consent() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.suspend(SuspendReason::Administrator).await.unwrap();
    within("its disk is sealed", || async {
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    session.clear().await.unwrap();
    let snapshot = session.seen().borrow().snapshot.clone().unwrap();
    world.fake.delete_snapshot(&snapshot).await.unwrap();
    session.ensure_ready().await.unwrap_err();
    assert_eq!(session.seen().borrow().status, ClientStatus::Degraded);
    assert!(matches!(
        session.ensure_ready().await,
        Err(HubError::Refused(Refused::Degraded))
    ));
    let made = world.sandboxes().await.len();
    session.recover(Origin::Bare).await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
    assert_eq!(world.sandboxes().await.len(), made + 1);
}

#[tokio::test]
async fn a_disk_that_is_damaged_is_told_and_nothing_is_put_in_its_place() {
    let world = World::with(Fake::builder().without(Capability::Pause).build()).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    let snapshot = session.seen().borrow().snapshot.clone().unwrap();
    let damaged = ProviderError::damaged(format!("snapshot {snapshot}"), "a layer of it is gone");
    world.fake.fail_next("ensure", damaged);
    let made = world.sandboxes().await.len();
    session.ensure_ready().await.unwrap_err();
    assert_eq!(session.seen().borrow().status, ClientStatus::Degraded);
    assert_eq!(world.sandboxes().await.len(), made);
    let told = world.told(session.session(), "status").await;
    let message = told.last().unwrap()["message"].as_str().unwrap();
    assert!(message.contains("a layer of it is gone"), "{message}");
}

#[tokio::test]
async fn a_migration_ends_on_a_new_sandbox_with_the_same_disk() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    let after = session.migrate().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
    assert_ne!(after.sandbox, before.sandbox);
    within("the old one is gone", || async {
        world.sandboxes().await.len() == 1
    })
    .await;
    assert_eq!(
        world.history(session.session()).await,
        "running > migrating > running"
    );
}

#[tokio::test]
async fn a_stopped_session_stays_stopped_and_its_disk_is_kept() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.stop(StopReason::Manual).await.unwrap();
    within("its disk is sealed", || async {
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    assert!(matches!(
        session.ensure_ready().await,
        Err(HubError::Refused(Refused::Stopped))
    ));
    session.stop(StopReason::Manual).await.unwrap();
}
