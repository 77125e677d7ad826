//! Crashes, revoked tokens, files that nobody knows of, and whoever asks for too much.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::{Method, header};
use hyper_util::rt::TokioIo;
use model::{Clock as _, Id, SignedDuration, SystemClock, Upload};
use serde_json::json;
use store::idempotency::Begun;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::World;

#[tokio::test]
async fn a_stream_ends_when_the_token_that_opened_it_is_revoked() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let session = world.session(&ada).await;
    let made = world.post(&ada, "/v1/tokens", json!({ "name": "t" })).await;
    let mut other = ada.clone();
    made["token"].as_str().unwrap().clone_into(&mut other.token);
    let stream = TcpStream::connect(world.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let request = world
        .request(Method::GET, &format!("/v1/sessions/{session}/events"))
        .header(header::AUTHORIZATION, format!("Bearer {}", other.token))
        .body(Full::<Bytes>::default());
    let mut body = sender
        .send_request(request.unwrap())
        .await
        .unwrap()
        .into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("init"));
    let revoke = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(world.ask(&ada, Method::DELETE, &revoke).await.status, 204);
    let rest = timeout(Duration::from_secs(20), body.collect());
    rest.await.expect("the stream goes on").unwrap();
}

#[tokio::test]
async fn a_request_whose_doer_died_makes_one_session() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let create = || {
        world
            .request(Method::POST, "/v1/sessions")
            .header(header::AUTHORIZATION, format!("Bearer {}", ada.token))
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", "k1")
            .body(Full::from(
                json!({ "title": "one", "initial_prompt": "say one" }).to_string(),
            ))
            .unwrap()
    };
    let first = world.send(create()).await;
    assert_eq!(first.status, 201, "{first:?}");
    let again = world.send(create()).await;
    assert_eq!(
        (again.status, &again.json()["id"]),
        (201, &first.json()["id"])
    );
    let listed = world.get(&ada, "/v1/sessions").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    // It was made in the transaction that answers: nobody finds one without the other.
    let now = SystemClock.now();
    let mut tx = world.store.begin().await.unwrap();
    let begun = tx
        .begin_request(ada.organisation, "k1", "another digest", now, now)
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(begun, Begun::Different);
}

#[tokio::test]
async fn a_maker_whose_lease_was_over_makes_nothing() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let now = SystemClock.now();
    let begin = async |until| {
        let mut tx = world.store.begin().await.unwrap();
        let begun = tx
            .begin_request(ada.organisation, "k", "digest", now, until)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        begun
    };
    let Begun::New(slow) = begin(now - SignedDuration::from_secs(1)).await else {
        panic!("nobody began before");
    };
    let Begun::New(_) = begin(now + SignedDuration::from_mins(1)).await else {
        panic!("the lease is over");
    };
    let mut tx = world.store.begin().await.unwrap();
    assert!(!tx.finish_request(&slow, 201, "{}").await.unwrap());
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn files_that_nobody_knows_of_are_swept_and_others_stay() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let request = world
        .request(Method::POST, "/v1/uploads")
        .header(header::AUTHORIZATION, format!("Bearer {}", ada.token))
        .body(Full::from("known"));
    let known = world.send(request.unwrap()).await.json();
    let uploads = world.directory.path().join("uploads");
    let lost: Id<Upload> = Id::new(&SystemClock);
    let arriving: Id<Upload> = Id::new(&SystemClock);
    let known = uploads.join(known["upload_id"].as_str().unwrap());
    let foreign = uploads.join("somebody's notes");
    let (lost, arriving) = (
        uploads.join(lost.to_string()),
        uploads.join(arriving.to_string()),
    );
    for path in [&lost, &arriving, &foreign] {
        fs_err::write(path, "x").unwrap();
    }
    let long_ago = SystemClock.now() - SignedDuration::from_hours(2);
    for path in [&known, &lost, &foreign] {
        let file = fs_err::OpenOptions::new().write(true).open(path).unwrap();
        file.file().set_modified(long_ago.into()).unwrap();
    }
    world.front.sweep_files().await;
    assert!(!lost.exists());
    for path in [&known, &arriving, &foreign] {
        assert!(path.exists(), "{path}");
    }
}

#[tokio::test]
async fn lists_are_given_page_by_page() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let session = world.session(&ada).await;
    world
        .post(&ada, &format!("/v1/sessions/{session}/resume"), json!({}))
        .await;
    for n in 0..3 {
        world
            .post(&ada, "/v1/tokens", json!({ "name": format!("t{n}") }))
            .await;
        let secret = json!({ "name": format!("S{n}"), "scope": "organisation", "value": "x" });
        world.say(&ada, Method::PUT, "/v1/secrets", secret).await;
        world
            .post(
                &ada,
                &format!("/v1/sessions/{session}/snapshots"),
                json!({}),
            )
            .await;
    }
    let of_session = format!("/v1/sessions/{session}/snapshots");
    for (path, expected) in [
        ("/v1/tokens", 4),
        ("/v1/secrets", 3),
        ("/v1/snapshots", 3),
        (&*of_session, 3),
    ] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let query = cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
            let page = world.get(&ada, &format!("{path}?limit=2{query}")).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2, "{path}");
            seen.extend(items.iter().map(|item| item["id"].to_string()));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        let unique: std::collections::BTreeSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), unique.len()), (expected, expected), "{path}");
        for wrong in ["cursor=x", "limit=0", "limit=201", "colour=red"] {
            let answer = world
                .ask(&ada, Method::GET, &format!("{path}?{wrong}"))
                .await;
            assert_eq!(answer.status, 400, "{path} {wrong}");
        }
    }
    let eve = world.somebody().await;
    assert_eq!(world.get(&eve, "/v1/snapshots").await["items"], json!([]));
}
