//! What happens to a session by itself: sandboxes die, and providers end them.

use std::time::Duration;

use model::session::ClientStatus;
use provider::Provider as _;
use provider::fake::Fake;

use crate::prompts::prompt;
use crate::world::{World, within};

/// Its last tenth is enough to move in, on a machine that has other things to do.
const LIFETIME: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_sandbox_that_dies_leaves_its_disk_to_the_session() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    world.fake.terminate(before.sandbox).await.unwrap();
    world.sessions.observe().await;
    within("it is seen", || async {
        session.seen().borrow().status == ClientStatus::Paused
    })
    .await;
    assert!(session.seen().borrow().snapshot.is_some());
    let after = session.ensure_ready().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
    assert_eq!(
        world.history(session.session()).await,
        "running > paused > resuming > running"
    );
}

#[tokio::test]
async fn a_sandbox_that_died_while_nobody_owned_the_session_is_found_by_who_takes_over() {
    let world = World::new().await;
    let session = world.session().await;
    let before = session.ensure_ready().await.unwrap();
    world.sessions.shut_down().await;
    world.fake.terminate(before.sandbox).await.unwrap();
    let other = world.another("second");
    let taken = other.open(session.session()).await.unwrap();
    within("it is found", || async {
        taken.seen().borrow().status == ClientStatus::Paused
    })
    .await;
    let after = taken.ensure_ready().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
}

#[tokio::test]
async fn a_session_that_loses_its_sandboxes_in_a_row_cools_until_somebody_resumes_it() {
    let world = World::new().await;
    let session = world.session().await;
    session.prompt(prompt("first", "wait 60000")).await.unwrap();
    for number in 0..3 {
        let place = session.ensure_ready().await.unwrap();
        let next = format!("next-{number}");
        session.prompt(prompt(&next, "wait 60000")).await.unwrap();
        world.fake.terminate(place.sandbox).await.unwrap();
        within("its end is seen", || async {
            world.sessions.observe().await;
            session.seen().borrow().place != Some(place)
        })
        .await;
    }
    within("it is said", || async {
        let told = world.told(session.session(), "error").await;
        told.iter().any(|error| error["code"] == "cooling")
    })
    .await;
    // What waits does not wake it, and neither does what is asked now.
    session.prompt(prompt("last", "say on")).await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    session.ensure_ready().await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
}

#[tokio::test]
async fn a_provider_out_of_reach_is_not_a_death() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    world.fake.outage(true);
    world.sessions.observe().await;
    world.fake.outage(false);
    assert_eq!(session.ensure_ready().await.unwrap(), place);
    assert_eq!(world.history(session.session()).await, "running");
}

#[tokio::test]
async fn a_sandbox_is_kept_for_longer_where_that_can_be() {
    let fake = Fake::builder().expiring_in(LIFETIME);
    let world = World::with(fake.build()).await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    within("it is asked for", || async {
        world
            .fake
            .calls()
            .iter()
            .any(|call| call.operation == "extend")
    })
    .await;
    // Past its first end.
    tokio::time::sleep(LIFETIME).await;
    assert_eq!(session.ensure_ready().await.unwrap(), place);
    assert_eq!(world.history(session.session()).await, "running");
}

fn short_lived() -> Fake {
    Fake::builder()
        .expiring_in(LIFETIME)
        .max_lifetime(LIFETIME)
        .build()
}

#[tokio::test]
async fn a_session_that_somebody_is_in_moves_on_before_its_sandbox_ends() {
    let world = World::with(short_lived()).await;
    let session = world.session().await;
    let first = session.ensure_ready().await.unwrap();
    let _here = session.attend();
    within("the third sandbox", || async {
        let place = session.seen().borrow().place;
        place.is_some_and(|place| place.generation.0 >= first.generation.0 + 2)
    })
    .await;
    let history = world.history(session.session()).await;
    assert!(
        history.starts_with("running > migrating > running > migrating > running"),
        "{history}"
    );
}

#[tokio::test]
async fn a_session_that_nobody_is_in_rests_before_its_sandbox_ends() {
    let world = World::with(short_lived()).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    within("it rests", || async {
        session.seen().borrow().status == ClientStatus::Paused
    })
    .await;
    assert_eq!(world.history(session.session()).await, "running > paused");
}
