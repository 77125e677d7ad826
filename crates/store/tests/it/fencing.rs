//! One owner at a time, and nothing is heard of the one before.

use model::{Id, Job, SystemClock};
use nacre_store::channels::Channel;
use nacre_store::frames::Frame;
use nacre_store::jobs::NewJob;
use nacre_store::prompts::{Destination, End, Mode, NewPrompt};
use nacre_store::{Error, Fence, NewEvent, Result, Write};
use serde_json::json;

use crate::world::{World, seconds};

stories! {
    a_session_has_one_owner_until_its_lease_is_over,
    a_former_owner_can_write_nothing,
    who_lets_go_can_write_nothing_more,
    renewing_tells_which_terms_are_over,
    of_many_who_want_a_session_one_gets_it,
    one_refused_write_leaves_the_others_of_its_group_alone,
    abandoned_sessions_are_those_with_work_and_no_owner,
}

fn job(world: &World, key: &str) -> NewJob {
    NewJob {
        id: Id::<Job>::new(&SystemClock),
        kind: "expire".to_owned(),
        key: key.to_owned(),
        payload: "{}".to_owned(),
        run_at: world.now(),
        at: world.now(),
    }
}

fn prompt(id: &str) -> NewPrompt {
    NewPrompt {
        id: id.to_owned(),
        channel: "web:default".to_owned(),
        mode: Mode::Followup,
        body: "{}".to_owned(),
    }
}

fn is_fenced<T: std::fmt::Debug>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Fenced { .. }))
}

async fn a_session_has_one_owner_until_its_lease_is_over(world: World) {
    let store = &world.store;
    let first = world.session().await;
    let session = first.session;
    let early = store
        .take_over(session, "them", world.now(), world.soon())
        .await;
    assert!(matches!(early, Err(Error::Held { owner }) if owner == "us"));
    world.append(first, json!({"type": "title"})).await.unwrap();

    world.clock.advance(seconds(30));
    let second = store
        .take_over(session, "them", world.now(), world.soon())
        .await
        .unwrap();
    assert!(second.term > first.term);
    let lease = store.find_lease(session).await.unwrap().unwrap();
    assert_eq!((lease.owner.as_str(), lease.term), ("them", second.term));
    assert!(is_fenced(
        &world.append(first, json!({"type": "title"})).await
    ));
    world
        .append(second, json!({"type": "title"}))
        .await
        .unwrap();
    let unknown = Id::new(&SystemClock);
    let nowhere = store
        .take_over(unknown, "us", world.now(), world.soon())
        .await;
    assert!(matches!(nowhere, Err(Error::NotFound("session"))));
}

async fn a_former_owner_can_write_nothing(world: World) {
    let old = world.session().await;
    let queued = world
        .write(old)
        .queue_prompt(prompt("p"))
        .enqueue(job(&world, "k"));
    world.store.append(queued).await.unwrap();
    world.clock.advance(seconds(31));
    let new = world
        .store
        .take_over(old.session, "them", world.now(), world.soon())
        .await
        .unwrap();
    let before = whole(&world, new).await;

    let to = || Destination {
        generation: 1,
        boot: "b".to_owned(),
    };
    let state = model::session::Lifecycle::new();
    let event = NewEvent::new(&json!({"type": "title"})).unwrap();
    let frame = Frame {
        generation: 1,
        boot: "b".to_owned(),
        number: 1,
    };
    let channel = Channel {
        name: "web:default".to_owned(),
        agent_session: None,
        body: "{}".to_owned(),
    };
    let write = || world.write(old);
    let writes: Vec<Write> = vec![
        write(),
        write().event(event),
        write().state(&state),
        write().touch(),
        write().title("theirs"),
        write().frame(frame),
        write().queue_prompt(prompt("q")),
        // Known already, and still not the old owner's to hear of.
        write().queue_prompt(prompt("p")),
        write().dispatch_prompt("p", to()),
        write().end_prompt("p", End::Failed, None),
        write().request_sandbox(1, "sbx", "local"),
        write().channel(channel),
        write().enqueue(job(&world, "k2")),
        write().cancel_job("expire", "k"),
        write().cancel_jobs(),
    ];
    for write in writes {
        let said = format!("{write:?}");
        let answer = world.store.append(write).await;
        assert!(is_fenced(&answer), "{said}: {answer:?}");
    }
    let mut tx = world.store.begin().await.unwrap();
    assert!(is_fenced(&tx.fenced(old).await));
    drop(tx);
    assert!(is_fenced(&world.store.release(old).await));
    assert_eq!(whole(&world, new).await, before);
}

/// Everything that an owner could have changed.
async fn whole(world: &World, fence: Fence) -> String {
    let store = &world.store;
    let session = fence.session;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        store.load_session(session).await.unwrap(),
        world.log(session).await,
        store.open_prompts(session).await.unwrap(),
        store.frames_seen(session).await.unwrap(),
        store.session_sandboxes(session).await.unwrap(),
        store.channels(session).await.unwrap(),
        store.list_jobs("expire", 10).await.unwrap(),
        store.find_lease(session).await.unwrap(),
    )
}

async fn who_lets_go_can_write_nothing_more(world: World) {
    let old = world.session().await;
    world.store.release(old).await.unwrap();
    assert!(is_fenced(
        &world.append(old, json!({"type": "title"})).await
    ));
    assert_eq!(world.store.find_lease(old.session).await.unwrap(), None);
    let new = world
        .store
        .take_over(old.session, "them", world.now(), world.soon())
        .await
        .unwrap();
    assert!(new.term > old.term);
}

async fn renewing_tells_which_terms_are_over(world: World) {
    let (kept, lost) = (world.session().await, world.session().await);
    world.clock.advance(seconds(31));
    world
        .store
        .take_over(lost.session, "them", world.now(), world.soon())
        .await
        .unwrap();
    let over = world
        .store
        .renew(&[lost, kept], world.soon())
        .await
        .unwrap();
    assert_eq!(over, [lost]);
    let lease = world.store.find_lease(kept.session).await.unwrap().unwrap();
    assert_eq!(lease.expires_at, world.soon());
}

async fn of_many_who_want_a_session_one_gets_it(world: World) {
    let session = world.unowned().await;
    let names: Vec<String> = (0..8).map(|n| format!("owner {n}")).collect();
    let asked = names.iter().map(|name| {
        world
            .store
            .take_over(session, name, world.now(), world.soon())
    });
    let answers = futures::future::join_all(asked).await;
    let got: Vec<&Fence> = answers.iter().flatten().collect();
    assert_eq!(got.len(), 1, "{answers:?}");
    world
        .append(*got[0], json!({"type": "title"}))
        .await
        .unwrap();
}

async fn one_refused_write_leaves_the_others_of_its_group_alone(world: World) {
    let good = world.session().await;
    let bad = Fence {
        term: good.term + 7,
        ..good
    };
    let mut pending = Vec::new();
    for number in 0..60 {
        let fence = if number % 3 == 0 { bad } else { good };
        let event = NewEvent::new(&json!({"type": "title", "title": number})).unwrap();
        let write = world.write(fence).event(event);
        pending.push(world.store.submit(write).await.unwrap());
    }
    let answers = futures::future::join_all(pending).await;
    assert_eq!(
        answers.iter().filter(|answer| is_fenced(answer)).count(),
        20
    );
    let log = world.log(good.session).await;
    let seqs: Vec<u64> = log.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=40).collect::<Vec<u64>>());
    let told: Vec<u64> = answers
        .into_iter()
        .flatten()
        .flat_map(|committed| committed.events)
        .map(|event| event.seq)
        .collect();
    assert_eq!(told, seqs, "in the order in which they were handed in");
}

async fn abandoned_sessions_are_those_with_work_and_no_owner(world: World) {
    let _idle = world.unowned().await;
    let owned = world.session().await;
    let waiting = world.session().await;
    for fence in [owned, waiting] {
        let write = world.write(fence).queue_prompt(prompt("p"));
        world.store.append(write).await.unwrap();
    }
    world.store.release(waiting).await.unwrap();
    let now = world.now();
    let found = world.store.abandoned_sessions(now, None, 10).await.unwrap();
    assert_eq!(found, [waiting.session]);
    let after = Some(waiting.session);
    let rest = world
        .store
        .abandoned_sessions(now, after, 10)
        .await
        .unwrap();
    assert_eq!(rest, []);
    let later = now + seconds(31);
    let found = world
        .store
        .abandoned_sessions(later, None, 10)
        .await
        .unwrap();
    assert_eq!(found, [owned.session, waiting.session]);
}
