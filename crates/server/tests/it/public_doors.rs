//! The doors at the public address: who has the key of a sandbox that serves gets what that sandbox
//! gets, and nobody else gets anything.

use http_body_util::Full;
use hyper::Method;
use hyper::header;
use model::{Id, Session};
use serde_json::{Value, json};

use crate::git_tokens::{git_config, git_host};
use crate::stand_in::StandIn;
use crate::world::{Answer, Somebody, World};

const CHAT: &str = "demo/v1/chat/completions";

impl World {
    fn door_key(&self, session: &str, generation: u64) -> String {
        let session: Id<Session> = session.parse().unwrap();
        let key = self.vault.session_key(session, generation);
        key.expose().to_owned()
    }

    async fn running(&self, who: &Somebody, body: Value) -> String {
        let made = self.post(who, "/v1/sessions", body).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/sessions/{id}/resume");
        assert_eq!(self.post(who, &path, json!({})).await["generation"], 1);
        id
    }

    async fn knock(&self, path: &str, key: Option<&str>) -> Answer {
        let mut request = self
            .request(Method::POST, path)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let body = json!({ "model": "demo", "messages": [{ "role": "user", "content": "hello" }] });
        self.send(request.body(Full::from(body.to_string())).unwrap())
            .await
    }
}

#[tokio::test]
async fn a_sandbox_with_its_key_asks_a_model() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.running(&ada, json!({})).await;
    let path = format!("/doors/model/{id}/{CHAT}");
    let answer = world.knock(&path, Some(&world.door_key(&id, 1))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json()["choices"].is_array());
    // As Anthropic's clients send it.
    let request = world
        .request(Method::GET, &format!("/doors/model/{id}/demo/v1/models"))
        .header("x-api-key", world.door_key(&id, 1))
        .body(Full::default());
    assert_eq!(world.send(request.unwrap()).await.status, 200);
}

#[tokio::test]
async fn no_other_key_opens_and_all_refusals_look_alike() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let (id, other) = (
        world.running(&ada, json!({})).await,
        world.running(&ada, json!({})).await,
    );
    let path = format!("/doors/model/{id}/{CHAT}");
    let mut wrong = world.door_key(&id, 1);
    let last = if wrong.ends_with('0') { "1" } else { "0" };
    wrong.replace_range(wrong.len() - 1.., last);
    let nobody = "/doors/model/ses_00000000000000000000000000/demo/v1/models";
    let mut seen = Vec::new();
    for (path, key) in [
        (&*path, None),
        (&path, Some(String::new())),
        (&path, Some(wrong)),
        (&path, Some(world.door_key(&other, 1))),
        (&path, Some(world.door_key(&id, 0))),
        (&path, Some(world.door_key(&id, 2))),
        (&path, Some(ada.token.clone())),
        (nobody, Some(world.door_key(&id, 1))),
        (
            "/doors/model/x/demo/v1/models",
            Some(world.door_key(&id, 1)),
        ),
    ] {
        let answer = world.knock(path, key.as_deref()).await;
        assert_eq!(answer.status, 401, "{path} {key:?}: {answer:?}");
        let mut body = answer.json();
        // Each has its own.
        body["request_id"] = json!(null);
        seen.push(body);
    }
    assert!(seen.iter().all(|body| *body == seen[0]));
    // And the key opens nothing but the doors.
    let request = world
        .request(Method::GET, &format!("/v1/sessions/{id}"))
        .header(
            header::AUTHORIZATION,
            format!("Bearer {}", world.door_key(&id, 1)),
        )
        .body(Full::default());
    assert_eq!(world.send(request.unwrap()).await.status, 401);
}

#[tokio::test]
async fn a_key_ends_with_the_sandbox_that_has_it() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.running(&ada, json!({})).await;
    let path = format!("/doors/model/{id}/{CHAT}");
    let key = world.door_key(&id, 1);
    let status = async |key: &str| world.knock(&path, Some(key)).await.status;
    assert_eq!(status(&key).await, 200);
    let session = format!("/v1/sessions/{id}");
    world
        .post(&ada, &format!("{session}/pause"), json!({}))
        .await;
    assert_eq!(status(&key).await, 401, "it rests");
    let resume = format!("{session}/resume");
    let resumed = world.post(&ada, &resume, json!({})).await;
    let generation = resumed["generation"].as_u64().unwrap();
    assert_eq!(status(&world.door_key(&id, generation)).await, 200);
    world
        .post(&ada, &format!("{session}/stop"), json!({}))
        .await;
    for generation in 0..=generation + 1 {
        let key = world.door_key(&id, generation);
        assert_eq!(status(&key).await, 401, "it is stopped");
    }
}

#[tokio::test]
async fn a_path_leads_nowhere_but_where_the_door_leads() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let (id, other) = (
        world.running(&ada, json!({})).await,
        world.running(&ada, json!({})).await,
    );
    let key = world.door_key(&id, 1);
    for path in [
        format!("/doors/model/{id}/../{other}/{CHAT}"),
        format!("/doors/model/{id}/%2e%2e/{other}/{CHAT}"),
        format!("/doors/model/{id}%2f..%2f{other}/{CHAT}"),
        format!("/doors/model/{other}/../{id}/{CHAT}"),
        format!("/doors/model/{id}//{CHAT}"),
        format!("/doors/model/{id}/demo/v1/../../v1/sessions"),
        format!("/doors/model/{id}/git/https/github.com/a/b/info/refs"),
        format!("/doors/git/{id}/demo/v1/chat/completions"),
        format!("/doors/git/{id}/git/https/github.com/a/b/git-upload-pack"),
        format!("/doors/git/{id}/https/github.com/../../../v1/sessions"),
        format!("/doors/other/{id}/{CHAT}"),
        format!("/doors/model/{id}"),
    ] {
        let status = world.knock(&path, Some(&key)).await.status;
        assert!([401, 403, 404].contains(&status), "{path}: {status}");
    }
}

#[tokio::test]
async fn guessing_is_slow() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.running(&ada, json!({})).await;
    let path = format!("/doors/model/{id}/{CHAT}");
    let key = world.door_key(&id, 1);
    assert_eq!(world.knock(&path, Some(&key)).await.status, 200);
    let mut statuses = Vec::new();
    for _ in 0..150 {
        statuses.push(world.knock(&path, Some("0")).await.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "nobody is told to wait");
    // Who was let in lately is not held up by those who were not.
    let answer = world.knock(&path, Some(&key)).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_sandbox_with_its_key_gets_its_own_repositories_and_no_others() {
    let host = StandIn::start(git_host).await;
    let world = World::with(doors::models::Config::default(), git_config(&host)).await;
    let ada = world.somebody().await;
    let url = format!("http://{}/octo/pearl.git", host.address);
    let id = world
        .running(&ada, json!({ "repos": [{ "url": url }] }))
        .await;
    let key = world.door_key(&id, 1);
    let fetch = async |repo: &str, key: &str, service: &str| {
        let path = format!(
            "/doors/git/{id}/https/{}/{repo}/info/refs?service={service}",
            host.address
        );
        // As git sends it: `x:KEY`.
        let basic = base64(&format!("x:{key}"));
        let request = world
            .request(Method::GET, &path)
            .header(header::AUTHORIZATION, format!("Basic {basic}"))
            .body(Full::default());
        world.send(request.unwrap()).await
    };
    let refs = fetch("octo/pearl.git", &key, "git-upload-pack").await;
    assert_eq!(refs.status, 200, "{refs:?}");
    assert!(refs.body.starts_with(b"001e# service=git-upload-pack"));
    let asked = host.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].token(), "", "the key stays here");
    for (repo, key, service, status) in [
        ("octo/shell", &*key, "git-upload-pack", 403),
        ("octo/pearl.git/../shell", &key, "git-upload-pack", 403),
        ("octo/pearl", &key, "git-upload-archive", 403),
        (
            "octo/pearl",
            &world.door_key(&id, 2),
            "git-upload-pack",
            401,
        ),
    ] {
        let answer = fetch(repo, key, service).await;
        assert_eq!(answer.status, status, "{repo} {service}: {answer:?}");
        if status == 401 {
            let asks = &answer.headers[header::WWW_AUTHENTICATE];
            assert_eq!(asks, "Basic realm=\"nacre\"", "git sends its key only then");
        }
    }
    assert_eq!(host.asked().len(), 1);
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
