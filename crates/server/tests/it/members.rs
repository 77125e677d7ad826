//! Who belongs to an organisation.

use http_body_util::Full;
use hyper::{Method, header};
use serde_json::{Value, json};
use store::accounts::Role;

use crate::world::{Somebody, World};

fn members(of: &Somebody) -> String {
    format!("/v1/orgs/{}/members", of.organisation)
}

#[tokio::test]
async fn somebody_new_is_invited_and_signs_in_once() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let new = json!({ "email": " Bob@Example.org ", "role": "member" });
    let put = async |body: &Value| {
        let answer = world
            .say(&ada, Method::PUT, &members(&ada), body.clone())
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let bob = put(&new).await;
    assert_eq!(bob["user"]["email"], "bob@example.org");
    assert_eq!(bob["user"]["name"], "bob");
    let url = bob["login"]["url"].as_str().unwrap();
    let code = url.split_once('#').unwrap().1;
    let sign_in = || {
        world
            .request(Method::POST, "/v1/login")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(json!({ "code": code }).to_string()))
            .unwrap()
    };
    let login = world.send(sign_in()).await;
    assert_eq!(login.json()["role"], "member");
    assert_eq!(world.send(sign_in()).await.status, 401);
    let again = put(&json!({ "email": "bob@example.org", "role": "viewer" })).await;
    assert_eq!(again["user"]["id"], bob["user"]["id"]);
    assert!(again.get("login").is_none(), "{again}");
    let listed = world.get(&ada, &members(&ada)).await;
    let roles: Vec<&Value> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| &member["role"])
        .collect();
    assert_eq!(roles, ["owner", "viewer"]);
}

#[tokio::test]
async fn the_last_owner_stays() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let me = world.get(&ada, "/v1/me").await;
    let path = format!("{}/{}", members(&ada), ada.user);
    let demote = json!({ "email": me["user"]["email"], "role": "member" });
    for answer in [
        world.ask(&ada, Method::DELETE, &path).await,
        world
            .say(&ada, Method::PUT, &members(&ada), demote.clone())
            .await,
    ] {
        assert_eq!((answer.status, &*answer.code()), (409, "last-owner"));
    }
    let bob = world.member(ada.organisation, Role::Owner).await;
    assert_eq!(world.ask(&ada, Method::DELETE, &path).await.status, 204);
    assert_eq!(world.ask(&ada, Method::GET, "/v1/me").await.status, 401);
    assert_eq!(world.get(&bob, "/v1/me").await["role"], "owner");
}

#[tokio::test]
async fn another_organisations_members_are_not_there_and_members_change_nothing() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let bob = world.member(ada.organisation, Role::Member).await;
    let new = json!({ "email": "x@example.org", "role": "owner" });
    let path = members(&ada);
    assert_eq!(world.ask(&eve, Method::GET, &path).await.status, 404);
    let put = world.say(&eve, Method::PUT, &path, new.clone()).await;
    assert_eq!(put.status, 404);
    let put = world.say(&bob, Method::PUT, &path, new).await;
    assert_eq!(put.status, 403);
    let gone = format!("{path}/{}", ada.user);
    assert_eq!(world.ask(&bob, Method::DELETE, &gone).await.status, 403);
    assert_eq!(world.ask(&eve, Method::DELETE, &gone).await.status, 404);
    for wrong in [
        json!({ "email": "x", "role": "owner" }),
        json!({ "email": "a b@c", "role": "owner" }),
        json!({ "email": "x@example.org", "role": "king" }),
    ] {
        let answer = world.say(&ada, Method::PUT, &path, wrong.clone()).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}
