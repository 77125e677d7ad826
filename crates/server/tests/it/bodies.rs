//! Bodies and queries that are not what they should be.

use hyper::Method;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn port_zero_is_refused_and_breaks_nothing() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("/v1/sessions/{}/shares", world.session(&ada).await);
    let body = json!({ "port": 0, "expires_in_ms": 1000 });
    let answer = world.say(&ada, Method::POST, &path, body).await;
    assert_eq!((answer.status, &*answer.code()), (400, "invalid"));
}

#[tokio::test]
async fn a_list_is_not_taken_for_an_object() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("/v1/sessions/{}", world.session(&ada).await);
    let fork = format!("{path}/fork");
    for (method, path) in [(Method::PATCH, &path), (Method::POST, &fork)] {
        let answer = world.say(&ada, method, path, json!([null, null])).await;
        assert_eq!((answer.status, &*answer.code()), (400, "invalid"), "{path}");
    }
}

#[tokio::test]
async fn null_is_as_good_as_no_body_where_none_is_needed() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let made = world.post(&ada, "/v1/sessions", Value::Null).await;
    assert_eq!(made["status"], "starting");
}

#[tokio::test]
async fn a_page_longer_than_there_are_is_refused() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let path = format!("/v1/sessions/{}/messages", world.session(&ada).await);
    for limit in ["0", "101", "2147483648"] {
        let path = format!("{path}?limit={limit}");
        let answer = world.ask(&ada, Method::GET, &path).await;
        assert_eq!((answer.status, &*answer.code()), (400, "invalid"), "{path}");
    }
}
