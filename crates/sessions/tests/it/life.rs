use model::Origin;
use model::session::{ClientStatus, PauseReason, Refused, StopReason, SuspendReason};
use nacre_sessions::HubError;
use provider::{Provider as _, ProviderError, SandboxState};

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
async fn a_migration_that_fails_leaves_the_session_where_it_was() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    world
        .fake
        .fail_next("ensure", ProviderError::refused("no room"));
    let still = session.migrate().await.unwrap();
    assert_eq!(still, before);
    within("it runs", || async {
        let all = world.sandboxes().await;
        matches!(&all[..], [one] if one.state == SandboxState::Running)
    })
    .await;
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
