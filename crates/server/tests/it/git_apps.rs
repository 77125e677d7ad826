//! An app of a forge in the place of an organisation's token.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use doors::forge::Forge;
use hyper::Method;
use serde_json::{Value, json};

use crate::git_tokens::{fetched, git_config, git_host};
use crate::stand_in::{Asked, Said, StandIn};
use crate::world::World;

/// A key that opens nothing anywhere, made anew.
fn key() -> String {
    let folder = camino_tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    fs_err::read_to_string(path).unwrap()
}

fn app() -> String {
    json!({ "app_id": 7, "private_key": key() }).to_string()
}

/// A forge that gives out `ghs_1`, `ghs_2` and so on, and a git host that takes only the newest of
/// them after `stale` was asked once.
async fn forge(stale: bool) -> StandIn {
    let given = AtomicU32::new(0);
    let is_stale = Arc::new(std::sync::atomic::AtomicBool::new(stale));
    StandIn::start(move |asked: &Asked| -> Said {
        let json = "application/json";
        match &*asked.what {
            "GET /api/repos/octo/pearl/installation" => {
                (200, json, json!({ "id": 42 }).to_string())
            }
            "POST /api/app/installations/42/access_tokens" => {
                let number = given.fetch_add(1, Ordering::Relaxed) + 1;
                let token = json!({ "token": format!("ghs_{number}"),
                    "expires_at": "2099-01-01T00:00:00Z" });
                (201, json, token.to_string())
            }
            _ if is_stale.swap(false, Ordering::Relaxed) => (401, "text/plain", String::new()),
            _ => git_host(asked),
        }
    })
    .await
}

async fn session(world: &World, host: &StandIn) -> String {
    let ada = world.somebody().await;
    let secret = json!({ "name": "app", "scope": { "git": host.address.to_string() },
        "value": app() });
    let set = world.say(&ada, Method::PUT, "/v1/secrets", secret).await;
    assert_eq!(set.status, 200, "{set:?}");
    let url = format!("http://{}/octo/pearl", host.address);
    let made = json!({ "repos": [{ "url": url }] });
    let made = world.post(&ada, "/v1/sessions", made).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}/resume");
    world.post(&ada, &path, json!({})).await;
    id
}

async fn world(host: &StandIn) -> World {
    let mut git = git_config(host);
    git.forges = vec![Forge {
        host: host.address.to_string(),
        api: format!("http://{}/api", host.address),
    }];
    World::with(doors::models::Config::default(), git).await
}

fn times(host: &StandIn, what: &str) -> usize {
    let asked = host.asked();
    asked.iter().filter(|asked| asked.what == what).count()
}

const TOKENS: &str = "POST /api/app/installations/42/access_tokens";

#[tokio::test]
async fn an_app_gets_a_token_for_the_one_repository_and_keeps_it() {
    let host = forge(false).await;
    let world = world(&host).await;
    let id = session(&world, &host).await;
    for _ in 0..2 {
        assert_eq!(fetched(&world, &host, &id).await, (200, "ghs_1".to_owned()));
    }
    assert_eq!(times(&host, TOKENS), 1);
    let asked = host.asked();
    let asked = asked.iter().find(|asked| asked.what == TOKENS).unwrap();
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!(body, json!({ "repositories": ["pearl"] }));
    let signed = asked.token().strip_prefix("Bearer ").unwrap();
    let claims = signed.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["iss"], "7");
    let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert!((1..=600).contains(&lasts), "{claims}");
    assert!(!String::from_utf8_lossy(&asked.body).contains("PRIVATE"));
}

#[tokio::test]
async fn a_token_that_the_host_does_not_take_any_more_is_got_anew() {
    let host = forge(true).await;
    let world = world(&host).await;
    let id = session(&world, &host).await;
    assert_eq!(fetched(&world, &host, &id).await, (200, "ghs_2".to_owned()));
    assert_eq!(times(&host, TOKENS), 2);
}
