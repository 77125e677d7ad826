//! What is sent twice under one `Idempotency-Key` is done once.

use http_body_util::Full;
use hyper::{Method, header};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{Answer, Somebody, World};

async fn send(world: &World, who: &Somebody, key: &str, path: &str, body: &Value) -> Answer {
    let request = world
        .request(Method::POST, path)
        .header(header::AUTHORIZATION, format!("Bearer {}", who.token))
        .header(header::CONTENT_TYPE, "application/json")
        .header("idempotency-key", key)
        .body(Full::from(body.to_string()));
    world.send(request.unwrap()).await
}

async fn running(world: &World, who: &Somebody) -> String {
    let path = format!("/v1/sessions/{}", world.session(who).await);
    world.post(who, &format!("{path}/resume"), json!({})).await;
    path
}

#[tokio::test]
async fn a_move_that_is_sent_again_is_one_move() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = running(&world, &ada).await;
    let migrate = format!("{path}/migrate");
    let first = send(&world, &ada, "k", &migrate, &json!({})).await;
    let again = send(&world, &ada, "k", &migrate, &json!({})).await;
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.json(), again.json());
    assert_eq!(world.get(&ada, &path).await["generation"], 2);
}

#[tokio::test]
async fn what_is_sent_twice_at_once_is_done_once_and_both_hear_of_it() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("{}/snapshots", running(&world, &ada).await);
    let body = json!({ "message": "pearls" });
    let (first, again) = tokio::join!(
        send(&world, &ada, "k", &path, &body),
        send(&world, &ada, "k", &path, &body)
    );
    assert_eq!((first.status, again.status), (201, 201), "{again:?}");
    assert_eq!(first.json(), again.json());
    let kept = world.get(&ada, &path).await;
    assert_eq!(kept["items"].as_array().unwrap().len(), 1, "{kept}");
}

#[tokio::test]
async fn what_a_client_that_is_gone_asked_for_is_done_once() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = running(&world, &ada).await;
    let migrate = format!("{path}/migrate");
    let mut cut = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "POST {migrate} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
         idempotency-key: k\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
        world.address, ada.token
    );
    cut.write_all(head.as_bytes()).await.unwrap();
    drop(cut);
    let again = send(&world, &ada, "k", &migrate, &json!({})).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(world.get(&ada, &path).await["generation"], 2);
}

#[tokio::test]
async fn a_token_that_is_made_once_is_shown_again_and_lies_nowhere_in_the_open() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let body = json!({ "name": "t" });
    let first = send(&world, &ada, "k", "/v1/tokens", &body).await.json();
    let again = send(&world, &ada, "k", "/v1/tokens", &body).await.json();
    assert_eq!(first, again);
    let token = first["token"].as_str().unwrap();
    for file in world.directory.path().read_dir_utf8().unwrap() {
        let Ok(content) = fs_err::read(file.unwrap().path()) else {
            continue;
        };
        let is_there = content
            .windows(token.len())
            .any(|at| at == token.as_bytes());
        assert!(!is_there);
    }
}

#[tokio::test]
async fn a_key_is_good_for_one_request_of_one_caller() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let bob = world
        .member(ada.organisation, store::accounts::Role::Owner)
        .await;
    let made = send(&world, &ada, "k", "/v1/tokens", &json!({ "name": "t" })).await;
    assert_eq!(made.status, 201);
    for (who, name) in [(&ada, "other"), (&bob, "t")] {
        let other = send(&world, who, "k", "/v1/tokens", &json!({ "name": name })).await;
        assert_eq!(
            (other.status, &*other.code()),
            (409, "idempotency-key-used")
        );
    }
}

#[tokio::test]
async fn what_was_refused_may_be_sent_again_under_its_key() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("/v1/sessions/{}", world.session(&ada).await);
    let migrate = format!("{path}/migrate");
    let refused = send(&world, &ada, "k", &migrate, &json!({})).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let moved = send(&world, &ada, "k", &migrate, &json!({})).await;
    assert_eq!(moved.status, 200, "{moved:?}");
}

#[test]
fn every_post_that_does_something_is_described_with_its_key() {
    let described: Value = serde_json::from_str(&nacre_server::openapi()).unwrap();
    for (path, operations) in described["paths"].as_object().unwrap() {
        let Some(post) = operations.get("post") else {
            continue;
        };
        let is_key = |one: &Value| one["name"] == "Idempotency-Key" && one["in"] == "header";
        let has_key = post["parameters"]
            .as_array()
            .is_some_and(|all| all.iter().any(is_key));
        assert_eq!(has_key, !path.starts_with("/v1/log"), "{path}");
    }
}
