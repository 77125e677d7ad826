//! Tricks on the front door that no other file has.

use http_body_util::Full;
use hyper::{Method, header};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::World;

/// What comes back for bytes as they are, and whether anybody was called behind the door.
async fn raw(world: &World, request: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(std::time::Duration::from_secs(20), read)
        .await
        .expect("an end")
        .ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn the_front_door_is_nobodys_proxy() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = listener.local_addr().unwrap();
    let (ours, token) = (world.address, &ada.token);
    let bearer = format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    for request in [
        format!("CONNECT {behind} HTTP/1.1\r\nHost: {ours}\r\n{bearer}"),
        format!("CONNECT {behind} HTTP/1.1\r\nHost: {behind}\r\n{bearer}"),
        format!("GET http://{behind}/v1/me HTTP/1.1\r\nHost: {behind}\r\n{bearer}"),
        format!(
            "GET /v1/sessions HTTP/1.1\r\nHost: {behind}\r\nX-Forwarded-Host: {ours}\r\n{bearer}"
        ),
        format!(
            "GET /x HTTP/1.1\r\nHost: {}-{}.preview.nacre.localhost:{}\r\n{bearer}",
            behind.port(),
            "ses_00000000000000000000000000",
            ours.port()
        ),
    ] {
        let answer = raw(&world, &request).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(status.starts_with('4'), "{request}\n{answer}");
    }
    // Under our own name it is ours to answer, whatever the line says.
    let own = format!("GET http://{behind}/v1/me HTTP/1.1\r\nHost: {ours}\r\n{bearer}");
    let answer = raw(&world, &own).await;
    assert!(
        answer.contains("problem+json") || answer.contains("\"role\""),
        "{answer}"
    );
    let nobody = std::time::Duration::from_millis(50);
    let called = tokio::time::timeout(nobody, listener.accept()).await;
    assert!(called.is_err(), "somebody was called on behalf of a client");
}

#[tokio::test]
async fn a_cookie_that_was_planted_is_not_the_one_that_a_login_gives() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let origin = format!("http://nacre.localhost:{}", world.address.port());
    let mut given = Vec::new();
    for _ in 0..2 {
        let code = world.post(&ada, "/v1/login/codes", json!({})).await;
        let (_, code) = code["url"].as_str().unwrap().split_once('#').unwrap();
        let request = world
            .request(Method::POST, "/v1/login")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ORIGIN, &origin)
            .header(header::COOKIE, "__Host-nacre=planted")
            .body(Full::from(json!({ "code": code }).to_string()));
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(!cookie.contains("planted"), "{cookie}");
        assert!(!cookie.to_lowercase().contains("domain"), "{cookie}");
        given.push(cookie.split(';').next().unwrap().to_owned());
    }
    assert_ne!(given[0], given[1], "each login has a cookie of its own");
    // The one that somebody knew before lets nobody in afterwards, and two are none.
    for cookie in [
        "__Host-nacre=planted".to_owned(),
        format!("__Host-nacre=planted; {}", given[0]),
    ] {
        let request = world
            .request(Method::GET, "/v1/me")
            .header(header::COOKIE, cookie)
            .body(Full::default());
        assert_eq!(world.send(request.unwrap()).await.status, 401);
    }
}
