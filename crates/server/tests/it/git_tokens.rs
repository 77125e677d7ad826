//! Which token git goes out with: the repository's, the user's, the organisation's, none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use doors::git::{Config, Host, Scheme};
use http_body_util::Full;
use hyper::{Method, header};
use model::{Id, Session};
use serde_json::{Value, json};
use store::accounts::Role;

use crate::stand_in::{Asked, Said, StandIn};
use crate::world::{Somebody, World};

/// One that has every repository.
pub(crate) fn git_host(asked: &Asked) -> Said {
    let kind = match asked.what.rsplit_once("service=") {
        Some((_, "git-upload-pack")) => "application/x-git-upload-pack-advertisement",
        Some((_, "git-receive-pack")) => "application/x-git-receive-pack-advertisement",
        _ => return (404, "text/plain", "no such page".to_owned()),
    };
    (200, kind, "001e# service=git-upload-pack\n0000".to_owned())
}

pub(crate) fn git_config(host: &StandIn) -> Config {
    Config {
        hosts: vec![Host {
            name: host.address.to_string(),
            scheme: Scheme::Http,
        }],
        ..Config::default()
    }
}

async fn set(world: &World, who: &Somebody, scope: Value, value: &str) -> Value {
    let secret = json!({ "name": "token", "scope": scope, "value": value });
    let answer = world.say(who, Method::PUT, "/v1/secrets", secret).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// The token that the host saw.
pub(crate) async fn fetched(world: &World, host: &StandIn, id: &str) -> (u16, String) {
    let session: Id<Session> = id.parse().unwrap();
    let key = world.vault.session_key(session, 1);
    let path = format!(
        "/doors/git/{id}/https/{}/octo/pearl/info/refs?service=git-upload-pack",
        host.address
    );
    let request = world
        .request(Method::GET, &path)
        .header(header::AUTHORIZATION, format!("Bearer {}", key.expose()))
        .body(Full::default());
    let status = world.send(request.unwrap()).await.status;
    let asked = host.asked();
    let seen = asked.last().map_or("", Asked::token);
    let token = seen.strip_prefix("Basic ").map(|text| {
        let plain = STANDARD.decode(text).unwrap();
        let plain = String::from_utf8(plain).unwrap();
        plain.strip_prefix("x-access-token:").unwrap().to_owned()
    });
    (status, token.unwrap_or_default())
}

#[tokio::test]
async fn the_nearest_token_goes_out() {
    let host = StandIn::start(git_host).await;
    let world = World::with(doors::models::Config::default(), git_config(&host)).await;
    let ada = world.somebody().await;
    let bob = world.member(ada.organisation, Role::Member).await;
    let url = format!("http://{}/octo/pearl", host.address);
    let mut sessions = Vec::new();
    for who in [&ada, &bob] {
        let made = json!({ "repos": [{ "url": url }], "start": true });
        let made = world.post(who, "/v1/sessions", made).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/sessions/{id}/resume");
        world.post(who, &path, json!({})).await;
        sessions.push(id);
    }
    let (adas, bobs) = (&sessions[0], &sessions[1]);
    let seen = async |id: &str| fetched(&world, &host, id).await.1;
    assert_eq!(seen(bobs).await, "", "none");

    let name = host.address.to_string();
    set(&world, &ada, json!({ "git": name }), "tok-organisation").await;
    assert_eq!(seen(bobs).await, "tok-organisation");

    let own = set(&world, &bob, json!({ "user_git": name }), "tok-bob").await;
    assert_eq!(own["scope"], json!({ "user_git": name }));
    assert_eq!(seen(bobs).await, "tok-bob");
    assert_eq!(seen(adas).await, "tok-organisation", "Bob's is for Bob's");

    let repository = json!({ "git": format!("{name}/Octo/Pearl") });
    set(&world, &ada, repository, "tok-repository").await;
    assert_eq!(seen(bobs).await, "tok-repository");
    assert_eq!(seen(adas).await, "tok-repository");
}

#[tokio::test]
async fn who_left_the_organisation_took_their_token_along() {
    let host = StandIn::start(git_host).await;
    let world = World::with(doors::models::Config::default(), git_config(&host)).await;
    let ada = world.somebody().await;
    let bob = world.member(ada.organisation, Role::Member).await;
    let url = format!("http://{}/octo/pearl", host.address);
    let made = json!({ "repos": [{ "url": url }] });
    let made = world.post(&bob, "/v1/sessions", made).await;
    let id = made["id"].as_str().unwrap();
    world
        .post(&bob, &format!("/v1/sessions/{id}/resume"), json!({}))
        .await;
    let scope = json!({ "user_git": host.address.to_string() });
    set(&world, &bob, scope, "tok-bob").await;
    assert_eq!(fetched(&world, &host, id).await.1, "tok-bob");
    let mut tx = world.store.begin().await.unwrap();
    tx.remove_member(ada.organisation, bob.user).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fetched(&world, &host, id).await.1, "");
}

#[tokio::test]
async fn a_users_token_is_theirs_alone() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let bob = world.member(ada.organisation, Role::Member).await;
    let scope = json!({ "user_git": "GitHub.com" });
    let made = set(&world, &bob, scope, "tok-bob").await;
    assert_eq!(made["scope"], json!({ "user_git": "github.com" }));
    let names = async |who| {
        let listed = world.get(who, "/v1/secrets").await;
        listed["items"].as_array().unwrap().len()
    };
    assert_eq!((names(&bob).await, names(&ada).await), (1, 0));
    let path = format!("/v1/secrets/{}", made["id"].as_str().unwrap());
    assert_eq!(world.ask(&ada, Method::DELETE, &path).await.status, 404);
    assert_eq!(world.ask(&bob, Method::DELETE, &path).await.status, 204);
    for wrong in ["", "https://github.com", "a/b", "a b"] {
        let secret = json!({ "name": "t", "scope": { "user_git": wrong }, "value": "v" });
        let answer = world.say(&bob, Method::PUT, "/v1/secrets", secret).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}
