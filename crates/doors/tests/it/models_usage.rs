//! What was used is told once, whole and cut, for each API.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use nacre_doors::models::Used;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use wire::link::Usage;

use crate::upstream::{Upstream, stream, whole};
use crate::world::{World, post, text, visitor};

/// An upstream's answer to one request, and what the meter was told of it.
async fn told(path: &str, model: &str, kind: &str, answer: &str) -> Used {
    let upstream = Upstream::start().await;
    upstream.then(whole(200, kind, answer.to_owned()));
    let mut world = World::new(&upstream.base_url());
    let came = world.post(path, &json!({ "model": model })).await;
    assert_eq!(text(came).await, answer);
    let used = world.book.only().await;
    assert_eq!(used.status, Some(200));
    assert_eq!(used.model, model);
    used
}

fn events(events: &[Value]) -> String {
    let lines = events.iter().map(|event| format!("data: {event}\n\n"));
    lines.collect()
}

fn usage(input: u64, output: u64, reasoning: u64, read: u64, write: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        reasoning_tokens: reasoning,
        cache_read_tokens: read,
        cache_write_tokens: write,
    }
}

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

#[tokio::test]
async fn messages_are_counted() {
    let counts = json!({ "input_tokens": 1000, "output_tokens": 100,
        "cache_read_input_tokens": 10_000, "cache_creation_input_tokens": 400 });
    let model = "claude-sonnet-4-5-20250929";
    let path = "/anthropic/v1/messages";
    let body = json!({ "type": "message", "usage": counts }).to_string();
    let used = told(path, model, JSON, &body).await;
    assert_eq!(used.provider, "anthropic");
    assert_eq!(used.usage, usage(1000, 100, 0, 10_000, 400));
    // 3000 + 1500 + 3000 + 1500
    assert_eq!(used.cost_micros, Some(9000));
    assert!(used.is_complete);

    let body = events(&[
        json!({ "type": "message_start", "message": { "usage": counts } }),
        json!({ "type": "content_block_delta", "delta": { "text": "\"usage\"" } }),
        json!({ "type": "message_delta", "usage": { "output_tokens": 200 } }),
        json!({ "type": "message_stop" }),
    ]);
    let used = told(path, model, EVENTS, &body).await;
    assert_eq!(used.usage, usage(1000, 200, 0, 10_000, 400));
    assert!(used.is_complete);
}

#[tokio::test]
async fn chats_are_counted() {
    let counts = json!({ "prompt_tokens": 100, "completion_tokens": 30,
        "prompt_tokens_details": { "cached_tokens": 60 },
        "completion_tokens_details": { "reasoning_tokens": 20 } });
    let path = "/openai/v1/chat/completions";
    let body = json!({ "choices": [], "usage": counts }).to_string();
    let used = told(path, "gpt-5", JSON, &body).await;
    assert_eq!(used.usage, usage(40, 10, 20, 60, 0));
    let streamed = events(&[
        json!({ "choices": [{ "delta": { "content": "a" } }], "usage": null }),
        json!({ "choices": [], "usage": counts }),
    ]) + "data: [DONE]\n\n";
    let used = told(path, "gpt-5", EVENTS, &streamed).await;
    assert_eq!(used.usage, usage(40, 10, 20, 60, 0));
    // 50 + 100 + 200 + 7.5
    assert_eq!(used.cost_micros, Some(358));
    assert!(used.is_complete);
    let silent = events(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]);
    let used = told(path, "unheard-of", EVENTS, &silent).await;
    assert_eq!((used.usage, used.cost_micros), (Usage::default(), None));
    assert!(!used.is_complete);
}

#[tokio::test]
async fn responses_are_counted() {
    let response = json!({ "id": "r", "usage": { "input_tokens": 50, "output_tokens": 8,
        "input_tokens_details": { "cached_tokens": 10 },
        "output_tokens_details": { "reasoning_tokens": 3 } } });
    let path = "/openai/v1/responses";
    let used = told(path, "gpt-5-mini", JSON, &response.to_string()).await;
    assert_eq!(used.usage, usage(40, 5, 3, 10, 0));
    let streamed = events(&[
        json!({ "type": "response.created", "response": { "usage": null } }),
        json!({ "type": "response.completed", "response": response }),
    ]);
    let used = told(path, "gpt-5-mini", EVENTS, &streamed).await;
    assert_eq!(used.usage, usage(40, 5, 3, 10, 0));
    assert!(used.is_complete);
}

fn started() -> Bytes {
    let usage = json!({ "input_tokens": 77, "output_tokens": 1 });
    events(&[json!({ "type": "message_start", "message": { "usage": usage } })]).into()
}

#[tokio::test]
async fn what_is_known_counts_when_the_client_goes_away() {
    let upstream = Upstream::start().await;
    let (sender, answer) = stream();
    upstream.then(answer);
    let mut world = World::new(&upstream.base_url());
    let answer = world
        .post("/anthropic/v1/messages", &json!({ "model": "m" }))
        .await;
    sender.send(Ok(started())).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let used = world.book.only().await;
    assert_eq!(used.usage.input_tokens, 77);
    assert!(!used.is_complete);
    // The upstream is let go too, so that it can stop.
    sender.closed().await;
}

#[tokio::test]
async fn what_is_known_counts_when_the_upstream_breaks_off() {
    let upstream = Upstream::start().await;
    let (sender, answer) = stream();
    upstream.then(answer);
    let mut world = World::new(&upstream.base_url());
    let answer = world
        .post("/anthropic/v1/messages", &json!({ "model": "m" }))
        .await;
    sender.send(Ok(started())).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    sender
        .send(Err(std::io::Error::other("cut")))
        .await
        .unwrap();
    assert!(body.frame().await.unwrap().is_err(), "a cut is no end");
    let used = world.book.only().await;
    assert_eq!((used.usage.input_tokens, used.status), (77, Some(200)));
    assert!(!used.is_complete);
}

#[tokio::test]
async fn a_request_is_counted_when_nobody_waited_for_the_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", silent.local_addr().unwrap());
    let world = World::new(&base_url);
    let visitor = visitor();
    let request = post("/openai/v1/responses", &json!({ "model": "m" }));
    let asked = async {
        let (mut connection, _) = silent.accept().await.unwrap();
        connection.read_u8().await.unwrap();
    };
    tokio::select! {
        answer = world.models.handle(&visitor, request) => panic!("{:?}", answer.status()),
        () = asked => {}
    }
    let used = world.book.only().await;
    assert_eq!((used.usage, used.status), (Usage::default(), None));
}

#[tokio::test]
async fn which_conversation_asked_is_told_and_goes_no_further() {
    let upstream = Upstream::start().await;
    upstream.then(whole(200, JSON, "{}"));
    let mut world = World::new(&upstream.base_url());
    let mut request = post("/openai/v1/responses", &json!({ "model": "gpt-5" }));
    for (name, value) in [("x-session-id", "ses_c"), ("x-parent-session-id", "ses_p")] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = world.connect().await.send_request(request).await.unwrap();
    text(answer).await;
    let asker = world.book.only().await.asker;
    assert_eq!(asker.conversation.as_deref(), Some("ses_c"));
    assert_eq!(asker.parent.as_deref(), Some("ses_p"));
    let headers = &upstream.seen()[0].headers;
    assert!(!headers.contains_key("x-session-id"), "{headers:?}");
}

#[tokio::test]
async fn what_costs_nothing_and_what_nobody_can_tell_are_not_the_same() {
    let counted = told("/anthropic/v1/messages/count_tokens", "m", JSON, "{}").await;
    assert_eq!((counted.cost_micros, counted.is_complete), (Some(0), true));
    let silent = told("/openai/v1/responses", "gpt-5", JSON, "{}").await;
    assert_eq!((silent.cost_micros, silent.is_complete), (None, false));
    let upstream = Upstream::start().await;
    upstream.then(whole(429, JSON, "{}"));
    let mut world = World::new(&upstream.base_url());
    let asked = json!({ "model": "gpt-5" });
    let answer = world.post("/openai/v1/responses", &asked).await;
    assert_eq!(answer.status().as_u16(), 429);
    text(answer).await;
    let refused = world.book.only().await;
    assert_eq!((refused.cost_micros, refused.is_complete), (Some(0), true));
}
