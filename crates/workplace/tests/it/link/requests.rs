//! Questions to the hub, and its answers.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::hub::Hub;
use wire::link::{Asked, Failed, FromHub, FromRunner, SaveSnapshot, SavedSnapshot};
use workplace::link::{AskError, Who};

use super::world::{Road, Runner, World, soon};

/// A runner whose hub hears and says nothing.
async fn silence() -> (World, Runner) {
    let mut world = World::new();
    world.hub.answer_with(Box::new(|_| None));
    let runner = world.start();
    runner.connected(1).await;
    (world, runner)
}

/// The first that the hub is asked.
async fn question(hub: &Hub) -> Asked {
    let asked = hub.wait_for(|body| matches!(body, FromRunner::Request(_)));
    match asked.await.body {
        FromRunner::Request(asked) => asked,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_the_type_of_its_question() {
    let mut world = World::new();
    world.hub.answer_with(Box::new(|asked| {
        assert_eq!(asked.kind, "save_snapshot");
        assert_eq!(asked.channel.as_deref(), Some("slack:C1"));
        Some(Ok(json!({"snapshot_id": "snap_1", "later": true})))
    }));
    let runner = world.start();
    let who = Who {
        channel: Some("slack:C1".to_owned()),
        prompt_id: None,
    };
    let saved = soon(runner.handle.ask(&SaveSnapshot::default(), who)).await;
    let expected = SavedSnapshot {
        snapshot_id: "snap_1".to_owned(),
        took_ms: None,
    };
    assert_eq!(saved, Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn no_id_is_used_twice() {
    let mut world = World::new();
    let runner = world.start();
    for n in 0..10_000 {
        let asked = runner
            .handle
            .ask_for("memory_read", json!(n), Who::default());
        soon(asked).await.unwrap();
    }
    let ids: HashSet<String> = world.hub.look(|ledger| {
        ledger
            .bodies()
            .filter_map(|body| match body {
                FromRunner::Request(asked) => Some(asked.id.clone()),
                _ => None,
            })
            .collect()
    });
    assert_eq!(ids.len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_hub_is_told() {
    let mut world = World::new();
    world.hub.answer_with(Box::new(|_| {
        Some(Err(Failed {
            code: "refused".to_owned(),
            message: "only in setup sessions".to_owned(),
        }))
    }));
    let runner = world.start();
    let asked = runner
        .handle
        .ask_for("save_env_files", Value::Null, Who::default());
    let error = soon(asked).await.unwrap_err();
    assert_eq!(error.to_string(), "only in setup sessions");
}

#[tokio::test(start_paused = true)]
async fn a_silent_hub_is_waited_for_as_long_as_the_kind_deserves() {
    let (_world, runner) = silence().await;
    for (kind, patience) in [
        ("spawn_child", 60),
        ("create_pr", 30),
        ("call_tool", 30),
        ("task_my", 15),
    ] {
        let begun = tokio::time::Instant::now();
        let error = runner
            .handle
            .ask_for(kind, Value::Null, Who::default())
            .await
            .unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), patience, "{kind}");
        assert!(error.to_string().contains("unknown"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_survives_a_disconnection() {
    let (world, runner) = silence().await;
    let asking = runner
        .handle
        .ask_for("memory_read", Value::Null, Who::default());
    let meanwhile = async {
        let asked = question(&world.hub).await;
        world.road(Road::Closed);
        world.hub.die_and_come_back();
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.road(Road::Open);
        world.hub.say(FromHub::Result {
            id: asked.id,
            ok: Some(json!("after all")),
            error: None,
        });
    };
    let (answer, ()) = soon(async { tokio::join!(asking, meanwhile) }).await;
    assert_eq!(answer, Ok(json!("after all")));
}

#[tokio::test(start_paused = true)]
async fn a_request_made_while_the_hub_is_away_has_one_effect() {
    let mut world = World::new();
    world.road(Road::Closed);
    let runner = world.start();
    let asking = runner
        .handle
        .ask_for("spawn_child", Value::Null, Who::default());
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.road(Road::Open);
    };
    let (answer, ()) = soon(async { tokio::join!(asking, meanwhile) }).await;
    assert_eq!(answer, Ok(Value::Null));
    let requests = world.hub.look(|ledger| {
        ledger
            .bodies()
            .filter(|body| matches!(body, FromRunner::Request(_)))
            .count()
    });
    assert_eq!(requests, 1);
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_can_wait_are_refused() {
    let (_world, runner) = silence().await;
    let many = (0..300).map(|_| {
        runner
            .handle
            .ask_for("task_my", Value::Null, Who::default())
    });
    let answers = soon(futures::future::join_all(many)).await;
    let refused = answers
        .iter()
        .filter(|answer| **answer == Err(AskError::TooMany))
        .count();
    assert_eq!(refused, 44);
}

#[tokio::test(start_paused = true)]
async fn an_approval_takes_its_time() {
    let (world, runner) = silence().await;
    let asking = runner
        .handle
        .ask_for("actions", Value::Null, Who::default());
    let deciding = async {
        let asked = question(&world.hub).await;
        world.hub.say(FromHub::Pending {
            id: asked.id.clone(),
            wait_ms: 300_000,
        });
        tokio::time::sleep(Duration::from_secs(200)).await;
        world.hub.say(FromHub::Result {
            id: asked.id,
            ok: Some(json!("approved")),
            error: None,
        });
    };
    let (answer, ()) = soon(async { tokio::join!(asking, deciding) }).await;
    assert_eq!(answer, Ok(json!("approved")));
}
