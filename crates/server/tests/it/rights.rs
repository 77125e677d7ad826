//! Organisations and who may enter them, the audit, links that were given away, looking.

use std::time::Duration;

use http_body_util::Full;
use hyper::{Method, Request, header};
use model::{Clock as _, SystemClock};
use serde_json::{Value, json};
use store::accounts::Role;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::runner::Runner;
use crate::world::{Somebody, World};

fn with_token(who: &Somebody, made: &Value) -> Somebody {
    Somebody {
        token: made["token"].as_str().unwrap().to_owned(),
        ..who.clone()
    }
}

#[tokio::test]
async fn who_makes_an_organisation_can_enter_it() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let made = world
        .post(&ada, "/v1/orgs", json!({ "name": "pearls" }))
        .await;
    let id = made["id"].as_str().unwrap();
    let path = format!("/v1/orgs/{id}");
    assert_eq!(world.get(&ada, &path).await["name"], "pearls");
    let body = json!({ "name": "t", "org_id": id });
    let token = world.post(&ada, "/v1/tokens", body).await;
    let inside = with_token(&ada, &token);
    assert_eq!(world.get(&inside, "/v1/me").await["org_id"], id);
    let code = json!({ "org_id": id });
    let code = world.post(&ada, "/v1/login/codes", code).await;
    let code = code["url"].as_str().unwrap().split_once('#').unwrap().1;
    let login = world
        .request(Method::POST, "/v1/login")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::from(json!({ "code": code }).to_string()));
    let login = world.send(login.unwrap()).await;
    assert_eq!(login.json()["org_id"], id);
    let renamed = json!({ "name": "mother of pearl" });
    let renamed = world.say(&ada, Method::PATCH, &path, renamed).await;
    assert_eq!(renamed.json()["name"], "mother of pearl");
}

#[tokio::test]
async fn nobody_enters_an_organisation_that_is_not_theirs() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let id = ada.organisation.to_string();
    let path = format!("/v1/orgs/{id}");
    let audit = format!("{path}/audit");
    for (method, path, body) in [
        (Method::GET, &*path, json!({})),
        (Method::PATCH, &*path, json!({ "name": "x" })),
        (Method::GET, &*audit, json!({})),
        (
            Method::POST,
            "/v1/tokens",
            json!({ "name": "x", "org_id": id }),
        ),
        (Method::POST, "/v1/login/codes", json!({ "org_id": id })),
    ] {
        let answer = world.say(&eve, method.clone(), path, body).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
    }
    // What somebody may in one organisation, they may not in another.
    let viewer = world.member(ada.organisation, Role::Viewer).await;
    let mut tx = world.store.begin().await.unwrap();
    tx.set_role(
        eve.organisation,
        viewer.user,
        Role::Owner,
        SystemClock.now(),
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let there = json!({ "name": "t", "org_id": eve.organisation.to_string() });
    let refused = world.say(&viewer, Method::PATCH, &path, json!({ "name": "x" }));
    assert_eq!(refused.await.status, 403);
    let token = world.post(&viewer, "/v1/tokens", there).await;
    let owner = with_token(&viewer, &token);
    let back = json!({ "name": "t", "org_id": id });
    let refused = world.say(&owner, Method::POST, "/v1/tokens", back).await;
    assert_eq!(refused.status, 403);
}

#[tokio::test]
async fn owners_read_who_did_what_a_page_at_a_time() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let bob = world.member(ada.organisation, Role::Member).await;
    let session = world.session(&bob).await;
    let migrate = format!("/v1/sessions/{session}/migrate");
    // Refused; that it was asked for is known.
    let refused = world.say(&bob, Method::POST, &migrate, json!({})).await;
    assert_eq!(refused.status, 409);
    let path = format!("/v1/orgs/{}/audit", ada.organisation);
    let first = world.get(&ada, &format!("{path}?limit=1")).await;
    let line = &first["items"][0];
    assert_eq!(line["action"], "session.migrate");
    assert_eq!(line["actor"], bob.user.to_string());
    assert_eq!(line["session_id"], session);
    let cursor = first["next_cursor"].as_str().unwrap();
    let next = world.get(&ada, &format!("{path}?cursor={cursor}")).await;
    assert_eq!(next["items"][0]["action"], "session.create");
    assert_eq!(world.ask(&bob, Method::GET, &path).await.status, 403);
}

#[tokio::test]
async fn links_that_were_given_away_are_listed_without_the_links() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("/v1/sessions/{}/shares", world.session(&ada).await);
    let made = json!({ "port": 3000, "expires_in_ms": 60_000 });
    let made = world.post(&ada, &path, made).await;
    let id = made["id"].as_str().unwrap();
    let listed = world.get(&ada, &path).await;
    assert_eq!(listed["items"][0]["id"], id);
    assert_eq!(listed["items"][0]["port"], 3000);
    let link = made["url"].as_str().unwrap().split_once('=').unwrap().1;
    assert!(!listed.to_string().contains(link));
    let taken = world
        .ask(&ada, Method::DELETE, &format!("{path}/{id}"))
        .await;
    assert_eq!(taken.status, 204);
    let listed = world.get(&ada, &path).await;
    assert!(listed["items"][0]["revoked_at"].is_string());
}

#[tokio::test]
async fn a_link_that_is_taken_back_loses_the_sockets_that_it_opened() {
    let mut world = World::new().await;
    let ada = world.somebody().await;
    let session = world.session(&ada).await;
    let path = format!("/v1/sessions/{session}");
    let running = world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let sandbox = running["sandbox_id"].as_str().unwrap().parse().unwrap();
    let mut program = world.fake.listen(sandbox, 3000).await.unwrap();
    world.tasks.spawn(async move {
        while let Some(mut stream) = program.accept().await {
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(SWITCHED).await;
            // It says nothing, and stays.
            let _ = stream.read(&mut asked).await;
        }
    });
    let share = json!({ "port": 3000, "expires_in_ms": 60_000 });
    let share = world.post(&ada, &format!("{path}/shares"), share).await;
    let link = share["url"].as_str().unwrap().split_once("nacre_share=");
    let host = format!("3000-{}.preview.nacre.localhost", session.replace('_', "-"));
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let asked = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\ncookie: __Host-nacre-preview={}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\norigin: http://{host}\r\n\r\n",
        link.unwrap().1
    );
    socket.write_all(asked.as_bytes()).await.unwrap();
    let mut heard = vec![0; 4096];
    let length = socket.read(&mut heard).await.unwrap();
    let heard = String::from_utf8_lossy(&heard[..length]).into_owned();
    assert!(heard.starts_with("HTTP/1.1 101"), "{heard}");
    let share = format!("{path}/shares/{}", share["id"].as_str().unwrap());
    assert_eq!(world.ask(&ada, Method::DELETE, &share).await.status, 204);
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut rest));
    assert!(ended.await.is_ok(), "the socket is still open");
}

const SWITCHED: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";

#[tokio::test]
async fn to_look_into_a_sandbox_wakes_nobody() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let vic = world.member(ada.organisation, Role::Viewer).await;
    let session = world.session(&ada).await;
    let path = format!("/v1/sessions/{session}");
    for what in [
        "files?path=x",
        "files/list",
        "ports",
        "tunnels",
        "services",
        "services/web/logs",
        "git/status",
        "git/diff",
    ] {
        for who in [&vic, &ada] {
            let looked = world.ask(who, Method::GET, &format!("{path}/{what}")).await;
            let refused = (looked.status, &*looked.code());
            assert_eq!(refused, (409, "session-not-running"), "{what}");
        }
    }
    assert_eq!(world.get(&ada, &path).await["generation"], 0);
}

/// What a browser brings to a preview, from there.
fn visit(session: &str, cookie: &str) -> Request<Full<hyper::body::Bytes>> {
    let host = format!("3000-{}.preview.nacre.localhost", session.replace('_', "-"));
    let request = Request::get("/")
        .header(header::HOST, host)
        .header(header::COOKIE, format!("__Host-nacre-preview={cookie}"));
    request.body(Full::default()).unwrap()
}

#[tokio::test]
async fn guesses_at_one_session_bar_nobody_from_another() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let (one, other) = (world.session(&ada).await, world.session(&ada).await);
    loop {
        let guessed = world.send(visit(&one, "guess")).await.status;
        if guessed == 429 {
            break;
        }
        assert_eq!(guessed, 401);
    }
    assert_eq!(world.send(visit(&other, "guess")).await.status, 401);
}

#[tokio::test]
async fn cookies_are_not_guessed_at_the_door_of_tokens() {
    let world = World::new().await;
    let origin = format!("http://nacre.localhost:{}", world.address.port());
    loop {
        let guess = world
            .request(Method::POST, "/v1/login/token")
            .header(header::ORIGIN, &origin)
            .header(header::COOKIE, "__Host-nacre=guess")
            .body(Full::default());
        match world.send(guess.unwrap()).await.status {
            401 => {}
            429 => break,
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_secret_of_a_repository_is_kept_by_one_spelling() {
    let world = World::new().await;
    let ada = world.somebody().await;
    for url in ["https://GIT.example/a/b.git", "git.example/a/b/"] {
        let secret = json!({ "name": "k", "scope": { "repository": url }, "value": url });
        let kept = world.say(&ada, Method::PUT, "/v1/secrets", secret).await;
        assert_eq!(kept.json()["scope"]["repository"], "git.example/a/b");
    }
    let all = world.get(&ada, "/v1/secrets").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 1, "{all}");
}

#[tokio::test]
async fn a_new_session_is_checked_as_a_changed_one_is() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let titled = json!({ "title": "a\u{1b}[31mb" });
    let refused = world.say(&ada, Method::POST, "/v1/sessions", titled).await;
    assert_eq!((refused.status, &*refused.code()), (400, "invalid"));
    let upload = world
        .request(Method::POST, "/v1/uploads")
        .header(header::AUTHORIZATION, format!("Bearer {}", eve.token))
        .body(Full::from("pearls"));
    let upload = world.send(upload.unwrap()).await.json();
    let bundle = json!({ "repos": [{ "bundle": upload["upload_id"] }] });
    world.post(&eve, "/v1/sessions", bundle.clone()).await;
    let missing = json!({ "repos": [{ "bundle": "upl_00000000000000000000000000" }] });
    for body in [bundle, missing, json!({ "repos": [{ "bundle": "x" }] })] {
        let refused = world.say(&ada, Method::POST, "/v1/sessions", body).await;
        assert_eq!((refused.status, &*refused.code()), (404, "not-found"));
    }
    let long = json!({ "context": "x".repeat(65 << 10) });
    let refused = world.say(&ada, Method::POST, "/v1/sessions", long).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test]
async fn a_prompt_that_names_no_models_has_those_of_its_session() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let new = json!({ "model": "demo/demo", "model_preferences": ["a/one", "b/two"] });
    let session = world.post(&ada, "/v1/sessions", new).await;
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let running = world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let mut runner = Runner::of(&world, &running).await;
    let ask = async |prompt: Value| {
        world.post(&ada, &format!("{path}/prompts"), prompt).await;
    };
    ask(json!({ "content": "x", "channel": "web:one" })).await;
    let heard = runner.hear("prompt").await;
    assert_eq!(heard["chain"], json!(["demo/demo", "a/one", "b/two"]));
    ask(json!({ "content": "x", "channel": "web:two", "model": "c/three" })).await;
    let heard = runner.hear("prompt").await;
    assert_eq!(heard["chain"], json!(["c/three"]));
}

#[tokio::test]
async fn a_server_that_ends_is_not_ready() {
    let mut world = World::new().await;
    let ready = world.request(Method::GET, "/readyz").body(Full::default());
    assert_eq!(world.send(ready.unwrap()).await.status, 200);
    let front = world.front.clone();
    world.tasks.spawn(async move { front.shut_down().await });
    loop {
        let ready = world.request(Method::GET, "/readyz").body(Full::default());
        match world.send(ready.unwrap()).await.status {
            200 => tokio::task::yield_now().await,
            status => break assert_eq!(status, 503),
        }
    }
}
