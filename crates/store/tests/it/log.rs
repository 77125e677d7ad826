//! The log: numbers without gap, and replay.

use nacre_store::limits;
use nacre_store::{Error, NewEvent, Replay};
use serde_json::json;

use crate::world::World;

stories! {
    numbers_begin_at_one_and_have_no_gap_whatever_is_refused,
    a_body_is_kept_byte_for_byte,
    replay_goes_on_after_what_was_seen,
    pages_are_bounded_by_rows_and_bytes,
    what_is_forgotten_asks_for_a_new_beginning,
    pieces_and_open_parts_are_never_kept,
    what_is_too_large_is_refused,
    a_dropped_transaction_leaves_nothing,
    a_closed_store_takes_no_more,
}

async fn numbers_begin_at_one_and_have_no_gap_whatever_is_refused(world: World) {
    let fence = world.session().await;
    for number in 1..=20u64 {
        let stray = json!({"type": "message.done", "message_id": "no", "reason": "end_turn"});
        assert!(world.append(fence, stray).await.is_err());
        let committed = world.append(fence, json!({"type": "title"})).await.unwrap();
        assert_eq!(committed.events[0].seq, number);
    }
    let both = [json!({"type": "title"}), json!({"type": "part.removed"})];
    let both = both.iter().map(|event| NewEvent::new(event).unwrap());
    let refused = world.store.append(world.write(fence).events(both)).await;
    assert!(matches!(refused, Err(Error::Misfit(_))));
    let record = world.store.load_session(fence.session).await.unwrap();
    assert_eq!((record.first_seq, record.last_seq), (1, 20));
}

async fn a_body_is_kept_byte_for_byte(world: World) {
    let fence = world.session().await;
    let body = "{ \"type\" : \"title\",\n \"z\": 1.0, \"a\": \"\u{1f980} \\u0000\", \"z\": 2 }";
    let write = world.write(fence).event(NewEvent::from_json(body).unwrap());
    let committed = world.store.append(write).await.unwrap();
    assert_eq!(&*committed.events[0].body, body);
    assert_eq!(world.log(fence.session).await, committed.events);
}

async fn replay_goes_on_after_what_was_seen(world: World) {
    let fence = world.session().await;
    for _ in 0..5 {
        world.append(fence, json!({"type": "title"})).await.unwrap();
    }
    let seqs = |replay: Replay| match replay {
        Replay::Events { events, last_seq } => {
            assert_eq!(last_seq, 5);
            events
                .into_iter()
                .map(|event| event.seq)
                .collect::<Vec<_>>()
        }
        Replay::Resync { .. } => panic!("nothing was forgotten"),
    };
    let after = |since, limit| world.store.events_after(fence.session, since, limit);
    assert_eq!(seqs(after(0, 100).await.unwrap()), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(after(3, 100).await.unwrap()), [4, 5]);
    assert_eq!(seqs(after(1, 2).await.unwrap()), [2, 3]);
    assert!(seqs(after(5, 100).await.unwrap()).is_empty());
    let ahead = after(6, 100).await.unwrap();
    assert_eq!(ahead, Replay::Resync { last_seq: 5 });
    let ahead = after(u64::MAX, 100).await.unwrap();
    assert_eq!(ahead, Replay::Resync { last_seq: 5 });
    let empty = world.unowned().await;
    let nothing = world.store.events_after(empty, 0, 10).await.unwrap();
    let events = Vec::new();
    assert_eq!(
        nothing,
        Replay::Events {
            events,
            last_seq: 0
        }
    );
}

async fn pages_are_bounded_by_rows_and_bytes(world: World) {
    let fence = world.session().await;
    let long = "x".repeat(900_000);
    for _ in 0..8 {
        let event = json!({"type": "title", "title": long});
        world.append(fence, event).await.unwrap();
    }
    let page = world
        .store
        .events_after(fence.session, 0, u32::MAX)
        .await
        .unwrap();
    let Replay::Events { events, last_seq } = page else {
        panic!("nothing was forgotten");
    };
    let bytes: usize = events.iter().map(|event| event.body.len()).sum();
    assert!(bytes < limits::PAGE_BYTES + limits::EVENT_BODY, "{bytes}");
    assert!(events.len() < 8);
    assert_eq!(last_seq, 8);
    assert_eq!(world.log(fence.session).await.len(), 8);
}

async fn what_is_forgotten_asks_for_a_new_beginning(world: World) {
    let fence = world.session().await;
    for _ in 0..10 {
        world.append(fence, json!({"type": "title"})).await.unwrap();
    }
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    assert_eq!(session.forget_events(4).await.unwrap(), 4);
    assert_eq!(session.forget_events(2).await.unwrap(), 0);
    tx.commit().await.unwrap();
    let after = |since| world.store.events_after(fence.session, since, 100);
    for since in 0..4 {
        assert_eq!(after(since).await.unwrap(), Replay::Resync { last_seq: 10 });
    }
    let Replay::Events { events, .. } = after(4).await.unwrap() else {
        panic!("those are kept");
    };
    assert_eq!(events.len(), 6);
    // All of it, and more than there is.
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    assert_eq!(session.forget_events(99).await.unwrap(), 6);
    tx.commit().await.unwrap();
    assert_eq!(after(9).await.unwrap(), Replay::Resync { last_seq: 10 });
    assert!(matches!(after(10).await.unwrap(), Replay::Events { .. }));
    let next = world.append(fence, json!({"type": "title"})).await.unwrap();
    assert_eq!(next.events[0].seq, 11);
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    let rebuilt = session.rebuild_transcript().await;
    assert!(matches!(rebuilt, Err(Error::Forbidden { .. })));
}

async fn pieces_and_open_parts_are_never_kept(world: World) {
    let fence = world.session().await;
    let open = json!({"type": "message", "message_id": "m", "channel": "web:default"});
    world.append(fence, open).await.unwrap();
    let delta =
        json!({"type": "part.delta", "message_id": "m", "part_id": "p", "offset": 0, "text": "a"});
    let part = json!({"type": "part", "message_id": "m", "part_id": "p", "open": true,
        "content": {"kind": "text", "text": "a"}});
    for event in [delta, part] {
        let refused = world.append(fence, event).await;
        assert!(matches!(refused, Err(Error::Misfit(_))), "{refused:?}");
    }
    assert_eq!(world.log(fence.session).await.len(), 1);
}

async fn what_is_too_large_is_refused(world: World) {
    let fence = world.session().await;
    let long = "x".repeat(limits::EVENT_BODY);
    let event = NewEvent::new(&json!({"type": "title", "title": long}));
    assert!(matches!(event, Err(Error::TooLarge { .. })));
    for text in ["", "7", "[]", "{}", r#"{"type":7}"#, "{\"type\":\"title\""] {
        let event = NewEvent::from_json(text);
        assert!(matches!(event, Err(Error::Misfit(_))), "{text}");
    }
    let many = vec![NewEvent::new(&json!({"type": "title"})).unwrap(); 65];
    let refused = world.store.append(world.write(fence).events(many)).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    let refused = world.store.append(world.write(fence).title(&long)).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
}

async fn a_dropped_transaction_leaves_nothing(world: World) {
    let fence = world.session().await;
    let event = NewEvent::new(&json!({"type": "title"})).unwrap();
    {
        let mut tx = world.store.begin().await.unwrap();
        let mut session = tx.fenced(fence).await.unwrap();
        session.append(&[event], world.now()).await.unwrap();
    }
    assert!(world.log(fence.session).await.is_empty());
    let committed = world.append(fence, json!({"type": "title"})).await.unwrap();
    assert_eq!(committed.events[0].seq, 1);
}

async fn a_closed_store_takes_no_more(world: World) {
    let fence = world.session().await;
    let event = NewEvent::new(&json!({"type": "title"})).unwrap();
    let write = world.write(fence).event(event);
    let handed_in = world.store.submit(write.clone()).await.unwrap();
    world.store.close().await.unwrap();
    assert_eq!(handed_in.await.unwrap().events[0].seq, 1);
    let refused = world.store.append(write).await;
    assert!(matches!(refused, Err(Error::Closed)));
}
