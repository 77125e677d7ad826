//! Repositories to choose from, and the machine under it all.

use hyper::Method;
use serde_json::json;
use store::accounts::Role;

use crate::world::World;

#[tokio::test]
async fn a_repository_is_added_once_listed_and_taken_off_again() {
    let world = World::new().await;
    let (ada, eve) = (world.somebody().await, world.somebody().await);
    let new = json!({ "url": "https://git.example/team/pearl.git", "default_branch": "main" });
    let added = world.post(&ada, "/v1/repos", new.clone()).await;
    assert_eq!(added["name"], "team/pearl");
    let again = world.say(&ada, Method::POST, "/v1/repos", new).await;
    assert_eq!((again.status, &*again.code()), (409, "repository-known"));
    let more = json!({ "url": "https://git.example/team/shell", "name": "shell" });
    world.post(&ada, "/v1/repos", more).await;
    let first = world.get(&ada, "/v1/repos?limit=1").await;
    assert_eq!(first["items"][0]["name"], "shell");
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = world.get(&ada, &format!("/v1/repos?cursor={cursor}")).await;
    assert_eq!(rest["items"][0]["id"], added["id"]);
    assert_eq!(rest["items"][0]["default_branch"], "main");
    // Another organisation has none of it.
    let path = format!("/v1/repos/{}", added["id"].as_str().unwrap());
    assert_eq!(world.get(&eve, "/v1/repos").await["items"], json!([]));
    assert_eq!(world.ask(&eve, Method::DELETE, &path).await.status, 404);
    assert_eq!(world.ask(&ada, Method::DELETE, &path).await.status, 204);
    assert_eq!(world.ask(&ada, Method::DELETE, &path).await.status, 404);
}

#[tokio::test]
async fn what_is_no_address_of_a_repository_is_refused() {
    let world = World::new().await;
    let ada = world.somebody().await;
    for bad in [
        json!({ "url": "file:///etc" }),
        json!({ "url": "https://user:password@git.example/a/b" }),
        json!({ "url": "https://git.example/a/b", "default_branch": "--upload-pack=x" }),
        json!({ "url": "https://git.example/a/b", "name": "" }),
    ] {
        let answer = world
            .say(&ada, Method::POST, "/v1/repos", bad.clone())
            .await;
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
}

#[tokio::test]
async fn owners_look_at_the_machine_and_others_do_not() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let bob = world.member(ada.organisation, Role::Member).await;
    for path in ["/v1/storage", "/v1/doctor"] {
        assert_eq!(world.ask(&bob, Method::GET, path).await.status, 403);
    }
    let storage = world.get(&ada, "/v1/storage").await;
    assert_eq!(storage["layers"], json!({ "count": 2, "bytes": 4096 }));
    let doctor = world.get(&ada, "/v1/doctor").await;
    assert_eq!(doctor["ok"], false);
    assert_eq!(doctor["findings"][0]["status"], "missing");
    let egress = world.get(&bob, "/v1/egress").await;
    assert_eq!(egress["policy"], "proxy");
    assert_eq!(egress["everywhere"], json!(["pypi.org"]));
}
