//! A runner's frames: each is committed once.

use nacre_store::frames::{Frame, Intake, Seen};
use nacre_store::{Committed, Error, Fence, NewEvent, Result};
use serde_json::json;

use crate::world::World;

stories! {
    a_frame_that_comes_twice_is_committed_once,
    a_frame_before_its_turn_is_refused,
    an_old_boots_frames_are_known_in_a_new_generation,
    a_frame_that_fits_nothing_leaves_no_trace_and_can_be_acknowledged,
    a_lost_journal_is_skipped_on_purpose,
    frames_handed_in_together_are_taken_in_order,
}

fn frame(boot: &str, number: u64) -> Frame {
    Frame {
        generation: 1,
        boot: boot.to_owned(),
        number,
    }
}

async fn take(world: &World, fence: Fence, frame: Frame) -> Result<Committed> {
    let event = NewEvent::new(&json!({"type": "title", "title": frame.number}))?;
    let write = world.write(fence).frame(frame).touch().event(event);
    world.store.append(write).await
}

async fn a_frame_that_comes_twice_is_committed_once(world: World) {
    let fence = world.session().await;
    let first = take(&world, fence, frame("b", 1)).await.unwrap();
    assert_eq!(first.frame, Some(Intake::New));
    assert_eq!(first.events.len(), 1);
    for _ in 0..2 {
        let again = take(&world, fence, frame("b", 1)).await.unwrap();
        assert_eq!(again.frame, Some(Intake::Known));
        assert!(again.events.is_empty());
    }
    take(&world, fence, frame("b", 2)).await.unwrap();
    let older = take(&world, fence, frame("b", 1)).await.unwrap();
    assert_eq!(older.frame, Some(Intake::Known));
    assert_eq!(world.log(fence.session).await.len(), 2);
}

async fn a_frame_before_its_turn_is_refused(world: World) {
    let fence = world.session().await;
    for (number, expected) in [(0, 1), (2, 1), (u64::MAX, 1)] {
        let refused = take(&world, fence, frame("b", number)).await;
        assert!(
            matches!(refused, Err(Error::FrameGap { expected: e, .. }) if e == expected),
            "{refused:?}"
        );
    }
    take(&world, fence, frame("b", 1)).await.unwrap();
    let refused = take(&world, fence, frame("b", 3)).await;
    assert!(matches!(refused, Err(Error::FrameGap { expected: 2, .. })));
    assert_eq!(world.log(fence.session).await.len(), 1);
}

async fn an_old_boots_frames_are_known_in_a_new_generation(world: World) {
    let fence = world.session().await;
    take(&world, fence, frame("b", 1)).await.unwrap();
    let restored = Frame {
        generation: 2,
        ..frame("b", 1)
    };
    let again = take(&world, fence, restored).await.unwrap();
    assert_eq!(again.frame, Some(Intake::Known));
    take(&world, fence, frame("c", 1)).await.unwrap();
    let mut seen = world.store.frames_seen(fence.session).await.unwrap();
    seen.sort_by(|a, b| a.boot.cmp(&b.boot));
    let boot = |boot: &str| Seen {
        boot: boot.to_owned(),
        generation: 1,
        number: 1,
    };
    assert_eq!(seen, [boot("b"), boot("c")]);
}

async fn a_frame_that_fits_nothing_leaves_no_trace_and_can_be_acknowledged(world: World) {
    let fence = world.session().await;
    let stray = NewEvent::new(&json!({
        "type": "part", "message_id": "m", "part_id": "p",
        "content": {"kind": "text", "text": "stray"},
    }))
    .unwrap();
    let write = world.write(fence).frame(frame("b", 1)).event(stray);
    let refused = world.store.append(write).await;
    assert!(matches!(refused, Err(Error::Misfit(_))), "{refused:?}");
    assert_eq!(world.store.frames_seen(fence.session).await.unwrap(), []);
    let write = world.write(fence).frame(frame("b", 1));
    let taken = world.store.append(write).await.unwrap();
    assert_eq!(taken.frame, Some(Intake::New));
    assert!(world.log(fence.session).await.is_empty());
    take(&world, fence, frame("b", 2)).await.unwrap();
}

async fn a_lost_journal_is_skipped_on_purpose(world: World) {
    let fence = world.session().await;
    take(&world, fence, frame("b", 1)).await.unwrap();
    let mut tx = world.store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    session
        .skip_frames(&frame("b", 9), world.now())
        .await
        .unwrap();
    // Backwards it does not go.
    session
        .skip_frames(&frame("b", 4), world.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let known = take(&world, fence, frame("b", 5)).await.unwrap();
    assert_eq!(known.frame, Some(Intake::Known));
    let next = take(&world, fence, frame("b", 10)).await.unwrap();
    assert_eq!(next.frame, Some(Intake::New));
}

async fn frames_handed_in_together_are_taken_in_order(world: World) {
    let fence = world.session().await;
    let mut pending = Vec::new();
    for number in 1..=200 {
        let event = NewEvent::new(&json!({"type": "title", "title": number})).unwrap();
        let write = world.write(fence).frame(frame("b", number)).event(event);
        pending.push(world.store.submit(write).await.unwrap());
    }
    for answer in futures::future::join_all(pending).await {
        assert_eq!(answer.unwrap().frame, Some(Intake::New));
    }
    let log = world.log(fence.session).await;
    for (number, event) in (1..).zip(&log) {
        assert_eq!(event.seq, number);
        assert_eq!(
            *event.body,
            *json!({"title": number, "type": "title"}).to_string()
        );
    }
    assert_eq!(log.len(), 200);
}
