use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn a_session_is_a_record_until_somebody_wants_it_to_run() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let made = world
        .post(&ada, "/v1/sessions", json!({ "title": "pearls" }))
        .await;
    assert_eq!(made["status"], "starting");
    assert_eq!(made["client_status"], "creating");
    assert_eq!(made["generation"], 0);
    assert_eq!(made["title"], "pearls");
    assert_eq!(made["model"], "demo/demo");
    let path = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    let resumed = world.post(&ada, &format!("{path}/resume"), json!({})).await;
    assert_eq!(resumed["status"], "running");
    assert_eq!(resumed["generation"], 1);
    assert!(resumed["sandbox_id"].is_string());
    assert!(resumed["phases"].as_array().unwrap().len() > 1, "{resumed}");
}

#[tokio::test]
async fn a_prompt_runs_once_however_often_it_is_sent() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}/prompts");
    let prompt = json!({ "id": "p1", "content": "say one" });
    let first = world.post(&ada, &path, prompt.clone()).await;
    let again = world.post(&ada, &path, prompt).await;
    assert_eq!(first["id"], again["id"]);
    let ended = world.until_ended(&ada, &id, "p1").await;
    assert_eq!(ended["status"], "finished");
    let messages = world
        .get(&ada, &format!("/v1/sessions/{id}/messages"))
        .await;
    let roles: Vec<&str> = messages["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant"]);
}

#[tokio::test]
async fn a_list_says_what_each_agent_does() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let listed = async || {
        let sessions = world.get(&ada, "/v1/sessions").await;
        let all = sessions["items"].as_array().unwrap().iter();
        all.map(|session| {
            let text = |field: &str| session[field].as_str().map(str::to_owned);
            (text("title").unwrap(), text("agent_state"))
        })
        .collect::<BTreeMap<_, _>>()
    };
    let told = [
        ("asks", "ask which pearl", "waiting"),
        ("asleep", "", "sleeping"),
        ("did it", "say done", "idle"),
        ("works", "wait 600000", "busy"),
    ];
    for (title, prompt, _) in told {
        let session = world
            .post(&ada, "/v1/sessions", json!({ "title": title }))
            .await;
        if prompt.is_empty() {
            continue;
        }
        let path = format!("/v1/sessions/{}/prompts", session["id"].as_str().unwrap());
        world.post(&ada, &path, json!({ "content": prompt })).await;
    }
    let told = told.map(|(title, _, state)| (title.to_owned(), Some(state.to_owned())));
    let told = BTreeMap::from(told);
    let so = async {
        while listed().await != told {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), so).await;
    assert!(in_time.is_ok(), "{:?}", listed().await);
}

#[tokio::test]
async fn a_pause_is_answered_with_its_receipt_and_a_fork_goes_on_from_it() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}");
    world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let paused = world.post(&ada, &format!("{path}/pause"), json!({})).await;
    assert_eq!(paused["status"], "paused");
    assert_eq!(paused["pause_reason"], "manual");
    assert!(paused["receipt"]["kept"].is_string(), "{paused}");
    let again = world.post(&ada, &format!("{path}/pause"), json!({})).await;
    assert_eq!(again["receipt"], paused["receipt"]);
    let resting = world.get(&ada, &path).await;
    assert_eq!(resting["snapshot_id"], paused["receipt"]["snapshot"]);
    assert!(resting["paused_at"].is_string(), "{resting}");
    world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let fork = world
        .post(&ada, &format!("{path}/fork"), json!({ "title": "other" }))
        .await;
    assert_eq!(fork["parent_id"], id.as_str());
    assert_eq!(fork["title"], "other");
    let new = world.session(&ada).await;
    let new = format!("/v1/sessions/{new}/pause");
    let refused = world.say(&ada, Method::POST, &new, json!({})).await;
    assert_eq!(
        (refused.status, &*refused.code()),
        (409, "session-not-running")
    );
    let stopped = world.post(&ada, &format!("{path}/stop"), json!({})).await;
    assert_eq!(stopped["status"], "stopped");
    let resumed = world
        .say(&ada, Method::POST, &format!("{path}/resume"), json!({}))
        .await;
    assert_eq!((resumed.status, &*resumed.code()), (409, "session-stopped"));
}

#[tokio::test]
async fn a_snapshot_that_a_fork_goes_on_from_is_not_removed() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}");
    world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let taken = world
        .post(&ada, &format!("{path}/snapshots"), json!({}))
        .await;
    let snapshot = taken["snapshot"].as_str().unwrap();
    let fork = json!({ "snapshot_id": snapshot });
    let fork = world.post(&ada, &format!("{path}/fork"), fork).await;
    world.post(&ada, &format!("{path}/stop"), json!({})).await;
    let remove = format!("/v1/snapshots/{snapshot}");
    let refused = world.ask(&ada, Method::DELETE, &remove).await;
    assert_eq!((refused.status, &*refused.code()), (409, "snapshot-in-use"));
    let fork = format!("/v1/sessions/{}/stop", fork["id"].as_str().unwrap());
    world.post(&ada, &fork, json!({})).await;
    let removed = world.ask(&ada, Method::DELETE, &remove).await;
    assert_eq!(removed.status, 204, "{removed:?}");
    let again = world.ask(&ada, Method::GET, &remove).await;
    assert_eq!(again.status, 404);
}

#[tokio::test]
async fn a_request_with_the_same_key_is_done_once() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let create = async |title: &str| {
        let request = world
            .request(Method::POST, "/v1/sessions")
            .header("authorization", format!("Bearer {}", ada.token))
            .header("content-type", "application/json")
            .header("idempotency-key", "k1")
            .body(json!({ "title": title }).to_string().into());
        world.send(request.unwrap()).await
    };
    let (first, second) = (create("a").await, create("a").await);
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let other = create("b").await;
    assert_eq!(
        (other.status, &*other.code()),
        (409, "idempotency-key-used")
    );
    let listed = world.get(&ada, "/v1/sessions").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_without_those_that_are_archived() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.session(&ada).await);
    }
    let archived = world
        .say(
            &ada,
            Method::PATCH,
            &format!("/v1/sessions/{}", made[0]),
            json!({ "archived": true }),
        )
        .await;
    assert_eq!(archived.status, 200, "{archived:?}");
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world
            .get(&ada, &format!("/v1/sessions?limit=3{cursor}"))
            .await;
        let ids = page["items"].as_array().unwrap().iter();
        seen.extend(ids.map(|one| one["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    made.remove(0);
    made.reverse();
    assert_eq!(seen, made);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_to_be_wrong_and_changes_nothing() {
    let world = World::new().await;
    let ada = world.somebody().await;
    for body in [
        json!({ "type": "terminal" }),
        json!({ "nonsense": 1 }),
        json!({ "repos": [{ "url": "file:///etc/passwd" }] }),
        json!({ "repos": [{ "url": "https://user@host.example/a/b" }] }),
        json!({ "repos": [{ "url": "https://host.example/a/b", "branch": "--upload-pack=x" }] }),
        json!({ "repos": [{ "bundle": "x", "url": "https://host.example/a/b" }] }),
        json!({ "repos": [{ "url": "https://host.example/a/b", "path": "../../etc" }] }),
        json!({ "provider": "nobody" }),
        json!({ "model": "nobody/nothing" }),
        json!({ "agent": "other" }),
        json!({ "channel": "smoke" }),
        json!({ "title": "x".repeat(300) }),
        json!({ "initial_prompt": "  " }),
    ] {
        let answer = world
            .say(&ada, Method::POST, "/v1/sessions", body.clone())
            .await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        let kind = answer.headers["content-type"].to_str().unwrap();
        assert_eq!(kind, "application/problem+json");
    }
    let none = world.get(&ada, "/v1/sessions").await;
    assert_eq!(none["items"], json!([]));
}

#[tokio::test]
async fn a_secret_is_kept_and_never_shown() {
    const CANARY: &str = "canary-4711-of-a-secret";
    let world = World::new().await;
    let ada = world.somebody().await;
    let body = json!({ "name": "key", "scope": { "model": "anthropic" }, "value": CANARY });
    let kept = world.say(&ada, Method::PUT, "/v1/secrets", body).await;
    assert_eq!(kept.status, 200, "{kept:?}");
    let models = world.get(&ada, "/v1/models").await;
    let default: Vec<&Value> = models["models"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["is_default"] == true)
        .collect();
    assert_eq!(default[0]["id"], "anthropic/claude-sonnet-4-5");
    let listed = world.ask(&ada, Method::GET, "/v1/secrets").await;
    for told in [&kept.body, &listed.body] {
        assert!(!String::from_utf8_lossy(told).contains(CANARY));
    }
    for entry in fs_err::read_dir(world.directory.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let content = fs_err::read(&path).unwrap();
            let is_there = content
                .windows(CANARY.len())
                .any(|w| w == CANARY.as_bytes());
            assert!(!is_there, "{}", path.display());
        }
    }
}

impl World {
    async fn until_ended(
        &self,
        who: &crate::world::Somebody,
        session: &str,
        prompt: &str,
    ) -> Value {
        let path = format!("/v1/sessions/{session}/prompts/{prompt}");
        let ended = async {
            loop {
                let prompt = self.get(who, &path).await;
                if prompt["ended_at"].is_string() {
                    return prompt;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, ended).await.unwrap()
    }
}
