//! What goes through the model door, and what does not.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use serde_json::{Value, json};

use crate::upstream::{Upstream, json as json_answer, stream, whole};
use crate::world::{Book, KEY, World, all, config, post, shown, text};

#[tokio::test]
async fn a_stream_comes_chunk_by_chunk_and_byte_for_byte() {
    let upstream = Upstream::start().await;
    let (sender, answer) = stream();
    upstream.then(answer);
    let mut world = World::new(&upstream.base_url());
    let asked = json!({ "model": "claude-sonnet-4-5", "stream": true, "x": "\u{e9}" });
    let answer = world.post("/anthropic/v1/messages", &asked).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    let chunks: [&[u8]; 4] = [
        b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        b": a comment\r\n\r\ndata: half of",
        b" a line s",
        b"k-very\xff\xfe\n\n",
    ];
    let mut sent = Vec::new();
    let mut came = Vec::new();
    for chunk in chunks {
        sender.send(Ok(Bytes::from_static(chunk))).await.unwrap();
        sent.extend_from_slice(chunk);
        // All but what may be the beginning of the key is here before more is sent.
        let held = usize::from(chunk.ends_with(b"s"));
        while came.len() < sent.len() - held {
            let frame = tokio::time::timeout(Duration::from_secs(5), body.frame());
            let frame = frame.await.expect("nothing is kept back").unwrap().unwrap();
            came.extend_from_slice(&frame.into_data().unwrap());
        }
    }
    drop(sender);
    assert!(body.frame().await.is_none());
    assert_eq!(came, sent);
    let seen = upstream.seen();
    assert_eq!(seen[0].uri, "/v1/messages");
    assert_eq!(seen[0].body, asked.to_string());
}

#[tokio::test]
async fn the_sandboxs_credentials_stay_and_the_key_is_put_on_outside() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    upstream.then(json_answer(200, &json!({})));
    upstream.then(json_answer(200, &json!({})));
    let asked = json!({ "model": "m" });
    world.post("/anthropic/v1/messages?beta=true", &asked).await;
    world.post("/openai/v1/chat/completions", &asked).await;
    let seen = upstream.seen();
    let (anthropic, openai) = (&seen[0], &seen[1]);
    assert_eq!(anthropic.method, "POST");
    assert_eq!(anthropic.uri, "/v1/messages?beta=true");
    assert_eq!(anthropic.headers["x-api-key"], KEY);
    assert_eq!(anthropic.headers["anthropic-version"], "2023-06-01");
    assert!(!anthropic.headers.contains_key("authorization"));
    assert_eq!(openai.headers["authorization"], format!("Bearer {KEY}"));
    assert!(!openai.headers.contains_key("x-api-key"));
    for seen in seen {
        assert!(
            !shown(&seen.headers).contains("inside"),
            "{:?}",
            seen.headers
        );
    }
}

#[tokio::test]
async fn a_key_that_an_upstream_repeats_does_not_come_in() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    let told = format!("Incorrect API key provided: {KEY}.");
    for status in [200, 401, 500] {
        let mut answer = json_answer(status, &json!({ "error": { "message": told } }));
        let headers = answer.headers_mut();
        headers.insert("x-echo", KEY.parse().unwrap());
        headers.insert("set-cookie", "account=1".parse().unwrap());
        headers.insert("openai-organization", "us".parse().unwrap());
        upstream.then(answer);
        let answer = world.post("/openai/v1/responses", &json!({})).await;
        assert_eq!(answer.status().as_u16(), status);
        let all = all(answer).await;
        assert!(!all.contains(KEY), "{all}");
        assert!(all.contains("provided: [redacted]."), "{all}");
        assert!(!all.contains("account=1") && !all.contains("organization"));
    }
    let (sender, answer) = stream();
    upstream.then(answer);
    let answer = world.post("/openai/v1/responses", &json!({})).await;
    let (first, second) = KEY.split_at(9);
    for part in ["data: ", first, second, "\n\n"] {
        sender
            .send(Ok(Bytes::from_static(part.as_bytes())))
            .await
            .unwrap();
    }
    drop(sender);
    assert_eq!(text(answer).await, "data: [redacted]\n\n");
}

#[tokio::test]
async fn what_an_upstream_refuses_is_passed_on_as_it_is() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    for (status, wait) in [(429, "17"), (529, "3"), (401, "0"), (400, "1")] {
        let body = json!({ "type": "error", "error": { "type": "any", "message": status } });
        let mut answer = json_answer(status, &body);
        answer
            .headers_mut()
            .insert("retry-after", wait.parse().unwrap());
        upstream.then(answer);
        let answer = world.post("/anthropic/v1/messages", &json!({})).await;
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(answer.headers()["retry-after"], wait);
        assert_eq!(text(answer).await, body.to_string());
    }
    let used = world.book.used.lock().unwrap();
    let told: Vec<_> = used.iter().map(|(_, used)| used.status.unwrap()).collect();
    assert_eq!(told, [429, 529, 401, 400]);
}

#[tokio::test]
async fn other_endpoints_do_not_go_through() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    for path in [
        "/anthropic/v1/files",
        "/anthropic/v1/chat/completions",
        "/anthropic/v1/messages/batches",
        "/anthropic/v1/messages/",
        "/anthropic/v1/../v1/messages",
        "/anthropic/v1/messages%2f..",
        "/anthropic//v1/messages",
        "/openai/v1/fine_tuning/jobs",
        "/openai/v1/messages",
        "/elsewhere/v1/messages",
        "/v1/messages",
        "/",
    ] {
        let answer = world.post(path, &json!({})).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        let body: Value = serde_json::from_str(&text(answer).await).unwrap();
        assert!(body["error"]["message"].is_string(), "{body}");
        let is_anthropic = path.starts_with("/anthropic/v1/");
        assert_eq!(body["type"] == "error", is_anthropic, "{path}: {body}");
    }
    let answer = world.post("/openai/v1/models", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_bad_gateway() {
    let gone = Upstream::start().await.base_url();
    let mut world = World::new(&gone);
    for (path, is_anthropic) in [
        ("/anthropic/v1/messages", true),
        ("/openai/v1/responses", false),
    ] {
        let answer = world.post(path, &json!({})).await;
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        let body: Value = serde_json::from_str(&text(answer).await).unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("cannot get an answer"), "{message}");
        assert!(
            !message.contains(KEY) && !message.contains("http://"),
            "{message}"
        );
        assert_eq!(body["type"] == "error", is_anthropic);
    }
    let used = world.book.used.lock().unwrap();
    assert!(used.iter().all(|(_, used)| used.status.is_none()));
    assert_eq!(used.len(), 2);
}

#[tokio::test]
async fn redirects_and_compressed_answers_are_bad_gateways() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    let mut answer = whole(307, "text/plain", "");
    let there = format!("{}/messages", upstream.base_url());
    answer
        .headers_mut()
        .insert("location", there.parse().unwrap());
    upstream.then(answer);
    let mut answer = whole(200, "application/json", "{}");
    answer
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    upstream.then(answer);
    for _ in 0..2 {
        let answer = world.post("/anthropic/v1/messages", &json!({})).await;
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].headers["accept-encoding"], "identity");
}

#[tokio::test]
async fn without_a_key_the_agent_is_told_how_to_set_one() {
    let upstream = Upstream::start().await;
    let book = Book {
        has_no_key: true,
        ..Book::default()
    };
    let mut own = config(&upstream.base_url());
    own.upstreams[1].needs_key = false;
    let mut world = World::with(own, book);
    let answer = world.post("/anthropic/v1/messages", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let body = text(answer).await;
    assert!(
        body.contains("nacre secret set --model anthropic"),
        "{body}"
    );
    assert!(body.contains("authentication_error"), "{body}");
    upstream.then(json_answer(200, &json!({})));
    let answer = world.post("/openai/v1/responses", &json!({})).await;
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(!upstream.seen()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let upstream = Upstream::start().await;
    let mut world = World::new(&upstream.base_url());
    let mut connection = world.connect().await;
    for number in 0..5 {
        upstream.then(json_answer(200, &json!({ "number": number })));
        let request = post("/openai/v1/embeddings", &json!({ "model": "m" }));
        connection.ready().await.unwrap();
        let answer = connection.send_request(request).await.unwrap();
        assert_eq!(text(answer).await, json!({ "number": number }).to_string());
    }
}
