//! Sessions that nobody uses, copies of sessions, and what is left of them.

use std::collections::HashSet;
use std::time::Duration;

use model::session::{ClientStatus, PauseReason};
use nacre_sessions::{HubError, Settings};
use provider::fake::Fake;
use provider::{Provider as _, ProviderError};
use store::prompts::Status;
use store::snapshots::{Kept, Kind};

use crate::prompts::{is, prompt};
use crate::world::{World, quick, within};

#[tokio::test]
async fn a_session_that_nothing_uses_is_paused_and_one_at_work_is_not() {
    let settings = Settings {
        idle: Duration::from_millis(300),
        ..quick()
    };
    let world = World::set(Fake::default(), settings).await;
    let (idle, busy) = (world.session().await, world.session().await);
    busy.prompt(prompt("p", "wait 1500")).await.unwrap();
    idle.ensure_ready().await.unwrap();
    // Who merely looks does not use it.
    let _here = idle.attend();
    within("the idle one rests", || async {
        idle.seen().borrow().status == ClientStatus::Paused
    })
    .await;
    is(&world, &busy, "p", Status::Accepted).await;
    let record = world.store.load_session(idle.session()).await.unwrap();
    assert_eq!(record.state.reason.as_deref(), Some("inactivity"));
    // The time runs from the end of the work.
    is(&world, &busy, "p", Status::Finished).await;
    assert_eq!(busy.seen().borrow().status, ClientStatus::Running);
    within("the other rests after", || async {
        busy.seen().borrow().status == ClientStatus::Paused
    })
    .await;
}

#[tokio::test]
async fn a_pause_is_answered_with_its_receipt() {
    let world = World::new().await;
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    let receipt = session.pause(PauseReason::Manual).await.unwrap();
    assert_eq!((receipt.kind, receipt.kept), (Kind::Pause, Kept::Memory));
    assert_eq!(receipt.generation, Some(place.generation.0));
    let snapshot = session.snapshot().await.unwrap();
    let kept = world
        .store
        .session_snapshots(session.session(), None, 10)
        .await;
    // Both may be of the same millisecond.
    let kept = kept.unwrap();
    let taken = kept.iter().find(|kept| kept.id == snapshot.to_string());
    assert_eq!(taken.unwrap().kept, Kept::Disk);
    assert_eq!(kept.len(), 2);
}

#[tokio::test]
async fn memory_is_held_for_so_long_and_then_the_disk_alone() {
    let settings = Settings {
        paused: Duration::from_millis(200),
        ..quick()
    };
    let world = World::set(Fake::default(), settings).await;
    let session = world.session().await;
    session
        .prompt(prompt("p", "write note.txt kept"))
        .await
        .unwrap();
    is(&world, &session, "p", Status::Finished).await;
    let before = session.seen().borrow().place.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    world.sessions.store_held().await.unwrap();
    within("it is on disk", || async {
        world.sessions.store_held().await.unwrap();
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    let after = session.ensure_ready().await.unwrap();
    assert_eq!(after.generation, before.generation.next());
    session.prompt(prompt("q", "say here")).await.unwrap();
    is(&world, &session, "q", Status::Finished).await;
}

#[tokio::test]
async fn a_fork_goes_on_from_the_files_and_leaves_its_parent_alone() {
    let world = World::new().await;
    let parent = world.session().await;
    parent
        .prompt(prompt("p", "write note.txt from the parent"))
        .await
        .unwrap();
    is(&world, &parent, "p", Status::Finished).await;
    let fork = world
        .sessions
        .fork(parent.session(), None, None)
        .await
        .unwrap();
    let record = world.store.load_session(fork).await.unwrap();
    assert_eq!(record.parent, Some(parent.session()));
    let fork = world.sessions.open(fork).await.unwrap();
    let place = fork.ensure_ready().await.unwrap();
    assert_eq!(
        world.read(place.sandbox, "note.txt").await,
        "from the parent"
    );
    // The parent's journal is none of its own.
    fork.prompt(prompt("p", "say I am another")).await.unwrap();
    is(&world, &fork, "p", Status::Finished).await;
    assert_eq!(parent.seen().borrow().status, ClientStatus::Running);
    assert_eq!(world.sandboxes().await.len(), 2);

    let foreign = world.sessions.fork(
        fork.session(),
        parent.seen().borrow().snapshot.clone(),
        None,
    );
    assert!(matches!(
        foreign.await,
        Err(HubError::Store(store::Error::NotFound(_)))
    ));
}

#[tokio::test]
async fn a_fork_begins_with_what_was_said_by_then() {
    let world = World::new().await;
    let parent = world.session().await;
    parent.prompt(prompt("p", "say one")).await.unwrap();
    is(&world, &parent, "p", Status::Finished).await;
    let snapshot = parent.snapshot().await.unwrap();
    let taken = world.store.find_snapshot(&snapshot.to_string()).await;
    let taken = taken.unwrap().unwrap().created_at;
    // Times are kept in milliseconds.
    within("it is later", || async {
        now().as_millisecond() > taken.as_millisecond()
    })
    .await;
    parent.prompt(prompt("q", "say two")).await.unwrap();
    is(&world, &parent, "q", Status::Finished).await;
    let fork = world
        .sessions
        .fork(parent.session(), Some(snapshot.clone()), None)
        .await
        .unwrap();
    let record = world.store.load_session(fork).await.unwrap();
    assert_eq!(record.origin_snapshot, Some(snapshot.to_string()));
    let first = world.store.last_messages(fork, 100).await.unwrap();
    assert!(first.iter().all(|message| message.inherited));
    let of_parent = world.store.messages_after(parent.session(), 0, 2).await;
    for (told, again) in of_parent.unwrap().iter().zip(&first) {
        assert_eq!(again.id, format!("inh-{}", told.id));
        assert_eq!(again.created_at, told.created_at);
        assert_eq!(again.done, told.done);
        let parts = |message: &store::transcript::Message| {
            let parts = message.parts.iter();
            parts
                .map(|part| part.content.clone())
                .collect::<Vec<serde_json::Value>>()
        };
        assert_eq!(parts(again), parts(told));
    }
    assert_eq!(first.len(), 2);
    // The agent goes on with the conversation that is on the disk.
    let channels = async |session| world.store.channels(session).await.unwrap();
    assert_eq!(channels(fork).await, channels(parent.session()).await);
    // The log alone tells it again.
    let fence = world.store.take_over(fork, "a test", now(), now()).await;
    let mut tx = world.store.begin().await.unwrap();
    let mut fenced = tx.fenced(fence.unwrap()).await.unwrap();
    fenced.rebuild_transcript().await.unwrap();
    tx.commit().await.unwrap();
    let rebuilt = world.store.last_messages(fork, 100).await.unwrap();
    assert_eq!(rebuilt, first);
    // A fork of it has all of it once.
    let second = world.sessions.fork(fork, None, None).await.unwrap();
    let second = world.store.last_messages(second, 100).await.unwrap();
    let ids = |said: &[store::transcript::Message]| -> Vec<String> {
        said.iter().map(|message| message.id.clone()).collect()
    };
    assert_eq!(ids(&second), ids(&first));
}

fn now() -> model::Timestamp {
    model::Clock::now(&model::SystemClock)
}

#[tokio::test]
async fn a_deleted_session_leaves_no_record() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    world.sessions.delete(session.session()).await.unwrap();
    let gone = world.store.find_session(session.session()).await.unwrap();
    assert_eq!(gone, None);
    assert!(world.sessions.open(session.session()).await.is_err());
}

#[tokio::test]
async fn whoever_bears_the_name_of_one_that_is_gone_has_its_sessions_at_once() {
    let settings = Settings {
        lease: Duration::from_hours(1),
        ..quick()
    };
    let world = World::set(Fake::default(), settings.clone()).await;
    let provider = std::sync::Arc::new(world.fake.clone());
    let id = world.record().await;
    let first = world.process_with("server", provider.clone(), settings.clone());
    let session = first.open(id).await.unwrap();
    session.ensure_ready().await.unwrap();
    drop(first);
    let second = world.process_with("server", provider.clone(), settings);
    assert_eq!(second.reclaim().await, 1);
    let again = second.open(id).await.unwrap();
    assert!(again.term() > session.term());
    again.prompt(prompt("p", "say on")).await.unwrap();
    is(&world, &again, "p", Status::Finished).await;
    assert!(world.another("other").open(id).await.is_err());
    assert_eq!(world.fake.list(&[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_hub_that_nobody_needs_goes_and_comes_again() {
    let settings = Settings {
        linger: Duration::from_millis(50),
        ..quick()
    };
    let world = World::set(Fake::default(), settings).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let watch = session.watch().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!session.is_gone(), "somebody watches it");
    drop(watch);
    within("it is let go", || async { session.is_gone() }).await;
    let lease = world.store.find_lease(session.session()).await.unwrap();
    assert_eq!(lease, None);
    let again = world.sessions.open(session.session()).await.unwrap();
    again.prompt(prompt("p", "say back")).await.unwrap();
    is(&world, &again, "p", Status::Finished).await;
}

#[tokio::test]
async fn a_sandbox_that_will_be_ended_has_one_job_and_one_at_rest_has_none() {
    let lasting = Fake::builder()
        .expiring_in(Duration::from_secs(1000))
        .build();
    let world = World::with(lasting).await;
    let session = world.session().await;
    for _ in 0..2 {
        session.ensure_ready().await.unwrap();
        let record = world.store.load_session(session.session()).await.unwrap();
        let jobs = world.store.list_jobs("expire", 10).await.unwrap();
        let [job] = &jobs[..] else {
            panic!("{jobs:?}");
        };
        assert_eq!(job.kind, "expire");
        let before = record.state.expires_at.unwrap().duration_since(job.run_at);
        // A tenth of its life.
        assert!((95..=101).contains(&before.as_secs()), "{before:?}");
        session.pause(PauseReason::Manual).await.unwrap();
        let jobs = world.store.list_jobs("expire", 10).await.unwrap();
        assert!(jobs.is_empty(), "{jobs:?}");
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_sealed_yet_is_not_lost() {
    let settings = Settings {
        paused: Duration::ZERO,
        ..quick()
    };
    let world = World::set(Fake::default(), settings).await;
    let session = world.session().await;
    session
        .prompt(prompt("p", "write note.txt kept"))
        .await
        .unwrap();
    is(&world, &session, "p", Status::Finished).await;
    session.pause(PauseReason::Manual).await.unwrap();
    for _ in 0..3 {
        let full = ProviderError::refused("no space left on the device");
        world.fake.fail_next("stop", full);
    }
    within("it is given up for the disk", || async {
        world.sessions.store_held().await.unwrap();
        session.seen().borrow().snapshot.is_some()
    })
    .await;
    assert_eq!(session.seen().borrow().status, ClientStatus::Paused);
    let place = session.ensure_ready().await.unwrap();
    assert_eq!(world.read(place.sandbox, "note.txt").await, "kept");
}

#[tokio::test]
async fn a_prompt_that_comes_while_memory_is_given_up_is_answered_after() {
    let settings = Settings {
        paused: Duration::ZERO,
        ..quick()
    };
    let world = World::set(Fake::default(), settings).await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    session.pause(PauseReason::Manual).await.unwrap();
    for _ in 0..10 {
        let full = ProviderError::refused("no space left on the device");
        world.fake.fail_next("stop", full);
    }
    session.store().await.unwrap();
    session.prompt(prompt("p", "say after")).await.unwrap();
    is(&world, &session, "p", Status::Finished).await;
}

#[tokio::test]
async fn how_much_is_in_a_snapshot_is_known_later_and_by_whoever_looks() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let snapshot = session.snapshot().await.unwrap().to_string();
    let sizes = async || {
        let found = world.store.find_snapshot(&snapshot).await.unwrap();
        found.unwrap().sizes
    };
    assert_eq!(sizes().await, None);
    // The one that took it has ended.
    let next = world.another("next");
    next.measure(&mut HashSet::new()).await.unwrap();
    let known = sizes().await.unwrap();
    assert!(known.files > 0 && !known.digest.is_empty(), "{known:?}");
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_is_tried_once() {
    let world = World::new().await;
    let session = world.session().await;
    session.ensure_ready().await.unwrap();
    let lost = session.snapshot().await.unwrap();
    world.fake.delete_snapshot(&lost).await.unwrap();
    let kept = session.snapshot().await.unwrap();
    let mut given_up = HashSet::new();
    world.sessions.measure(&mut given_up).await.unwrap();
    assert_eq!(given_up, HashSet::from([lost.to_string()]));
    let kept = world.store.find_snapshot(&kept.to_string()).await.unwrap();
    assert!(kept.unwrap().sizes.is_some());
}
