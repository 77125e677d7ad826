//! What clients get: all of it, once, in order.

use std::time::Duration;

use nacre_gateway::Settings;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::client::{Client, Text};
use crate::world::{Way, World, watched};

fn prompt(id: &str, content: &str) -> Value {
    json!({ "type": "prompt", "id": id, "content": content })
}

fn is_finished(id: &str) -> impl Fn(&Value) -> bool {
    let id = id.to_owned();
    move |frame| frame["type"] == "prompt" && frame["id"] == *id && frame["status"] == "finished"
}

/// What a client does that has nothing, and reads the whole log.
async fn final_text(world: &World, session: model::Id<model::Session>) -> Text {
    let (mut text, mut seen) = (Text::default(), 0);
    loop {
        let replay = world.store.events_after(session, seen, 1000).await.unwrap();
        let store::Replay::Events { events, .. } = replay else {
            panic!("the log is whole");
        };
        if events.is_empty() {
            return text;
        }
        for event in events {
            seen = event.seq;
            text.apply(&serde_json::from_str(&event.body).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_begins_with_init_and_gets_what_follows() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    let init = client.hear().await.unwrap();
    assert_eq!(init["type"], "init");
    assert_eq!(init["session"]["client_status"], "running");
    assert!(init.get("resync").is_none(), "{init}");
    client.say(prompt("p1", "say hello there")).await;
    client.hear_until(is_finished("p1")).await;
    let numbers: Vec<u64> = client
        .frames
        .iter()
        .skip(1)
        .filter_map(|frame| frame["seq"].as_u64())
        .collect();
    let first = init["seq"].as_u64().unwrap() + 1;
    let expected: Vec<u64> = (first..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    assert_eq!(client.text, final_text(&world, session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cut_off_a_hundred_times_misses_nothing() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    // It does not listen, and there is room for all that it is told.
    let speaker = world.wire(watched(session, None), 64 << 20).await;
    let mut speaker = Client::over(speaker).await;
    let start = speaker.hear().await.unwrap()["seq"].as_u64().unwrap();
    let line = format!("say {}\nwait 2\n", "word ".repeat(30));
    let mut turn = 0;
    speaker.say(prompt("turn-0", &line.repeat(20))).await;
    let mut random = fastrand::Rng::with_seed(7);
    let (mut seen, mut numbers, mut text) = (start, Vec::new(), Text::default());
    let mut cuts = 0;
    'cuts: loop {
        cuts += 1;
        let mut client = Client::connect(&mut world, session, Some(seen)).await;
        for _ in 0..random.usize(1..60) {
            let heard = timeout(Duration::from_secs(20), client.hear()).await;
            let Ok(frame) = heard else {
                panic!("nothing after {seen} in turn {turn}, cut {cuts}");
            };
            let frame = frame.unwrap();
            assert_ne!(frame["type"], "init", "a short absence is replayed");
            text.apply(&frame);
            if let Some(seq) = frame["seq"].as_u64() {
                numbers.push(seq);
                seen = seq;
            }
            if is_finished(&format!("turn-{turn}"))(&frame) {
                if cuts >= 100 {
                    break 'cuts;
                }
                turn += 1;
                let next = prompt(&format!("turn-{turn}"), &line.repeat(20));
                speaker.say(next).await;
            }
        }
    }
    let expected: Vec<u64> = (start + 1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected, "no gap, and nothing twice");
    assert_eq!(text, final_text(&world, session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_in_the_middle_of_an_answer_gets_it_whole() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut first = Client::connect(&mut world, session, None).await;
    first
        .say(prompt(
            "p",
            &format!("say {}\nwait 20", "abc ".repeat(3000)),
        ))
        .await;
    first.hear_type("part.delta").await;
    let mut second = Client::connect(&mut world, session, None).await;
    second.hear_until(is_finished("p")).await;
    first.hear_until(is_finished("p")).await;
    let whole = final_text(&world, session).await;
    assert_eq!(first.text, whole);
    assert_eq!(second.text, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_never_given_begins_anew() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, Some(1_000_000)).await;
    let init = client.hear().await.unwrap();
    assert_eq!(
        (&init["type"], &init["resync"]),
        (&json!("init"), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_was_away_too_long_begins_anew() {
    let mut world = World::with(Settings {
        replayed: 5,
        ..Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let mut speaker = Client::connect(&mut world, session, None).await;
    speaker.say(prompt("p", "say a\nsay b\nsay c")).await;
    speaker.hear_until(is_finished("p")).await;
    let mut client = Client::connect(&mut world, session, Some(1)).await;
    let init = client.hear().await.unwrap();
    assert_eq!(
        (&init["type"], &init["resync"]),
        (&json!("init"), &json!(true))
    );
    let messages = init["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap()["parts"][2]["content"]["text"], "c");
}

/// What a client gets that takes nothing while more is told than is held for those who are behind.
async fn stalled(settings: Settings, way: Way) -> (Vec<Value>, u64) {
    let mut world = World::with(settings).await;
    let session = world.running().await.session();
    // Its way is full at once.
    let mut stalled = world.narrow(watched(session, Some(0)), way).await;
    let mut quick = Client::connect(&mut world, session, None).await;
    for turn in 0..12 {
        let (id, words) = (format!("p{turn}"), "w".repeat(500_000));
        quick.say(prompt(&id, &format!("write f {words}"))).await;
        quick.hear_until(is_finished(&id)).await;
    }
    let told = quick.frames.last().unwrap()["seq"].as_u64().unwrap();
    let (mut rest, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(Ok(length @ 1..)) = timeout(Duration::from_secs(1), stalled.read(&mut piece)).await
    {
        rest.extend_from_slice(&piece[..length]);
    }
    let (mut frames, mut rest) = (Vec::new(), &rest[..]);
    while rest.len() >= 2 {
        let (head, length) = match rest[1] {
            126 => (4, usize::from(u16::from_be_bytes([rest[2], rest[3]]))),
            127 => {
                let length = u64::from_be_bytes(rest[2..10].try_into().unwrap());
                (10, usize::try_from(length).unwrap())
            }
            short => (2, usize::from(short)),
        };
        if rest[0] == 0x81 {
            frames.push(serde_json::from_slice(&rest[head..head + length]).unwrap());
        }
        rest = &rest[head + length..];
    }
    assert!(rest.is_empty(), "every frame is whole");
    (frames, told)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_client_delays_nobody_and_gets_what_it_missed_from_the_log() {
    for way in [Way::Duplex, Way::Tcp] {
        let (frames, told) = stalled(Settings::usual(), way).await;
        let numbers = frames.iter().filter_map(|frame| frame["seq"].as_u64());
        let numbers: Vec<u64> = numbers.collect();
        let expected: Vec<u64> = (1..).take(numbers.len()).collect();
        assert_eq!(numbers, expected);
        assert!(numbers.last() >= Some(&told), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_client_that_missed_too_much_begins_anew() {
    for way in [Way::Duplex, Way::Tcp] {
        let settings = Settings {
            replayed: 50,
            ..Settings::usual()
        };
        let (frames, told) = stalled(settings, way).await;
        let anew = frames.iter().find(|frame| frame["type"] == "init").unwrap();
        assert_eq!(anew["resync"], true);
        assert!(anew["seq"].as_u64() >= Some(told), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_clients_get_the_same() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut speaker = Client::connect(&mut world, session, None).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let mut client = Client::connect(&mut world, session, None).await;
        clients.spawn(async move {
            client.hear_type("init").await;
            client.hear_until(is_finished("p")).await;
            client
        });
    }
    speaker
        .say(prompt("p", "say one two three four five six"))
        .await;
    speaker.hear_until(is_finished("p")).await;
    let whole = final_text(&world, session).await;
    let mut heard = 0;
    while let Some(client) = clients.join_next().await {
        let client = client.unwrap();
        assert_eq!(client.text, whole);
        heard += 1;
    }
    assert_eq!(heard, 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_what_wakes_are_told_without_gap() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, Some(0)).await;
    client.say(prompt("p1", "say one")).await;
    client.hear_until(is_finished("p1")).await;
    client.say(json!({ "type": "pause" })).await;
    client
        .hear_until(|frame| frame["type"] == "status" && frame["status"] == "paused")
        .await;
    client.say(prompt("p2", "say two")).await;
    client.hear_until(is_finished("p2")).await;
    let numbers = client.numbers();
    let expected: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_another_process_has_is_to_be_looked_for_again() {
    let mut world = World::with_short_lease().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client.hear_type("init").await;
    let other = world.another("second");
    world.let_lease_run_out().await;
    other.open(session).await.unwrap();
    // Our hub finds out when it writes.
    client.say(prompt("p", "say x")).await;
    let closing = async { while client.hear().await.is_some() {} };
    timeout(Duration::from_secs(20), closing).await.unwrap();
    assert_eq!(client.closed, Some(1012));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_comes_anew_is_heard_without_gap() {
    let mut world = World::with_short_lease().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, Some(0)).await;
    let other = world.another("second");
    world.let_lease_run_out().await;
    let theirs = other.open(session).await.unwrap();
    let new = store::prompts::NewPrompt {
        id: "theirs".to_owned(),
        channel: "web:default".to_owned(),
        mode: store::prompts::Mode::Followup,
        body: r#"{"content":"say theirs"}"#.to_owned(),
    };
    theirs.prompt(new).await.unwrap();
    other.shut_down().await;
    client.say(prompt("ours", "say ours")).await;
    client.hear_until(is_finished("theirs")).await;
    client.say(prompt("again", "say again")).await;
    client.hear_until(is_finished("again")).await;
    let numbers = client.numbers();
    let expected: Vec<u64> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_sees_what_waits_and_when_things_happened() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut first = Client::connect(&mut world, session, None).await;
    for (id, content) in [("p1", "wait 100000"), ("p2", "say two")] {
        first
            .say(json!({ "type": "prompt", "id": id, "content": content }))
            .await;
    }
    let queued = async |client: &mut Client| loop {
        let prompt = client.hear_type("prompt").await;
        if prompt["id"] == "p2" && prompt["status"] == "queued" {
            return prompt;
        }
    };
    let told = queued(&mut first).await;
    let at: model::Timestamp = told["at"].as_str().unwrap().parse().unwrap();
    let log = world.store.events_after(session, 0, 100).await.unwrap();
    let store::Replay::Events { events, .. } = log else {
        panic!("the log is whole");
    };
    let logged = events
        .iter()
        .find(|event| Some(event.seq) == told["seq"].as_u64());
    assert_eq!(logged.unwrap().at, at);
    let mut second = Client::connect(&mut world, session, None).await;
    let init = second.hear_type("init").await;
    let waits: Vec<&str> = init["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["id"].as_str().unwrap())
        .collect();
    assert_eq!(waits, ["p1", "p2"], "{init}");
    assert_eq!(init["prompts"][1]["status"], "queued");
    assert_eq!(init["prompts"][1]["content"], "say two");
}
