//! What a sandbox cannot do to the model door.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use model::Secret;
use nacre_doors::models::{Config, Limited};
use nacre_doors::{Limits, Models};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::upstream::{Upstream, json as json_answer, stream};
use crate::world::{Book, World, config, text};

#[tokio::test]
async fn a_meter_that_says_no_is_asked_first() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    *world.book.limited.lock().unwrap() = Some(Limited::Slow {
        reason: "so many at once are too many".to_owned(),
        retry_after: Some(Duration::from_millis(2500)),
    });
    let answer = world.post("/anthropic/v1/messages", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "3");
    let body = text(answer).await;
    assert!(body.contains("at once are too many") && body.contains("rate_limit_error"));
    assert!(upstream.seen().is_empty());
    assert!(world.book.used.lock().unwrap().is_empty());
}

/// 402 and no `retry-after`: an agent that gets 429 waits for a minute and tries again.
#[tokio::test]
async fn a_session_that_has_used_up_its_budget_is_told_so_in_the_words_of_each_api() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    *world.book.limited.lock().unwrap() = Some(Limited::Spent {
        reason: "this session has used up its 10 tokens".to_owned(),
    });
    for (path, place) in [
        ("/anthropic/v1/messages", "billing_error"),
        ("/openai/v1/chat/completions", "insufficient_quota"),
        ("/openai/v1/responses", "insufficient_quota"),
    ] {
        let answer = world.post(path, &json!({})).await;
        assert_eq!(answer.status(), StatusCode::PAYMENT_REQUIRED, "{path}");
        assert!(!answer.headers().contains_key("retry-after"));
        let body: Value = serde_json::from_str(&text(answer).await).unwrap();
        assert_eq!(body["error"]["type"], place, "{path}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("used up its 10 tokens"), "{message}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn only_so_many_requests_run_at_a_time() {
    let upstream = Upstream::start().await;
    let mut own = config(&upstream.base_url());
    own.limits = Limits {
        at_a_time: 1,
        ..Limits::default()
    };
    let mut world = World::with(own, Book::default());
    let (sender, answer) = stream();
    upstream.then(answer);
    let running = world.post("/openai/v1/responses", &json!({})).await;
    let refused = world.post("/openai/v1/responses", &json!({})).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    drop(sender);
    text(running).await;
    world.book.only().await;
    upstream.then(json_answer(200, &json!({})));
    let answer = world.post("/openai/v1/responses", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn only_so_many_requests_are_made_in_a_minute() {
    let upstream = Upstream::start().await;
    let mut own = config(&upstream.base_url());
    own.limits.per_minute = NonZeroU32::new(2).unwrap();
    let mut world = World::with(own, Book::default());
    let mut statuses = Vec::new();
    for _ in 0..3 {
        upstream.then(json_answer(200, &json!({})));
        let answer = world.post("/openai/v1/responses", &json!({})).await;
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn only_so_many_connections_are_served() {
    let mut own = config("http://127.0.0.1:1/v1");
    own.limits.connections = 1;
    let mut world = World::with(own, Book::default());
    let _first = world.stream();
    tokio::task::yield_now().await;
    let mut second = world.stream();
    let read = second.read_u8().await;
    assert!(read.is_err(), "it is closed at once");
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let mut world = World::new("http://127.0.0.1:1/v1");
    for head in [
        format!("POST /openai/v1/{} HTTP/1.1\r\n", "a".repeat(200_000)),
        format!("POST / HTTP/1.1\r\nx-a: {}\r\n\r\n", "a".repeat(200_000)),
        format!("POST / HTTP/1.1\r\n{}\r\n", "x-a: b\r\n".repeat(500)),
    ] {
        let mut stream = world.stream();
        // It may be cut off before all of it is taken.
        let _taken = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        let _end = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[tokio::test]
async fn a_huge_body_is_refused_said_or_unsaid() {
    let upstream = Upstream::start().await;
    let mut own = config(&upstream.base_url());
    own.most_body = 1000;
    let mut world = World::with(own, Book::default());
    let long = json!({ "model": "a".repeat(2000) });
    let answer = world.post("/anthropic/v1/messages", &long).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert!(text(answer).await.contains("request_too_large"));

    let mut stream = world.stream();
    let chunk = format!("2bc\r\n{}\r\n", "a".repeat(700));
    let head =
        "POST /anthropic/v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    stream
        .write_all(format!("{head}{chunk}{chunk}").as_bytes())
        .await
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn two_lengths_are_no_request() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    let mut stream = world.stream();
    let head = "POST /openai/v1/responses HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\
                content-length: 2\r\n\r\nGET /";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _end = stream.read_to_end(&mut answer).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 400"),
        "{:?}",
        Bytes::from(answer)
    );
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn an_upstream_that_falls_silent_is_not_waited_for_for_ever() {
    let upstream = Upstream::start().await;
    let mut own = config(&upstream.base_url());
    own.network.idle_seconds = 1;
    let mut world = World::with(own, Book::default());
    let (sender, answer) = stream();
    upstream.then(answer);
    let answer = world.post("/openai/v1/responses", &json!({})).await;
    sender
        .send(Ok(Bytes::from_static(b"data: {}\n\n")))
        .await
        .unwrap();
    let cut = answer.into_body().collect().await;
    assert!(cut.is_err(), "a cut is no end");
    assert!(!world.book.only().await.is_complete);
}

#[tokio::test]
async fn requests_go_through_the_proxy_that_is_configured() {
    let proxy = Upstream::start().await;
    proxy.then(json_answer(200, &json!({})));
    let mut own = config("http://models.example/v1");
    own.network.proxy = Some(Secret::new(format!("http://{}", proxy.address)));
    let mut world = World::with(own, Book::default());
    let answer = world.post("/openai/v1/responses", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(proxy.seen()[0].uri, "http://models.example/v1/responses");
}

#[test]
fn settings_that_cannot_be_are_refused_without_their_secrets() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut own = config("http://models.example/v1");
        change(&mut own);
        let book = Arc::new(Book::default());
        let made = Models::new(own, Arc::clone(&book) as _, book as _);
        made.unwrap_err().to_string()
    };
    for url in [
        "",
        "models.example",
        "ftp://a/v1",
        "http://u:hunter22@a/v1",
        "http://a/v1?k=v",
    ] {
        let said = refused(&|own| own.upstreams[0].base_url = url.to_owned());
        assert!(
            said.contains("anthropic") && !said.contains("hunter22"),
            "{said}"
        );
    }
    for id in ["", "a/b", "A", "a b", "..", "é"] {
        let said = refused(&|own| own.upstreams[0].id = id.to_owned());
        assert!(said.contains("lower-case letters"), "{said}");
    }
    let said = refused(&|own| own.upstreams[0].id = "demo".to_owned());
    assert!(said.contains("two model providers"), "{said}");
    let said = refused(&|own| own.network.proxy = Some(Secret::new("u:hunter22@ proxy")));
    assert!(
        said.contains("http://host:port") && !said.contains("hunter22"),
        "{said}"
    );
}
