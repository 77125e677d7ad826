//! What clients say, and what comes of it.

use std::time::Duration;

use futures::SinkExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use nacre_gateway::{Audited, Settings, Watched};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use wire::v1::Role;

use crate::client::Client;
use crate::world::{World, caller, watched, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_is_answered() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client.say(json!({ "type": "ping" })).await;
    let pong = client.hear_type("pong").await;
    assert!(pong.get("seq").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_cannot_be_used_is_told_to_its_sender_and_the_socket_lives() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    let mut other = Client::connect(&mut world, session, None).await;
    for bad in [
        "",
        "x",
        "[]",
        "null",
        "{}",
        r#"{"type":"sudo"}"#,
        r#"{"type":7}"#,
        r#"{"type":"prompt"}"#,
        r#"{"type":"prompt","content":7}"#,
        r#"{"type":"prompt","content":"x","extra":1}"#,
        r#"{"type":"answer"}"#,
        r#"{"type":"permission","id":"x"}"#,
        r#"{"type":"revert"}"#,
        r#"{"type":"diff"}"#,
        r#"{"type":"review"}"#,
        r#"{"type":"command","request_id":"x"}"#,
        r#"{"type":"git_commit"}"#,
        r#"{"type":"git_create_branch"}"#,
    ] {
        client.socket.send(Message::text(bad)).await.unwrap();
        let error = client.hear_type("error").await;
        assert_eq!(error["code"], "bad-frame", "{bad}: {error}");
        assert!(error.get("seq").is_none());
    }
    let binary = Message::binary(vec![1, 2, 3]);
    client.socket.send(binary).await.unwrap();
    assert_eq!(client.hear_type("error").await["code"], "bad-frame");
    other.say(json!({ "type": "ping" })).await;
    other.hear_type("pong").await;
    assert!(other.frames.iter().all(|frame| frame["type"] != "error"));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_bad_frames_close_the_socket() {
    let mut world = World::with(Settings {
        bad_frames: 3,
        ..Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    for _ in 0..4 {
        client.socket.send(Message::text("x")).await.unwrap();
    }
    while client.hear().await.is_some() {}
    assert_eq!(client.closed, Some(1008));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_says_too_much_is_slowed() {
    let mut world = World::with(Settings {
        burst: 5,
        each_second: 1,
        ..Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    for _ in 0..6 {
        client.say(json!({ "type": "ping" })).await;
    }
    assert_eq!(client.hear_type("error").await["code"], "rate-limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_was_said_at_once_is_answered() {
    let mut world = World::with(Settings {
        burst: 10_000,
        ..Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    for _ in 0..1000 {
        let ping = Message::text(r#"{"type":"ping"}"#);
        client.socket.feed(ping).await.unwrap();
    }
    client.socket.flush().await.unwrap();
    for _ in 0..1000 {
        client.hear_type("pong").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_long_closes_the_socket() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    let long = json!({ "type": "prompt", "content": "x".repeat(1 << 20) });
    let _ = client.socket.send(Message::text(long.to_string())).await;
    while client.hear().await.is_some() {}
    assert_eq!(client.closed, Some(1009));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_looks_and_changes_nothing() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let stream = world
        .wire(
            Watched {
                caller: caller("eve", Role::Viewer),
                ..watched(session, None)
            },
            64 << 10,
        )
        .await;
    let mut viewer = Client::over(stream).await;
    viewer.hear_type("init").await;
    for frame in [
        json!({ "type": "prompt", "id": "p", "content": "say x" }),
        json!({ "type": "cancel" }),
        json!({ "type": "pause" }),
        json!({ "type": "save_snapshot" }),
        json!({ "type": "git_push" }),
        json!({ "type": "permission", "id": "x", "allow": true }),
        json!({ "type": "command", "request_id": "r", "command": "init" }),
    ] {
        viewer.say(frame.clone()).await;
        let error = viewer.hear_type("error").await;
        assert_eq!(error["code"], "forbidden", "{frame}");
        assert_eq!(error["frame"], frame["type"]);
    }
    viewer.say(json!({ "type": "get_status" })).await;
    assert_eq!(viewer.hear_type("status").await["status"], "running");
    assert!(world.fake.runs().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_sees_who_is_there() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut ada = Client::connect(&mut world, session, None).await;
    let bob = Watched {
        caller: caller("bob", Role::Owner),
        ..watched(session, None)
    };
    let stream = world.wire(bob, 64 << 10).await;
    let bob = Client::over(stream).await;
    let names = |frame: &Value| -> Vec<String> {
        let watchers = frame["watchers"].as_array().cloned().unwrap_or_default();
        let names = watchers
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect()
    };
    let both = ada
        .hear_until(|frame| frame["type"] == "presence" && names(frame).len() == 2)
        .await;
    assert_eq!(names(&both), ["ada", "bob"]);
    assert!(both.get("seq").is_none());
    drop(bob);
    ada.hear_until(|frame| frame["type"] == "presence" && names(frame) == ["ada"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_shutdown_clients_are_told_to_come_again() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client.hear_type("init").await;
    let gateway = world.gateway.clone();
    world.tasks.spawn(async move { gateway.shut_down().await });
    while client.hear().await.is_some() {}
    assert_eq!(client.closed, Some(1012));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_is_answered_with_its_code() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client.hear_type("init").await;
    client.socket.close(None).await.unwrap();
    while client.hear().await.is_some() {}
    assert_eq!(client.closed, Some(1000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_not_heard_is_gone() {
    let mut world = World::with(Settings {
        ping: Duration::from_millis(20),
        dead: Duration::from_millis(100),
        ..Settings::usual()
    })
    .await;
    let session = world.running().await.session();
    let _deaf = world.wire(watched(session, None), 1 << 20).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), world.tasks.join_next()).await;
    assert!(ended.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_wakes_a_session_unless_it_is_not_to() {
    let mut world = World::new().await;
    let asleep = world.record().await;
    let mut looker = Client::connect(&mut world, asleep, None).await;
    let init = looker.hear_type("init").await;
    assert_eq!(init["session"]["client_status"], "creating");
    assert!(
        world
            .fake
            .calls()
            .iter()
            .all(|call| call.operation != "ensure")
    );
    let waking = Watched {
        resume: true,
        ..watched(asleep, None)
    };
    let stream = world.wire(waking, 64 << 10).await;
    let _waker = Client::over(stream).await;
    looker
        .hear_until(|frame| frame["type"] == "status" && frame["status"] == "running")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_woken_is_told_and_the_socket_stays() {
    let mut world = World::new().await;
    let handle = world.running().await;
    let stop = model::session::StopReason::Manual;
    handle.stop(stop).await.unwrap();
    let waking = Watched {
        resume: true,
        ..watched(handle.session(), None)
    };
    let stream = world.wire(waking, 64 << 10).await;
    let mut client = Client::over(stream).await;
    assert_eq!(client.hear_type("error").await["code"], "session-stopped");
    client.say(json!({ "type": "ping" })).await;
    client.hear_type("pong").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_cancelled_and_a_question_answered() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client
        .say(json!({ "type": "prompt", "id": "p", "content": "ask which\nwait 100000" }))
        .await;
    let question = client.hear_type("question").await;
    client
        .say(json!({ "type": "answer", "question_id": question["question_id"] }))
        .await;
    client.say(json!({ "type": "cancel" })).await;
    let done = client.hear_type("message.done").await;
    assert_eq!(done["reason"], "canceled");
    client.say(json!({ "type": "save_snapshot" })).await;
    assert_eq!(client.hear_type("snapshot_result").await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn git_is_asked_in_the_sandbox_and_answered_to_the_one_who_asked() {
    let mut world = World::new().await;
    let handle = world.running().await;
    let place = handle.seen().borrow().place.unwrap();
    let mut listener = world.fake.listen(place.sandbox, 4000).await.unwrap();
    let bearer = format!("edge-of-{}", place.sandbox);
    let bearer = format!("Bearer {}", wire::keys::devtools_bearer(&bearer).unwrap());
    world.tasks.spawn(async move {
        while let Some(stream) = listener.accept().await {
            let bearer = bearer.clone();
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let bearer = bearer.clone();
                async move {
                    assert_eq!(request.headers()["authorization"], bearer.as_str());
                    let path = request.uri().to_string();
                    let body = request.into_body().collect().await?.to_bytes();
                    let body = String::from_utf8_lossy(&body).into_owned();
                    let answer = json!({ "path": path, "body": body, "success": true });
                    Ok::<_, hyper::Error>(Response::new(Full::new(bytes::Bytes::from(
                        answer.to_string(),
                    ))))
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    });
    let mut client = Client::connect(&mut world, handle.session(), None).await;
    client
        .say(json!({ "type": "git_status", "repo": "a b" }))
        .await;
    let status = client.hear_type("git_status").await;
    assert_eq!(status["path"], "/api/git/status?repo=a%20b");
    client
        .say(json!({ "type": "git_commit", "message": "m", "include_untracked": true }))
        .await;
    let result = client.hear_type("git_result").await;
    assert_eq!(result["path"], "/api/git/commit");
    assert!(
        result["body"]
            .as_str()
            .unwrap()
            .contains("\"message\":\"m\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_is_answered_to_the_one_who_asked_for_it() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client
        .say(json!({ "type": "git_create_pr", "title": "t", "base": "main" }))
        .await;
    let opened = client.hear_type("git_result").await;
    assert_eq!(
        (&opened["action"], &opened["success"]),
        (&json!("create_pr"), &json!(true))
    );
    assert_eq!(opened["code"], "SUCCESS");
    assert_eq!(opened["pr_url"], "https://git.example/a/b/pull/1");
    assert!(opened["seq"].is_null(), "{opened}");
    client
        .say(json!({ "type": "git_create_pr", "title": "other" }))
        .await;
    let refused = client.hear_type("git_result").await;
    assert_eq!(
        (&refused["success"], &refused["code"]),
        (&json!(false), &json!("AUTH_FAILED"))
    );
    assert!(refused["pr_url"].is_null(), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_cannot_be_asked_is_an_error_for_the_one_who_asked() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut client = Client::connect(&mut world, session, None).await;
    client.say(json!({ "type": "git_status" })).await;
    let error = client.hear_type("error").await;
    assert_eq!(error["code"], "sandbox-unreachable");
    assert_eq!(error["frame"], "git_status");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_left_when_everybody_went() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let client = Client::connect(&mut world, session, None).await;
    drop(client);
    within("the end of the socket", || {
        let is_over = world.tasks.try_join_next().is_some();
        async move { is_over }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_is_not_let_in_any_more_is_told_to_leave() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let watched = watched(session, None);
    let leave = std::sync::Arc::clone(&watched.leave);
    let mut client = Client::over(world.wire(watched, 64 << 10).await).await;
    client.hear_type("init").await;
    leave.cancel();
    while client.hear().await.is_some() {}
    assert_eq!(client.closed, Some(1008));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_over_a_socket_is_written_down_with_who_said_it() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut watched = watched(session, None);
    watched.caller.audited = Some(Audited {
        organisation: world.organisation,
        actor: "usr_ada".to_owned(),
    });
    let mut client = Client::over(world.wire(watched, 64 << 10).await).await;
    client
        .say(json!({ "type": "prompt", "id": "p", "content": "say one" }))
        .await;
    client.hear_type("message.done").await;
    client.say(json!({ "type": "get_status" })).await;
    client
        .say(json!({ "type": "save_snapshot", "message": "before lunch" }))
        .await;
    let taken = client.hear_type("snapshot_result").await;
    let lines = world.store.session_audit_lines(session, None, 10).await;
    let lines: Vec<(String, String)> = lines
        .unwrap()
        .into_iter()
        .map(|line| (line.action, line.actor))
        .collect();
    let ada = |action: &str| (action.to_owned(), "usr_ada".to_owned());
    assert_eq!(lines, [ada("session.save_snapshot"), ada("session.prompt")]);
    let snapshot = taken["snapshot"].as_str().unwrap();
    let snapshot = world.store.find_snapshot(snapshot).await.unwrap().unwrap();
    assert_eq!(snapshot.message.as_deref(), Some("before lunch"));
}
