//! Everything that a session does, done twice: one after the other, and at once.

use model::session::{ClientStatus, PauseReason, StopReason};
use nacre_sessions::Handle;
use provider::SandboxState;
use provider::fake::Fake;
use provider::faulty::{Fault, Faulty};
use std::sync::Arc;
use std::time::Duration;
use store::prompts::Status;

use crate::prompts::{is, prompt};
use crate::world::{World, within};

async fn with_a_file(world: &World) -> Handle {
    let session = world.session().await;
    session
        .prompt(prompt("first", "write note.txt kept"))
        .await
        .unwrap();
    is(world, &session, "first", Status::Finished).await;
    session
}

/// It runs, on one sandbox, with its file.
async fn is_whole(world: &World, session: &Handle) {
    let place = session.ensure_ready().await.unwrap();
    assert_eq!(world.read(place.sandbox, "note.txt").await, "kept");
    within("one sandbox is left", || async {
        let all = world.sandboxes().await;
        let alive = all
            .iter()
            .filter(|s| !matches!(s.state, SandboxState::Stopped { .. }));
        alive.count() == 1
    })
    .await;
}

#[tokio::test]
async fn a_start_twice_is_one_start() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let (one, other) = tokio::join!(session.ensure_ready(), session.ensure_ready());
    assert_eq!(one.unwrap(), other.unwrap());
    is_whole(&world, &session).await;
}

#[tokio::test]
async fn a_pause_twice_is_one_pause() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let pause = || session.pause(PauseReason::Manual);
    let (one, other) = tokio::join!(pause(), pause());
    // The second may find it paused already, and is told so.
    assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
    let _ = pause().await;
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    is_whole(&world, &session).await;
}

#[tokio::test]
async fn a_move_twice_at_once_is_one_move_and_twice_in_a_row_two() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let before = session.seen().borrow().place.unwrap();
    let (one, other) = tokio::join!(session.migrate(), session.migrate());
    let moved = one.or(other).unwrap();
    assert_eq!(moved.generation, before.generation.next());
    let again = session.migrate().await.unwrap();
    assert_eq!(again.generation, moved.generation.next());
    is_whole(&world, &session).await;
}

#[tokio::test]
async fn a_snapshot_twice_is_two_and_the_newest_counts() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let first = session.snapshot().await.unwrap();
    let second = session.snapshot().await.unwrap();
    assert_ne!(first, second);
    assert_eq!(session.seen().borrow().snapshot, Some(second));
    is_whole(&world, &session).await;
}

#[tokio::test]
async fn a_stop_twice_is_one_stop() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let stop = || session.stop(StopReason::Manual);
    let (one, other) = tokio::join!(stop(), stop());
    one.unwrap();
    other.unwrap();
    stop().await.unwrap();
    assert_eq!(session.seen().borrow().status, ClientStatus::Stopped);
}

#[tokio::test]
async fn two_forks_are_two_sessions_and_the_parent_runs_on() {
    let world = World::new().await;
    let session = with_a_file(&world).await;
    let fork = || world.sessions.fork(session.session(), None, None);
    let (one, other) = tokio::join!(fork(), fork());
    for id in [one.unwrap(), other.unwrap()] {
        let fork = world.sessions.open(id).await.unwrap();
        let place = fork.ensure_ready().await.unwrap();
        assert_eq!(world.read(place.sandbox, "note.txt").await, "kept");
    }
    assert_eq!(session.seen().borrow().status, ClientStatus::Running);
    assert_eq!(world.sandboxes().await.len(), 3);
}

#[tokio::test]
async fn a_fork_whose_snapshot_goes_wrong_in_any_way_can_be_made_again() {
    for fault in [Fault::Fail, Fault::Lose, Fault::Hang, Fault::HangAfter] {
        let world = World::new().await;
        let faulty = Arc::new(Faulty::new(Arc::new(world.fake.clone())));
        let process = world.process("a process", faulty.clone());
        let id = world.record().await;
        let session = process.open(id).await.unwrap();
        session
            .prompt(prompt("first", "write note.txt kept"))
            .await
            .unwrap();
        is(&world, &session, "first", Status::Finished).await;
        let mut left = 1;
        faulty.spoil(move |operation| {
            let is_it = operation == "snapshot" && left > 0;
            left -= i32::from(is_it);
            is_it.then_some(fault)
        });
        let fork = process.fork(id).await;
        let fork = process.open(fork).await.unwrap();
        let place = fork.ensure_ready().await.unwrap();
        assert_eq!(
            world.read(place.sandbox, "note.txt").await,
            "kept",
            "{fault:?}"
        );
        assert_eq!(session.seen().borrow().status, ClientStatus::Running);
    }
}

/// As providers do that end sandboxes by themselves: the turn goes on, or is interrupted and told
/// so, and the next runs in the next sandbox.
#[tokio::test]
async fn turns_go_on_from_one_short_lived_sandbox_to_the_next() {
    let life = Duration::from_secs(4);
    let fake = Fake::builder().expiring_in(life).max_lifetime(life).build();
    let world = World::with(fake).await;
    let session = world.session().await;
    let _here = session.attend();
    let first = session.ensure_ready().await.unwrap();
    for n in 0..12 {
        let id = format!("p{n}");
        let asked = prompt(&id, &format!("wait 500\nwrite note-{n}.txt kept"));
        session.prompt(asked).await.unwrap();
    }
    is(&world, &session, "p11", Status::Finished).await;
    let place = session.ensure_ready().await.unwrap();
    assert!(place.generation > first.generation);
    for n in 0..12 {
        let id = format!("p{n}");
        let found = world.store.find_prompt(session.session(), &id).await;
        let status = found.unwrap().unwrap().status;
        let runs = world.fake.runs().into_iter().filter(|run| run.prompt == id);
        assert_eq!(runs.count(), 1, "{id}");
        if status == Status::Finished {
            let path = format!("note-{n}.txt");
            assert_eq!(world.read(place.sandbox, &path).await, "kept", "{id}");
        } else {
            assert_eq!(status, Status::Interrupted, "{id}");
        }
    }
}
