//! What goes wrong upstream, for each API: the agent sees it as it is, and the meter knows it.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::upstream::{Upstream, json as json_answer, stream};
use crate::world::{KEY, World, all, text};

/// Each API: where it is asked, how an error of its own looks, how a stream begins, and what is known
/// of its use after that.
struct Dialect {
    path: &'static str,
    error: Value,
    begins: &'static str,
    known_input: u64,
}

fn dialects() -> [Dialect; 3] {
    [
        Dialect {
            path: "/anthropic/v1/messages",
            error: json!({ "type": "error",
                "error": { "type": "overloaded_error", "message": "Overloaded" } }),
            begins: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":21,\"output_tokens\":1}}}\n\n",
            known_input: 21,
        },
        Dialect {
            path: "/openai/v1/chat/completions",
            error: json!({ "error": { "message": "Rate limit reached for gpt-5", "type": "tokens",
                "param": null, "code": "rate_limit_exceeded" } }),
            begins: "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}],\"usage\":null}\n\n",
            known_input: 0,
        },
        Dialect {
            path: "/openai/v1/responses",
            error: json!({ "error": { "message": "The server had an error", "type": "server_error",
                "param": null, "code": null } }),
            begins: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n",
            known_input: 0,
        },
    ]
}

#[tokio::test]
async fn an_error_keeps_its_status_its_words_and_its_time_to_wait() {
    for Dialect { path, error, .. } in dialects() {
        for (status, wait) in [(429, "11"), (500, "0"), (503, "2"), (529, "7")] {
            let upstream = Upstream::start().await;
            let mut world = World::new(&upstream.base_url());
            let mut answer = json_answer(status, &error);
            for (name, value) in [
                ("retry-after", wait),
                ("retry-after-ms", "250"),
                ("x-should-retry", "true"),
                ("request-id", "req_1"),
            ] {
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            upstream.then(answer);
            let answer = world.post(path, &json!({ "model": "m" })).await;
            assert_eq!(answer.status().as_u16(), status, "{path}");
            assert_eq!(answer.headers()["retry-after"], wait);
            assert_eq!(answer.headers()["retry-after-ms"], "250");
            assert_eq!(answer.headers()["x-should-retry"], "true");
            assert_eq!(answer.headers()["request-id"], "req_1");
            assert_eq!(text(answer).await, error.to_string());
            assert_eq!(world.book.only().await.status, Some(status));
        }
    }
}

#[tokio::test]
async fn a_key_in_an_error_stays_outside() {
    for Dialect { path, .. } in dialects() {
        let upstream = Upstream::start().await;
        let mut world = World::new(&upstream.base_url());
        let told = json!({ "error": { "message": format!("wrong key {KEY}, sorry") } });
        upstream.then(json_answer(401, &told));
        let came = all(world.post(path, &json!({})).await).await;
        assert!(came.starts_with("401"), "{came}");
        assert!(came.contains("wrong key [redacted], sorry"), "{came}");
        assert!(!came.contains(KEY));
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_cut_for_the_agent_and_noted_by_the_meter() {
    for Dialect {
        path,
        begins,
        known_input,
        ..
    } in dialects()
    {
        let upstream = Upstream::start().await;
        let (sender, answer) = stream();
        upstream.then(answer);
        let mut world = World::new(&upstream.base_url());
        let asked = json!({ "model": "claude-sonnet-4-5", "stream": true });
        let mut body = world.post(path, &asked).await.into_body();
        let first = Ok(Bytes::from_static(begins.as_bytes()));
        sender.send(first).await.unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), begins);
        let cut = Err(std::io::Error::other("the line is cut"));
        sender.send(cut).await.unwrap();
        assert!(
            body.frame().await.unwrap().is_err(),
            "{path}: a cut is no end"
        );
        let used = world.book.only().await;
        assert!(!used.is_complete, "{path}");
        assert_eq!(used.usage.input_tokens, known_input, "{path}");
        assert_eq!(used.status, Some(200));
        // Of what did not say, nobody knows the cost; of the rest, what is known.
        assert_eq!(used.cost_micros.is_some(), known_input > 0, "{path}");
    }
}

/// Some upstreams say it inside a stream that began well.
#[tokio::test]
async fn an_error_inside_a_stream_goes_through_and_the_answer_is_not_whole() {
    for (path, event) in [
        (
            "/anthropic/v1/messages",
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        ),
        (
            "/openai/v1/chat/completions",
            "data: {\"error\":{\"message\":\"The server had an error\",\"type\":\"server_error\"}}\n\n",
        ),
        (
            "/openai/v1/responses",
            "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"oh\"}\n\n",
        ),
    ] {
        let upstream = Upstream::start().await;
        let (sender, answer) = stream();
        upstream.then(answer);
        let mut world = World::new(&upstream.base_url());
        let answer = world.post(path, &json!({ "model": "m" })).await;
        sender
            .send(Ok(Bytes::from_static(event.as_bytes())))
            .await
            .unwrap();
        drop(sender);
        assert_eq!(text(answer).await, event, "{path}");
        assert!(!world.book.only().await.is_complete, "{path}");
    }
}
