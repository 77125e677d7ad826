//! What comes from the hub: good, bad, doubled, and by no right.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::hub::Manners;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use wire::link::{Close, ErrorFrame, FromHub, FromRunner, HubHello};

use super::world::{Runner, SESSION, World, prompt, soon, types};

/// The hub's end of a connection, in the test's own hands.
struct Tap {
    stream: BufReader<DuplexStream>,
}

impl Tap {
    async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.stream.write_all(line.as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        soon(self.stream.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// The next frame of that type.
    async fn hear_one(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.hear().await;
            assert_ne!(frame, Value::Null, "the runner hung up");
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    async fn greet(&mut self, term: u64) -> Value {
        let hello = self.hear().await;
        let answer = json!({
            "type": "hello", "term": term, "session": SESSION, "generation": 1,
            "boot": hello["boot"], "protocol": 1,
        });
        self.say(&answer.to_string()).await;
        hello
    }
}

async fn tapped() -> (World, Runner, Tap) {
    let (mut world, mut dialled) = World::without_hub();
    let runner = world.start();
    let stream = soon(dialled.recv()).await.unwrap();
    let tap = Tap {
        stream: BufReader::new(stream),
    };
    // The rest of what is dialled is for nobody.
    std::mem::forget(dialled);
    (world, runner, tap)
}

#[tokio::test(start_paused = true)]
async fn the_first_frame_is_hello_and_says_who_we_are() {
    let (_world, runner, mut tap) = tapped().await;
    let hello = tap.greet(7).await;
    assert_eq!(
        hello,
        json!({
            "type": "hello", "session": SESSION, "generation": 1, "boot": runner.boot,
            "protocol": 1, "term": 0, "offers": [],
        })
    );
    runner.say_title("numbered").await;
    let title = tap.hear_one("title").await;
    assert_eq!(
        title,
        json!({"type": "title", "seq": 1, "title": "numbered"})
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_hub_has_said_hello() {
    let (_world, runner, mut tap) = tapped().await;
    runner.say_title("early").await;
    assert_eq!(tap.hear().await["type"], "hello");
    let more = tokio::time::timeout(Duration::from_secs(5), tap.hear()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test(start_paused = true)]
async fn bad_json_is_answered_and_the_link_lives() {
    let (_world, _runner, mut tap) = tapped().await;
    tap.greet(1).await;
    for (sent, code) in [
        ("{", ErrorFrame::BAD_JSON),
        ("[]", ErrorFrame::BAD_JSON),
        (r#"{"type": "ack", "term": 1}"#, ErrorFrame::BAD_FRAME),
    ] {
        tap.say(sent).await;
        let error = tap.hear_one("error").await;
        assert_eq!(error["code"], code, "{sent}");
        assert_eq!(error.get("seq"), None);
    }
    tap.hear_one("ping").await;
    tap.say(r#"{"type": "pong", "term": 1}"#).await;
    tap.hear_one("ping").await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_ignored_and_answered_when_it_asks() {
    let (_world, _runner, mut tap) = tapped().await;
    tap.greet(1).await;
    tap.say(r#"{"type": "zzz", "term": 1}"#).await;
    tap.say(r#"{"type": "zzz", "term": 1, "request_id": "r1"}"#)
        .await;
    let error = tap.hear_one("error").await;
    assert_eq!(error["code"], ErrorFrame::UNSUPPORTED);
    assert_eq!(error["request_id"], "r1");
}

#[tokio::test(start_paused = true)]
async fn a_frame_of_a_lower_term_is_refused() {
    let (_world, mut runner, mut tap) = tapped().await;
    tap.greet(5).await;
    tap.say(r#"{"type": "cancel", "term": 6}"#).await;
    assert_eq!(
        soon(runner.hears.recv()).await,
        Some(FromHub::Cancel { channel: None })
    );
    let old = json!({"type": "prompt", "term": 5, "id": "p1", "content": "x"});
    tap.say(&old.to_string()).await;
    let error = tap.hear_one("error").await;
    assert_eq!(error["code"], ErrorFrame::OLDER_TERM);
    assert_eq!(error["prompt_id"], "p1");
    tap.say(r#"{"type": "cancel", "term": 5}"#).await;
    assert_eq!(tap.hear_one("error").await["code"], ErrorFrame::OLDER_TERM);
    assert!(runner.hears.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hub_of_a_lower_term_or_another_session_is_turned_away() {
    let mut world = World::new();
    world.hub.set_term(9);
    let runner = world.start();
    runner.connected(1).await;
    world.hub.set_term(3);
    world
        .hub
        .say_with_term(9, FromHub::Close(Close::normal(Close::INTERNAL_ERROR)));
    let hello = soon(world.hub.wait_for(
        |body| matches!(body, FromRunner::Close(close) if close.reason == Close::OLDER_TERM),
    ))
    .await;
    assert!(hello.seq.is_none());
    world.hub.set_term(10);
    soon(runner.connected(2)).await;
    assert_eq!(world.hub.hellos().last().unwrap().term, 9);

    let (_world, _runner, mut tap) = tapped().await;
    let hello = tap.hear().await;
    let other = HubHello {
        session: "ses_other".to_owned(),
        generation: 1,
        boot: hello["boot"].as_str().unwrap().to_owned(),
        protocol: 1,
        seen: Vec::new(),
    };
    let mut other = serde_json::to_value(FromHub::Hello(other)).unwrap();
    other["term"] = 1.into();
    tap.say(&other.to_string()).await;
    let close = tap.hear_one("close").await;
    assert_eq!(close["reason"], Close::OTHER_SESSION);
}

#[tokio::test(start_paused = true)]
async fn a_protocol_that_is_too_new_is_turned_away() {
    let (_world, _runner, mut tap) = tapped().await;
    let hello = tap.hear().await;
    let answer = json!({
        "type": "hello", "term": 1, "session": SESSION, "generation": 1,
        "boot": hello["boot"], "protocol": 999,
    });
    tap.say(&answer.to_string()).await;
    assert_eq!(tap.hear_one("close").await["reason"], Close::OTHER_PROTOCOL);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_says_everything_twice_does_no_harm() {
    let mut world = World::new();
    world.hub.behave(Manners {
        repeats: true,
        ..Manners::default()
    });
    let mut runner = world.start();
    runner.connected(1).await;
    world.hub.say(FromHub::Prompt(prompt("p1")));
    for n in 0..100 {
        runner.say_title(&n.to_string()).await;
    }
    soon(runner.handle.drain()).await.unwrap();
    let mut prompts = 0;
    while let Ok(frame) = runner.hears.try_recv() {
        prompts += usize::from(matches!(frame, FromHub::Prompt(_)));
    }
    assert_eq!(prompts, 1);
    assert!(types(&world.hub.heard()).contains(&"prompt_state".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn forged_acknowledgements_and_answers_change_nothing() {
    let (_world, runner, mut tap) = tapped().await;
    tap.greet(1).await;
    for forged in [
        r#"{"type": "ack", "term": 1, "seq": 18446744073709551615}"#,
        r#"{"type": "ack", "term": 1, "seq": 5, "boot": "somebody else's"}"#,
        r#"{"type": "result", "term": 1, "id": "made up", "ok": 1}"#,
        r#"{"type": "pending", "term": 1, "id": "made up", "wait_ms": 18446744073709551615}"#,
    ] {
        tap.say(forged).await;
    }
    runner.say_title("one").await;
    assert_eq!(tap.hear_one("title").await["seq"], 1);
    tap.say(r#"{"type": "ack", "term": 1, "seq": 1}"#).await;
    soon(runner.handle.drain()).await.unwrap();
    runner.say_title("two").await;
    assert_eq!(tap.hear_one("title").await["seq"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_flood_from_the_hub_is_bounded_and_said_to_be_too_much() {
    let (_world, runner, mut tap) = tapped().await;
    tap.greet(1).await;
    // Nobody takes up what is handed on.
    for n in 0..1000 {
        let diff = json!({"type": "diff", "term": 1, "request_id": format!("r{n}")});
        tap.say(&diff.to_string()).await;
        tokio::task::yield_now().await;
    }
    let error = tap.hear_one("error").await;
    assert_eq!(error["code"], ErrorFrame::OVERLOADED);
    assert!(error["request_id"].as_str().unwrap().starts_with('r'));
    runner.say_title("still here").await;
    tap.hear_one("title").await;
}
