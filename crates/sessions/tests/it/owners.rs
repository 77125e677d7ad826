use model::session::{ClientStatus, PauseReason};
use nacre_sessions::{HubError, Settings};
use provider::fake::Fake;
use provider::{Origin, Provider as _, SandboxSpec};

use crate::world::{World, within};

#[tokio::test]
async fn an_owner_whose_lease_ran_out_can_do_nothing() {
    let mut world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    let other = world.another("second");
    world.stop_renewing().await;
    within("the lease runs out", || async {
        other.open(session.session()).await.is_ok()
    })
    .await;
    let taken = other.open(session.session()).await.unwrap();
    assert!(taken.term() > session.term());
    assert!(matches!(
        session.pause(PauseReason::Manual).await,
        Err(HubError::Gone)
    ));
    assert_eq!(taken.ensure_ready().await.unwrap(), place);
    assert_eq!(taken.seen().borrow().status, ClientStatus::Running);
}

#[tokio::test]
async fn a_session_that_is_let_go_is_taken_over_at_once() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    world.sessions.shut_down().await;
    let other = world.another("second");
    assert_eq!(other.adopt().await.unwrap(), 1);
    let taken = other.open(session.session()).await.unwrap();
    assert_eq!(taken.ensure_ready().await.unwrap(), place);
    assert_eq!(world.sandboxes().await.len(), 1);
}

#[tokio::test]
async fn while_a_lease_holds_nobody_else_gets_in() {
    let world = World::set(Fake::default(), Settings::usual()).await;
    let session = world.session().await;
    world.sessions.renew().await.unwrap();
    let other = world.another("second");
    let refused = other.open(session.session()).await.unwrap_err();
    assert!(
        matches!(&refused, HubError::Store(store::Error::Held { owner }) if owner == "first"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_sandbox_of_no_session_is_ended_and_its_disk_kept() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    let claimed = world.sandboxes().await;
    let spec = SandboxSpec {
        labels: claimed[0].labels.clone(),
        generation: 99,
        ..SandboxSpec::from(Origin::Bare)
    };
    let stranger = world.fake.create(&spec).await.unwrap();
    // It may be one that is about to be written.
    world.sessions.seal_orphans().await;
    assert!(is_alive(&world, stranger.id).await);
    let spec = SandboxSpec {
        generation: 0,
        ..spec
    };
    let orphan = world.fake.create(&spec).await.unwrap();
    world.sessions.seal_orphans().await;
    assert!(!is_alive(&world, orphan.id).await);
    assert!(is_alive(&world, place.sandbox).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_of_another_databases_session_is_no_orphan() {
    let fake = Fake::builder().build();
    let (ours, theirs) = (World::with(fake.clone()).await, World::with(fake).await);
    let session = theirs.session().await;
    let place = session.ensure_ready().await.unwrap();
    ours.sessions.seal_orphans().await;
    assert!(is_alive(&ours, place.sandbox).await);
}

async fn is_alive(world: &World, id: provider::SandboxId) -> bool {
    let answer = world.fake.alive(&[id]).await.unwrap();
    matches!(&answer[..], [(_, provider::Alive::Running)])
}
