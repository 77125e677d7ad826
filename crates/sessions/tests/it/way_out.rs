//! What sandboxes reach: refusals are told, and what is let through stays let through.

use std::time::Duration;

use model::session::PauseReason;
use model::{Clock as _, Id, Session, SystemClock, Timestamp};
use nacre_sessions::{HubError, Settings};
use provider::fake::Fake;
use provider::{Blocked, Pass, ProviderError};
use serde_json::{Value, json};
use store::Replay;

use crate::world::{World, quick, within};

async fn world() -> World {
    let settings = Settings {
        look_out: Duration::from_millis(20),
        ..quick()
    };
    World::set(Fake::builder().build(), settings).await
}

fn blocked(host: &str) -> Blocked {
    Blocked {
        at: SystemClock.now(),
        host: host.to_owned(),
        port: 443,
        reason: "not-listed".to_owned(),
    }
}

fn pass(rule: &str, until: Option<Timestamp>) -> Pass {
    Pass {
        rule: rule.to_owned(),
        until,
    }
}

fn soon() -> Timestamp {
    SystemClock.now() + Duration::from_mins(5)
}

async fn told(world: &World, session: Id<Session>) -> Vec<Value> {
    let replay = world.store.events_after(session, 0, 1000).await.unwrap();
    let Replay::Events { events, .. } = replay else {
        panic!("{replay:?}");
    };
    let events = events.iter().filter(|event| event.kind == "egress_blocked");
    events
        .map(|event| serde_json::from_str(&event.body).unwrap())
        .collect()
}

fn allowed() -> Value {
    json!({ "type": "egress_allowed", "rule": "x", "allow": "always", "by": "a test" })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_was_refused_is_told_once_and_a_flood_is_counted() {
    let world = world().await;
    let handle = world.session().await;
    let place = handle.ensure_ready().await.unwrap();
    let session = handle.session();
    world
        .fake
        .refuse(place.sandbox, [blocked("a.example"), blocked("a.example")]);
    within("it is told", || async {
        !told(&world, session).await.is_empty()
    })
    .await;
    let events = told(&world, session).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["host"], "a.example");
    assert_eq!(events[0]["port"], 443);
    assert_eq!(events[0]["can_allow"], true);
    let flood = (0..1000).map(|number| blocked(&format!("h{number}.example")));
    world.fake.refuse(place.sandbox, flood);
    within("the flood is read", || async {
        told(&world, session).await.len() >= 20
    })
    .await;
    let looks = || {
        world
            .fake
            .calls()
            .iter()
            .filter(|call| call.operation == "refusals")
            .count()
    };
    let before = looks();
    within("it looks again and again", || async {
        looks() > before + 3
    })
    .await;
    assert_eq!(told(&world, session).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_owner_reads_the_same_refusals_and_tells_what_is_new() {
    let world = world().await;
    let handle = world.session().await;
    let place = handle.ensure_ready().await.unwrap();
    let session = handle.session();
    world.fake.refuse(place.sandbox, [blocked("a.example")]);
    within("it is told", || async {
        !told(&world, session).await.is_empty()
    })
    .await;
    world.sessions.shut_down().await;
    let other = world.another("first");
    other.open(session).await.unwrap();
    let mut metadata = blocked("169.254.169.254");
    metadata.reason = "metadata".to_owned();
    world
        .fake
        .refuse(place.sandbox, [blocked("a.example"), metadata]);
    within("it is told by the next", || async {
        told(&world, session).await.len() > 1
    })
    .await;
    let events = told(&world, session).await;
    let hosts: Vec<&str> = events
        .iter()
        .map(|event| event["host"].as_str().unwrap())
        .collect();
    assert_eq!(hosts, ["a.example", "169.254.169.254"]);
    assert_eq!(events[1]["can_allow"], false);
    other.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_let_through_for_good_is_there_after_resume_move_and_fork() {
    let world = world().await;
    let handle = world.session().await;
    let first = handle.ensure_ready().await.unwrap();
    let always = pass("pearl.example:443", None);
    assert!(handle.let_out(always.clone(), &allowed()).await.unwrap());
    assert_eq!(
        world.fake.passes(first.sandbox),
        std::slice::from_ref(&always)
    );
    let once = pass("shell.example", Some(soon()));
    assert!(handle.let_out(once.clone(), &allowed()).await.unwrap());
    assert_eq!(
        world.fake.passes(first.sandbox),
        [always.clone(), once.clone()]
    );

    handle.pause(PauseReason::Manual).await.unwrap();
    // A session at rest is let through all the same; its sandbox learns it when it goes on.
    let rested = pass("sand.example", None);
    assert!(!handle.let_out(rested.clone(), &allowed()).await.unwrap());
    handle.ensure_ready().await.unwrap();
    let all = [always.clone(), rested.clone(), once.clone()];
    within("it has it after the pause", || async {
        world.fake.passes(first.sandbox) == all
    })
    .await;

    let moved = handle.migrate().await.unwrap();
    assert_ne!(moved.sandbox, first.sandbox);
    within("the next sandbox has it", || async {
        world.fake.passes(moved.sandbox) == all
    })
    .await;

    let fork = world.sessions.fork(handle.session(), None, None).await;
    let fork = world.sessions.open(fork.unwrap()).await.unwrap();
    let forked = fork.ensure_ready().await.unwrap();
    within("a fork has what was for good, and no more", || async {
        world.fake.passes(forked.sandbox) == [always.clone(), rested.clone()]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_gets_it_later_and_a_list_has_an_end() {
    let world = world().await;
    let handle = world.session().await;
    let place = handle.ensure_ready().await.unwrap();
    let down = ProviderError::unavailable("let_out", "a fault");
    world.fake.fail_next("let_out", down);
    let always = pass("pearl.example", None);
    assert!(handle.let_out(always.clone(), &allowed()).await.unwrap());
    assert_eq!(world.fake.passes(place.sandbox), [always]);
    for number in 0..64 {
        let once = pass(&format!("h{number}.example"), Some(soon()));
        handle.let_out(once, &allowed()).await.unwrap();
    }
    let (one, frame) = (pass("one.example", Some(soon())), allowed());
    let full = handle.let_out(one, &frame).await.unwrap_err();
    let HubError::Store(store::Error::Full(_)) = full else {
        panic!("{full}");
    };
    // The same again takes no more room.
    let again = pass("h7.example", Some(soon()));
    handle.let_out(again, &allowed()).await.unwrap();
}
