//! A runner that is not what it says: whatever it sends, it is answered or cut off, and the session
//! and its log stay as they should be.

use model::session::Place;
use nacre_sessions::Handle;
use serde_json::{Value, json};
use store::Replay;
use store::prompts::Status;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
};

use crate::prompts::{is, prompt};
use crate::world::{World, within};

/// Says what it likes at the link door.
struct Intruder {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: tokio::io::WriteHalf<DuplexStream>,
}

impl Intruder {
    async fn knock(world: &World, place: Place) -> Self {
        let stream = loop {
            if let Some(stream) = world.fake.knock(place.sandbox, "link").await {
                break stream;
            }
            tokio::task::yield_now().await;
        };
        let (reader, writer) = tokio::io::split(stream);
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
        }
    }

    /// Greeted as the runner of that boot.
    async fn greeted(world: &World, session: &Handle, place: Place, boot: &str) -> Self {
        let mut intruder = Self::knock(world, place).await;
        intruder.say(&hello(session, place, boot)).await;
        assert_eq!(intruder.hear().await.unwrap()["type"], "hello");
        assert_eq!(intruder.hear().await.unwrap()["type"], "init");
        intruder
    }

    async fn say(&mut self, frame: &Value) {
        self.raw(frame.to_string().as_bytes()).await;
    }

    async fn raw(&mut self, bytes: &[u8]) {
        // Who was cut off is not heard any more.
        let _ = self.writer.write_all(bytes).await;
        let _ = self.writer.write_all(b"\n").await;
    }

    /// Nothing once it is cut off.
    async fn hear(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn hears(&mut self, kind: &str) -> Value {
        while let Some(frame) = self.hear().await {
            if frame["type"] == kind {
                return frame;
            }
        }
        panic!("cut off before a {kind} came");
    }
}

fn hello(session: &Handle, place: Place, boot: &str) -> Value {
    json!({
        "type": "hello",
        "session": session.session().to_string(),
        "generation": place.generation.0,
        "boot": boot,
        "protocol": 1,
        "term": 0,
    })
}

async fn log(world: &World, session: &Handle) -> Vec<String> {
    let replay = world.store.events_after(session.session(), 0, 1000).await;
    let Replay::Events { events, .. } = replay.unwrap() else {
        panic!("the log is not whole");
    };
    events.iter().map(|event| event.body.to_string()).collect()
}

/// A session whose own runner is silenced, so that the intruder has the door to itself.
async fn session(world: &World) -> (Handle, Place) {
    let session = world.session().await;
    let place = session.ensure_ready().await.unwrap();
    world.fake.silence(place.sandbox).await.unwrap();
    (session, place)
}

#[tokio::test]
async fn who_is_another_session_another_generation_or_of_a_later_term_is_sent_away() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    for (field, value, reason) in [
        ("session", json!("ses_another"), "another session"),
        ("generation", json!(7), "older generation"),
        ("protocol", json!(0), "protocol not spoken here"),
        ("term", json!(1_000_000), "older term"),
    ] {
        let mut intruder = Intruder::knock(&world, place).await;
        let mut frame = hello(&session, place, "b");
        frame[field] = value;
        intruder.say(&frame).await;
        let close = intruder.hears("close").await;
        assert_eq!(
            (&close["code"], &close["reason"]),
            (&json!(1008), &json!(reason))
        );
        assert_eq!(intruder.hear().await, None);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_told_and_does_not_stop_what_follows() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let before = log(&world, &session).await.len();
    // A part of a message that nobody opened.
    let stray = json!({ "type": "part", "seq": 1, "message_id": "never", "part_id": "p",
        "content": { "kind": "text", "text": "x" } });
    let good = json!({ "type": "title", "seq": 2, "title": "mine" });
    let mut acknowledged = false;
    for _ in 0..3 {
        let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
        intruder.say(&stray).await;
        intruder.say(&good).await;
        while let Some(frame) = intruder.hear().await {
            acknowledged |= frame["type"] == "ack" && frame["seq"] == 2;
            if acknowledged {
                break;
            }
        }
        if acknowledged {
            break;
        }
    }
    assert!(acknowledged);
    let told = &log(&world, &session).await[before..];
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("bad_frame"), "{told:?}");
    assert!(told[1].contains("mine"));
}

#[tokio::test]
async fn what_comes_twice_is_taken_once_and_a_gap_is_not_taken() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let before = log(&world, &session).await.len();
    let title = |seq: u64| json!({ "type": "title", "seq": seq, "title": format!("t{seq}") });
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    for seq in [1, 1, 2, 1, 2] {
        intruder.say(&title(seq)).await;
    }
    while intruder.hears("ack").await["seq"] != 2 {}
    intruder.say(&title(9)).await;
    intruder.hears("close").await;
    let mut again = Intruder::knock(&world, place).await;
    again.say(&hello(&session, place, "boot")).await;
    assert_eq!(
        again.hear().await.unwrap()["seen"],
        json!([{ "boot": "boot", "seq": 2 }])
    );
    assert_eq!(log(&world, &session).await.len(), before + 2);
}

#[tokio::test]
async fn rubbish_is_answered_and_too_much_of_it_ends_the_connection() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    intruder.raw(b"{").await;
    assert_eq!(intruder.hears("error").await["code"], "bad_json");
    intruder.say(&json!({ "type": "ping" })).await;
    intruder.hears("pong").await;
    intruder
        .say(&json!({ "type": "part.delta", "message_id": "made-up", "part_id": "p", "offset": 0, "text": "x" }))
        .await;
    assert_eq!(intruder.hears("error").await["code"], "unknown_turn");
    for _ in 0..200 {
        intruder.raw(b"not json").await;
    }
    while intruder.hear().await.is_some() {}
}

#[tokio::test]
async fn nobody_ends_a_prompt_that_was_not_sent_to_them() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    session.prompt(prompt("p", "say hello")).await.unwrap();
    // Not sent before the agent is ready.
    intruder
        .say(&json!({ "type": "complete", "seq": 1, "prompt_id": "p", "channel": "web:default" }))
        .await;
    intruder
        .say(&json!({ "type": "agent_status", "seq": 2, "status": "idle" }))
        .await;
    assert_eq!(intruder.hears("prompt").await["id"], "p");
    is(&world, &session, "p", Status::Dispatched).await;
}

#[tokio::test]
async fn a_flood_is_taken_as_fast_as_it_is_written_and_no_faster() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    for seq in 1..=2000_u64 {
        intruder
            .say(&json!({ "type": "title", "seq": seq, "title": format!("t{seq}") }))
            .await;
    }
    while intruder.hears("ack").await["seq"] != 2000 {}
    within("the last is kept", || async {
        let record = world.store.load_session(session.session()).await.unwrap();
        record.title == "t2000"
    })
    .await;
}

#[tokio::test]
async fn boots_that_were_never_offered_and_names_that_cannot_be_are_sent_away() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    intruder
        .say(&json!({ "type": "title", "seq": 0, "from_boot": "x", "title": "t" }))
        .await;
    intruder.hears("close").await;
    let mut intruder = Intruder::greeted(&world, &session, place, "boot").await;
    intruder
        .say(&json!({ "type": "title", "seq": 1, "from_boot": "x", "title": "t" }))
        .await;
    intruder.hears("close").await;
    let mut intruder = Intruder::knock(&world, place).await;
    let mut frame = hello(&session, place, "boot");
    frame["offers"] = json!([{ "boot": "x".repeat(500), "first": 2, "last": 2 }]);
    intruder.say(&frame).await;
    assert_eq!(intruder.hears("close").await["code"], 1008);
    assert!(!session.is_gone());
}

#[tokio::test]
async fn what_an_earlier_boot_says_of_an_answer_that_was_closed_costs_nothing() {
    let world = World::new().await;
    let (session, place) = session(&world).await;
    let before = log(&world, &session).await.len();
    let mut intruder = Intruder::knock(&world, place).await;
    let mut frame = hello(&session, place, "boot");
    frame["offers"] = json!([{ "boot": "earlier", "first": 1, "last": 3 }]);
    intruder.say(&frame).await;
    for seq in 1..=2 {
        let part = json!({ "type": "part", "seq": seq, "from_boot": "earlier", "message_id": "over",
            "part_id": "p", "content": { "kind": "text", "text": "x" } });
        intruder.say(&part).await;
    }
    let title = json!({ "type": "title", "seq": 3, "from_boot": "earlier", "title": "last" });
    intruder.say(&title).await;
    loop {
        let ack = intruder.hears("ack").await;
        if ack["boot"] == "earlier" && ack["seq"] == 3 {
            break;
        }
    }
    assert_eq!(log(&world, &session).await.len(), before + 1);
}
