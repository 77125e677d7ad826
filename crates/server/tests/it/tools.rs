//! What an agent's tools ask of the server, and where people find it again.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::{Clock as _, SignedDuration, SystemClock};
use serde_json::{Value, json};
use sessions::{Handle, Outside as _};
use wire::link::{Asked, Failed};

use crate::world::{Somebody, World};

/// A session that runs, and its hub.
async fn running(world: &World, who: &Somebody, new: Value) -> (String, Handle) {
    let session = world.post(who, "/v1/sessions", new).await;
    let id = session["id"].as_str().unwrap().to_owned();
    world
        .post(who, &format!("/v1/sessions/{id}/resume"), json!({}))
        .await;
    let hub = world.sessions.open(id.parse().unwrap()).await.unwrap();
    (id, hub)
}

/// What a tool in the sandbox asks, under an id of its own.
async fn ask(
    world: &World,
    hub: &Handle,
    id: &str,
    kind: &str,
    payload: Value,
) -> Result<Value, Failed> {
    let asked = Asked {
        id: id.to_owned(),
        kind: kind.to_owned(),
        payload,
        channel: None,
        prompt_id: None,
    };
    world.outside.answer(hub.clone(), asked).await
}

/// Dev tools with these files in the folder that is shown, as they say themselves.
async fn dev_tools(world: &mut World, hub: &Handle, files: &[(&str, &[u8])]) {
    let place = hub.seen().borrow().place.unwrap();
    let mut listener = world.fake.listen(place.sandbox, 4000).await.unwrap();
    let files: Vec<(String, Bytes)> = files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), Bytes::copy_from_slice(content)))
        .collect();
    let files = Arc::new(files);
    world.tasks.spawn(async move {
        while let Some(stream) = listener.accept().await {
            let files = Arc::clone(&files);
            let service = service_fn(move |request: Request<Incoming>| {
                let files = Arc::clone(&files);
                async move { Ok::<_, Infallible>(served(&files, request.uri())) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    });
}

fn served(files: &[(String, Bytes)], uri: &hyper::Uri) -> Response<Full<Bytes>> {
    let query = uri.query().unwrap_or_default();
    if uri.path() == "/api/tunnels" {
        let tunnels = json!({ "tunnels": [{ "name": "web", "port": 3000, "protocol": "http" }] });
        return Response::new(Full::from(tunnels.to_string()));
    }
    if uri.path() == "/api/env/values" || uri.path() == "/api/terminals/main" {
        return Response::new(Full::from(r#"{"ok":true}"#));
    }
    if uri.path() == "/api/terminals" {
        let terminal = json!({ "name": "main", "pid": 7, "rows": 24, "columns": 80, "viewers": 1,
            "started_at": "2026-01-01T00:00:00Z", "typed_at": null });
        return Response::new(Full::from(json!({ "terminals": [terminal] }).to_string()));
    }
    if uri.path() == "/api/evidence" {
        assert_eq!(query, "folder=.nacre%2F.verification");
        let listed: Vec<Value> = files
            .iter()
            .map(|(path, content)| {
                json!({ "path": path, "size": content.len(), "content_type": "image/png" })
            })
            .collect();
        let body = json!({ "files": listed, "left_out": 0 });
        return Response::new(Full::from(body.to_string()));
    }
    let found = files.iter().find(|(path, _)| {
        query == format!("path=.nacre%2F.verification%2F{}", path.replace('/', "%2F"))
    });
    if let Some((_, content)) = found {
        return Response::new(Full::new(content.clone()));
    }
    let mut missing = Response::new(Full::from(r#"{"error":"no such file"}"#));
    *missing.status_mut() = StatusCode::NOT_FOUND;
    missing
}

#[tokio::test]
async fn what_a_session_shows_is_kept_once_and_outlives_its_sandbox() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({})).await;
    let shot: &[u8] = &[0x89, b'P', 0, 255];
    dev_tools(
        &mut world,
        &hub,
        &[("shot.png", shot), ("out/log.txt", b"ok")],
    )
    .await;
    for _ in 0..2 {
        let kept = ask(&world, &hub, "r1", "verify", json!({})).await.unwrap();
        assert_eq!(kept["files"].as_array().unwrap().len(), 2);
    }
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    world.post(&ada, &at("stop"), json!({})).await;
    let list = world.get(&ada, &at("evidence?limit=1")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let cursor = list["next_cursor"].as_str().unwrap();
    let rest = world
        .get(&ada, &at(&format!("evidence?cursor={cursor}")))
        .await;
    assert!(rest.get("next_cursor").is_none());
    let all = [&list["items"][0], &rest["items"][0]];
    let png = all.into_iter().find(|file| file["path"] == "shot.png");
    let png = png.unwrap();
    assert_eq!(
        (&png["media_type"], &png["size"]),
        (&json!("image/png"), &json!(4))
    );
    let path = at(&format!("evidence/{}", png["id"].as_str().unwrap()));
    let answer = world.ask(&ada, Method::GET, &path).await;
    assert_eq!(answer.body, shot);
    assert_eq!(answer.headers["content-type"], "application/octet-stream");
    assert_eq!(answer.headers["content-disposition"], "attachment");
    // Under another session's address it is not there.
    let other = world.session(&ada).await;
    let elsewhere = format!(
        "/v1/sessions/{other}/evidence/{}",
        png["id"].as_str().unwrap()
    );
    assert_eq!(world.ask(&ada, Method::GET, &elsewhere).await.status, 404);
}

#[tokio::test]
async fn what_a_hostile_sandbox_shows_is_not_kept() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let too_long = vec![0; (16 << 20) + 1];
    for (path, content) in [
        ("../../etc/passwd", &b"x"[..]),
        ("/etc/passwd", b"x"),
        ("long", &too_long),
    ] {
        let (id, hub) = running(&world, &ada, json!({})).await;
        dev_tools(&mut world, &hub, &[("fine", b"ok"), (path, content)]).await;
        let refused = ask(&world, &hub, "r", "verify", json!({})).await;
        assert_eq!(refused.unwrap_err().code, "refused", "{path}");
        let list = world
            .get(&ada, &format!("/v1/sessions/{id}/evidence"))
            .await;
        assert_eq!(list["items"], json!([]), "{path}");
    }
    let folder = world.directory.path().join("uploads/evidence");
    let left = fs_err::read_dir(folder).unwrap().count();
    assert_eq!(left, 0);
    let (_, hub) = running(&world, &ada, json!({})).await;
    let folder = json!({ "folder": "../.." });
    let refused = ask(&world, &hub, "r", "verify", folder).await.unwrap_err();
    assert_eq!(refused.code, "bad_request");
}

fn rename(title: &str) -> Value {
    json!({ "do": "run", "integration": "session", "action": "rename",
        "params": { "title": title } })
}

#[tokio::test]
async fn an_action_waits_for_a_person_and_is_done_once() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let vic = world
        .member(ada.organisation, store::accounts::Role::Viewer)
        .await;
    let (id, hub) = running(&world, &ada, json!({ "title": "before" })).await;
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    let asked = ask(&world, &hub, "r1", "actions", rename("after")).await;
    let asked = asked.unwrap();
    assert_eq!(asked["status"], "pending");
    let again = ask(&world, &hub, "r1", "actions", rename("after")).await;
    assert_eq!(again.unwrap(), asked);
    let list = world.get(&ada, &at("actions")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["status"], "pending");
    let action = asked["invocation"].as_str().unwrap();
    let approve = at(&format!("actions/{action}/approve"));
    assert_eq!(world.ask(&vic, Method::POST, &approve).await.status, 403);
    assert_eq!(
        world.get(&ada, &format!("/v1/sessions/{id}")).await["title"],
        "before"
    );
    for _ in 0..2 {
        let approved = world.post(&ada, &approve, json!({})).await;
        assert_eq!(approved["status"], "completed");
        assert_eq!(approved["decided_by"], ada.user.to_string());
    }
    let deny = at(&format!("actions/{action}/deny"));
    let late = world.ask(&ada, Method::POST, &deny).await;
    assert_eq!((late.status, &*late.code()), (409, "action-decided"));
    let status = json!({ "do": "status", "invocation": action });
    let told = ask(&world, &hub, "r2", "actions", status).await.unwrap();
    assert_eq!(
        told,
        json!({ "status": "completed", "result": { "title": "after" } })
    );
    assert_eq!(
        world.get(&ada, &format!("/v1/sessions/{id}")).await["title"],
        "after"
    );
    let log = world
        .store
        .events_after(hub.session(), 0, 1000)
        .await
        .unwrap();
    let store::Replay::Events { events, .. } = log else {
        panic!("the log is whole");
    };
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!(count("action_approval_request"), 1);
    assert_eq!(count("action_approval_result"), 1);
    assert_eq!(count("title"), 1);
}

#[tokio::test]
async fn an_action_that_is_denied_or_forgotten_is_not_done() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({ "title": "before" })).await;
    let asked = ask(&world, &hub, "r1", "actions", rename("after")).await;
    let action = asked.unwrap()["invocation"].as_str().unwrap().to_owned();
    let deny = format!("/v1/sessions/{id}/actions/{action}/deny");
    let denied = world.post(&ada, &deny, json!({ "message": "no" })).await;
    assert_eq!(denied["status"], "denied");
    let status = json!({ "do": "status", "invocation": action });
    let told = ask(&world, &hub, "r2", "actions", status).await.unwrap();
    assert_eq!(told, json!({ "status": "denied", "message": "no" }));
    // Of one that nobody decided in time.
    let long_ago = SystemClock.now() - SignedDuration::from_hours(1);
    let old = store::actions::NewAction {
        id: model::Id::new(&SystemClock),
        session: hub.session(),
        request: "r3".to_owned(),
        integration: "session".to_owned(),
        action: "rename".to_owned(),
        params: json!({ "title": "after" }).to_string(),
        risk: store::actions::Risk::Write,
        status: store::actions::Status::Pending,
        at: long_ago,
        expires_at: long_ago + SignedDuration::from_mins(5),
    };
    let mut tx = world.store.begin().await.unwrap();
    tx.ask_for_action(&old).await.unwrap();
    tx.commit().await.unwrap();
    let approve = format!("/v1/sessions/{id}/actions/{}/approve", old.id);
    let late = world.ask(&ada, Method::POST, &approve).await;
    assert_eq!((late.status, &*late.code()), (409, "action-expired"));
    let status = json!({ "do": "status", "invocation": old.id.to_string() });
    let told = ask(&world, &hub, "r4", "actions", status).await.unwrap();
    assert_eq!(told, json!({ "status": "expired" }));
    assert_eq!(
        world.get(&ada, &format!("/v1/sessions/{id}")).await["title"],
        "before"
    );
}

#[tokio::test]
async fn what_only_reads_is_done_at_once_and_what_is_unknown_is_refused() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({})).await;
    let path = format!("/v1/sessions/{id}/snapshots");
    let named = json!({ "message": "before lunch" });
    world.post(&ada, &path, named).await;
    let read = json!({ "do": "run", "integration": "session", "action": "snapshots" });
    let told = ask(&world, &hub, "r1", "actions", read).await.unwrap();
    let snapshots = told["result"]["snapshots"].as_array().unwrap();
    assert_eq!(snapshots[0]["message"], "before lunch");
    let listed = world.get(&ada, "/v1/snapshots").await;
    assert_eq!(listed["items"][0]["message"], "before lunch");
    for (place, wrong) in [
        json!({ "do": "run", "integration": "session", "action": "sudo" }),
        json!({ "do": "run", "integration": "session", "action": "rename" }),
        json!({ "do": "status", "invocation": "act_none" }),
        json!({ "do": "guide", "integration": "nobody" }),
        rename("a\nb"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("wrong-{place}");
        let refused = ask(&world, &hub, &id, "actions", wrong.clone()).await;
        assert!(refused.is_err(), "{wrong}");
    }
    let list = world.get(&ada, &format!("/v1/sessions/{id}/actions")).await;
    assert_eq!(list["available"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_setup_session_keeps_what_it_found_out_and_no_other_does() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let commands = json!({ "commands": [{ "name": "web", "command": "npm run dev" }] });
    let files = json!({ "files": [{ "path": ".env", "keys": [{ "key": "TOKEN" }] }] });
    let (_, coding) = running(&world, &ada, json!({})).await;
    for (kind, payload) in [
        ("save_service_commands", &commands),
        ("save_env_files", &files),
    ] {
        let refused = ask(&world, &coding, "r", kind, payload.clone()).await;
        assert_eq!(refused.unwrap_err().code, "refused", "{kind}");
    }
    let (id, setup) = running(&world, &ada, json!({ "type": "setup" })).await;
    let path = format!("/v1/sessions/{id}/setup");
    let nothing = world.get(&ada, &path).await;
    assert_eq!(nothing, json!({ "services": [], "env_files": [] }));
    let save = async |id: &str, kind: &str, payload: &Value| {
        ask(&world, &setup, id, kind, payload.clone())
            .await
            .unwrap()
    };
    save("r1", "save_service_commands", &commands).await;
    save("r2", "save_env_files", &files).await;
    let found = world.get(&ada, &path).await;
    assert_eq!(found["services"], commands["commands"]);
    assert_eq!(found["env_files"][0]["path"], ".env");
    let many: Vec<Value> = (0..65)
        .map(|n| json!({ "name": format!("s{n}"), "command": "x" }))
        .collect();
    let many = json!({ "commands": many });
    let refused = ask(&world, &setup, "r3", "save_service_commands", many).await;
    assert_eq!(refused.unwrap_err().code, "bad_request");
}

#[tokio::test]
async fn tunnels_and_children_are_listed() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({})).await;
    dev_tools(&mut world, &hub, &[]).await;
    let at = |what: &str| format!("/v1/sessions/{id}/{what}");
    let tunnels = world.get(&ada, &at("tunnels")).await;
    assert_eq!(tunnels["tunnels"][0]["name"], "web");
    let url = tunnels["tunnels"][0]["url"].as_str().unwrap();
    assert!(url.starts_with("http://3000-ses-"), "{url}");
    let child = world
        .post(&ada, &at("fork"), json!({ "title": "child" }))
        .await;
    let children = world.get(&ada, &at("children")).await;
    assert_eq!(children["items"][0]["id"], child["id"]);
    assert_eq!(children["items"][0]["title"], "child");
}

#[tokio::test]
async fn values_that_are_asked_for_wait_until_somebody_gives_them() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({})).await;
    dev_tools(&mut world, &hub, &[]).await;
    let keys = json!({ "keys": [{ "key": "API_KEY", "secret": true }] });
    for _ in 0..2 {
        let asked = ask(&world, &hub, "r1", "request_env_variables", keys.clone()).await;
        assert_eq!(asked.unwrap()["status"], "asked");
    }
    let session = hub.session();
    let waiting = async || world.store.open_env_requests(session).await.unwrap();
    let asked = waiting().await;
    assert_eq!(asked.len(), 1);
    let body: Value = serde_json::from_str(&asked[0].body).unwrap();
    assert_eq!(
        (&body["id"], &body["keys"][0]["key"]),
        (&json!("r1"), &json!("API_KEY"))
    );
    let give = json!({ "id": "r1", "values": { "API_KEY": "sk-pearl" } });
    let path = format!("/v1/sessions/{id}/env");
    for _ in 0..2 {
        let given = world.say(&ada, Method::POST, &path, give.clone()).await;
        assert_eq!(given.status, 204, "{given:?}");
    }
    assert_eq!(waiting().await, []);
    let store::Replay::Events { events, .. } =
        world.store.events_after(session, 0, 1000).await.unwrap()
    else {
        panic!("the log is short");
    };
    let told: Vec<_> = events.iter().filter(|e| e.kind == "env_answered").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(&*told[0].body, r#"{"id":"r1","type":"env_answered"}"#);
    assert!(!events.iter().any(|event| event.body.contains("sk-pearl")));
}

#[tokio::test]
async fn terminals_that_run_are_listed_and_ended() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let (id, hub) = running(&world, &ada, json!({})).await;
    dev_tools(&mut world, &hub, &[]).await;
    let path = format!("/v1/sessions/{id}/terminals");
    let listed = world.get(&ada, &path).await;
    assert_eq!(listed["terminals"][0]["name"], "main");
    let ended = world
        .ask(&ada, Method::DELETE, &format!("{path}/main"))
        .await;
    assert_eq!(ended.status, 204, "{ended:?}");
}
