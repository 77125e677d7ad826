//! The transcript is what the log tells.

use model::SignedDuration;
use nacre_store::{Error, Event, NewEvent, Role};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use wire::link::{FromRunner, Part, PartContent, Reason, Tool, ToolState, Usage};

use crate::oracle::Oracle;
use crate::world::World;

stories! {
    the_tables_are_what_the_log_tells_whatever_happens,
    a_turn_of_the_link_becomes_a_message_with_its_parts,
    what_a_person_says_is_whole_at_once,
    what_was_said_otherwise_asked_for_and_inherited_is_told_again_by_the_log,
    a_name_that_no_table_holds_is_refused,
    last_messages_are_those_that_were_not_taken_back,
    a_page_of_messages_is_bounded_by_bytes,
}

/// Few names, so that they meet.
fn happening() -> impl Strategy<Value = Value> {
    let message = prop::sample::select(vec!["m0", "m1", "m2"]);
    let part = prop::sample::select(vec!["p0", "p1", "p2"]);
    let content = prop_oneof![
        "[a-z\u{0}\u{1f980}]{0,6}".prop_map(|text| json!({"kind": "text", "text": text})),
        "[a-z]{0,3}".prop_map(
            |name| json!({"kind": "tool", "name": name, "call_id": "c", "status": "running"})
        ),
        Just(json!({"kind": "of tomorrow", "anything": [1, null]})),
    ];
    let reason = prop::sample::select(vec!["end_turn", "error", "canceled"]);
    prop_oneof![
        4 => message.clone().prop_map(|m| json!({"type": "message", "message_id": m, "channel": "web:default"})),
        1 => (message.clone(), content.clone()).prop_map(|(m, c)| json!({
            "type": "message", "message_id": m, "channel": "web:default", "role": "user", "prompt_id": "q",
            "author": {"id": "usr"},
            "parts": [{"part_id": "p0", "content": c}, {"part_id": "p1", "content": {"kind": "text", "text": "and"}}],
        })),
        8 => (message.clone(), part.clone(), content).prop_map(|(m, p, c)| json!({
            "type": "part", "message_id": m, "part_id": p, "content": c,
        })),
        2 => (message.clone(), part).prop_map(|(m, p)| json!({
            "type": "part.removed", "message_id": m, "part_id": p,
        })),
        2 => (message.clone(), reason).prop_map(|(m, r)| json!({
            "type": "message.done", "message_id": m, "reason": r, "text": "all of it",
            "usage": {"input_tokens": 1, "output_tokens": 2},
        })),
        1 => message.clone().prop_map(|m| json!({"type": "message.removed", "message_id": m})),
        1 => prop::collection::vec(message, 0..3)
            .prop_map(|all| json!({"type": "reverted", "message_ids": all})),
        1 => "q[01]".prop_map(|q| json!({
            "type": "question", "question_id": q, "channel": "web:default", "items": [],
        })),
        1 => "q[01]".prop_map(|q| json!({
            "type": "question_closed", "question_id": q, "outcome": {"kind": "gone"},
        })),
        1 => Just(json!({"type": "title", "title": "t"})),
    ]
}

async fn the_tables_are_what_the_log_tells_whatever_happens(world: World) {
    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let story = prop::collection::vec(happening(), 1..40);
    let handle = tokio::runtime::Handle::current();
    let told = tokio::task::block_in_place(|| {
        runner.run(&story, |events| {
            handle.block_on(tell(&world, events));
            Ok(())
        })
    });
    told.unwrap();
}

async fn tell(world: &World, events: Vec<Value>) {
    let fence = world.session().await;
    let mut expected = Oracle::default();
    for event in events {
        world.clock.advance(SignedDuration::from_millis(1));
        let next = world
            .store
            .load_session(fence.session)
            .await
            .unwrap()
            .last_seq
            + 1;
        let answer = world.append(fence, event.clone()).await;
        let heard = expected.hear(&Event {
            seq: next,
            at: world.now(),
            kind: event["type"].as_str().unwrap().to_owned(),
            body: event.to_string().into(),
        });
        match answer {
            Ok(_) => assert!(heard, "{event} was taken"),
            Err(Error::Misfit(why)) => assert!(!heard, "{event} was refused: {why}"),
            Err(error) => panic!("{event}: {error:?}"),
        }
    }
    let from_log = Oracle::of(&world.log(fence.session).await);
    for rebuilt in [false, true] {
        if rebuilt {
            let mut tx = world.store.begin().await.unwrap();
            let mut session = tx.fenced(fence).await.unwrap();
            session.rebuild_transcript().await.unwrap();
            tx.commit().await.unwrap();
        }
        let tables = world
            .store
            .messages_after(fence.session, 0, 100)
            .await
            .unwrap();
        assert_eq!(tables, expected.transcript(), "rebuilt: {rebuilt}");
        assert_eq!(tables, from_log.transcript(), "rebuilt: {rebuilt}");
        let questions = world.store.open_questions(fence.session).await.unwrap();
        let mut questions: Vec<&str> = questions.iter().map(|q| q.id.as_str()).collect();
        questions.sort_unstable();
        assert_eq!(questions, from_log.open_questions());
    }
}

async fn a_turn_of_the_link_becomes_a_message_with_its_parts(world: World) {
    let fence = world.session().await;
    let part = |part_id: &str, content| {
        FromRunner::Part(Part {
            message_id: "m".to_owned(),
            part_id: part_id.to_owned(),
            open: false,
            content,
        })
    };
    let tool = |status| {
        PartContent::Tool(Tool {
            call_id: "c".to_owned(),
            name: "bash".to_owned(),
            status,
            args: json!({"command": "ls"}),
            result: None,
            error: None,
            exit_code: None,
            under: None,
        })
    };
    let text = |text: &str| PartContent::Text {
        text: text.to_owned(),
    };
    let turn = [
        FromRunner::Message {
            message_id: "m".to_owned(),
            prompt_id: Some("p".to_owned()),
            channel: "web:default".to_owned(),
            agent_session: None,
        },
        part("1", text("Let me look.")),
        part("2", tool(ToolState::Running)),
        part("3", text("There.")),
        part("2", tool(ToolState::Completed)),
        FromRunner::MessageDone {
            message_id: "m".to_owned(),
            prompt_id: Some("p".to_owned()),
            reason: Reason::EndTurn,
            text: "Let me look.There.".to_owned(),
            error: None,
            usage: Some(Usage::default()),
        },
    ];
    let events = turn.iter().map(|frame| NewEvent::new(frame).unwrap());
    world
        .store
        .append(world.write(fence).events(events))
        .await
        .unwrap();
    let messages = world
        .store
        .messages_after(fence.session, 0, 10)
        .await
        .unwrap();
    let [message] = &messages[..] else {
        panic!("{messages:?}");
    };
    assert_eq!((message.role, message.position), (Role::Assistant, 1));
    assert_eq!(message.done.as_ref().unwrap().reason, "end_turn");
    let parts: Vec<(&str, &str)> = message
        .parts
        .iter()
        .map(|part| (part.id.as_str(), part.kind.as_str()))
        .collect();
    assert_eq!(parts, [("1", "text"), ("2", "tool"), ("3", "text")]);
    let content: PartContent = serde_json::from_value(message.parts[1].content.clone()).unwrap();
    assert_eq!(content, tool(ToolState::Completed));
    let late = world
        .append(fence, serde_json::to_value(&turn[1]).unwrap())
        .await;
    assert!(matches!(late, Err(Error::Misfit(_))));
}

async fn what_a_person_says_is_whole_at_once(world: World) {
    let fence = world.session().await;
    let said = json!({
        "type": "message", "message_id": "m", "role": "user", "channel": "slack:C1", "prompt_id": "p",
        "author": {"id": "usr_1", "name": "Ada"},
        "parts": [{"part_id": "1", "content": {"kind": "text", "text": "Please."}}],
    });
    world.append(fence, said).await.unwrap();
    let messages = world.store.last_messages(fence.session, 10).await.unwrap();
    assert_eq!(messages[0].role, Role::User);
    assert_eq!(messages[0].parts[0].content["text"], "Please.");
    assert_eq!(messages[0].author.as_ref().unwrap()["name"], "Ada");
    assert!(messages[0].done.is_some());
}

async fn what_was_said_otherwise_asked_for_and_inherited_is_told_again_by_the_log(world: World) {
    let fence = world.session().await;
    let told = [
        json!({"type": "message", "message_id": "inh-a", "channel": "web:default", "inherited": true,
            "created_at": "2025-12-31T23:59:58Z"}),
        json!({"type": "part", "message_id": "inh-a", "part_id": "p",
            "content": {"kind": "text", "text": "before"}}),
        json!({"type": "message.done", "message_id": "inh-a", "reason": "end_turn",
            "done_at": "2025-12-31T23:59:59Z"}),
        json!({"type": "message", "message_id": "usr-p", "channel": "web:default", "role": "user",
            "prompt_id": "p", "parts": [{"part_id": "text", "content": {"kind": "text", "text": "go"}}]}),
        json!({"type": "prompt", "id": "p", "status": "queued"}),
        json!({"type": "prompt", "id": "p", "status": "queued", "content": "stay"}),
        json!({"type": "env_request", "id": "one", "keys": []}),
        json!({"type": "env_request", "id": "two", "keys": []}),
        json!({"type": "env_request", "id": "one", "keys": []}),
        json!({"type": "env_answered", "id": "two"}),
    ];
    let events = told.map(|event| NewEvent::from_json(event.to_string()).unwrap());
    let store = &world.store;
    let mut tx = store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    session.append(&events, world.now()).await.unwrap();
    tx.commit().await.unwrap();
    let shown = async || {
        let messages = store.last_messages(fence.session, 10).await.unwrap();
        let asked = store.open_env_requests(fence.session).await.unwrap();
        (messages, asked)
    };
    let (messages, asked) = shown().await;
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].id, "one");
    assert_eq!(messages[1].parts[0].content["text"], "stay");
    let before = &messages[0];
    assert!(before.inherited && !messages[1].inherited);
    assert_eq!(before.created_at.to_string(), "2025-12-31T23:59:58Z");
    let done = before.done.as_ref().unwrap();
    assert_eq!(done.at.to_string(), "2025-12-31T23:59:59Z");
    let old = store.last_messages_until(fence.session, done.at, 10).await;
    assert_eq!(old.unwrap(), messages[..1]);
    let mut tx = store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    session.rebuild_transcript().await.unwrap();
    let again = NewEvent::from_json(json!({"type": "env_answered", "id": "two"}).to_string());
    let refused = session.append(&[again.unwrap()], world.now()).await;
    assert!(matches!(refused, Err(Error::Misfit(_))), "{refused:?}");
    tx.rollback().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let mut session = tx.fenced(fence).await.unwrap();
    session.rebuild_transcript().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shown().await, (messages, asked));
}

async fn a_name_that_no_table_holds_is_refused(world: World) {
    let fence = world.session().await;
    let long = "x".repeat(129);
    for name in ["a\0b", &long] {
        let events = [
            json!({"type": "message", "message_id": name, "channel": "web:default"}),
            json!({"type": "message", "message_id": "m", "channel": name}),
            json!({"type": "message.removed", "message_id": name}),
            json!({"type": "message.done", "message_id": name, "reason": "error"}),
            json!({"type": "part.removed", "message_id": "m", "part_id": name}),
            json!({"type": "reverted", "message_ids": [name]}),
            json!({"type": "question_closed", "question_id": name, "outcome": {}}),
        ];
        for event in events {
            let refused = world.append(fence, event.clone()).await;
            let of_the_writer = matches!(refused, Err(Error::Misfit(_) | Error::TooLarge { .. }));
            assert!(of_the_writer, "{event}: {refused:?}");
        }
    }
    let many = vec!["m"; 1001];
    let refused = world
        .append(fence, json!({"type": "reverted", "message_ids": many}))
        .await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    assert!(world.log(fence.session).await.is_empty());
}

async fn last_messages_are_those_that_were_not_taken_back(world: World) {
    let fence = world.session().await;
    for id in ["a", "b", "c", "d"] {
        let open = json!({"type": "message", "message_id": id, "channel": "web:default"});
        world.append(fence, open).await.unwrap();
        let part = json!({"type": "part", "message_id": id, "part_id": "p",
            "content": {"kind": "text", "text": id}});
        world.append(fence, part).await.unwrap();
    }
    let gone = json!({"type": "message.removed", "message_id": "c"});
    world.append(fence, gone).await.unwrap();
    let last = world.store.last_messages(fence.session, 2).await.unwrap();
    let last: Vec<(&str, usize)> = last
        .iter()
        .map(|m| (m.id.as_str(), m.parts.len()))
        .collect();
    assert_eq!(last, [("b", 1), ("d", 1)]);
}

async fn a_page_of_messages_is_bounded_by_bytes(world: World) {
    let fence = world.session().await;
    let long = "x".repeat(900_000);
    for number in 0..8 {
        let id = format!("m{number}");
        let open = json!({"type": "message", "message_id": id, "channel": "web:default"});
        world.append(fence, open).await.unwrap();
        let part = json!({"type": "part", "message_id": id, "part_id": "p",
            "content": {"kind": "text", "text": long}});
        world.append(fence, part).await.unwrap();
    }
    let first = world
        .store
        .messages_after(fence.session, 0, 100)
        .await
        .unwrap();
    let ids: Vec<&str> = first.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["m0", "m1", "m2", "m3"]);
    let after = first.last().unwrap().position;
    let second = world
        .store
        .messages_after(fence.session, after, 100)
        .await
        .unwrap();
    assert_eq!(second.len(), 4);
    let last = world.store.last_messages(fence.session, 100).await.unwrap();
    let ids: Vec<&str> = last.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids, ["m4", "m5", "m6", "m7"]);
    assert!(last.iter().all(|message| message.parts.len() == 1));
}
