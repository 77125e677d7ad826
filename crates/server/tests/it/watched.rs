//! What whoever runs a server sees of it: names of requests, traces, the story of a failure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use provider::ProviderError;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::runner::Runner;
use crate::world::{Answer, Somebody, World};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const PROMPT: &str = "the canary sings at dawn";

async fn asked_with(world: &World, who: &Somebody, path: &str, header: (&str, &str)) -> Answer {
    let request = world
        .request(Method::GET, path)
        .header(AUTHORIZATION, format!("Bearer {}", who.token))
        .header(header.0, header.1)
        .body(Full::default());
    world.send(request.unwrap()).await
}

#[tokio::test]
async fn every_answer_names_its_request_and_problems_do_too() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let fine = world.ask(&ada, Method::GET, "/v1/sessions").await;
    let name = fine.headers["x-request-id"].to_str().unwrap();
    assert!(name.starts_with("req_"), "{name}");
    let missing = asked_with(
        &world,
        &ada,
        "/v1/sessions/ses_1",
        ("x-request-id", "mine-1"),
    )
    .await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.headers["x-request-id"], "mine-1");
    assert_eq!(missing.json()["request_id"], "mine-1");
    let nowhere = world.ask(&ada, Method::DELETE, "/healthz").await;
    assert_eq!(
        nowhere.json()["request_id"],
        nowhere.headers["x-request-id"].to_str().unwrap()
    );
}

#[tokio::test]
async fn a_name_that_is_long_or_strange_is_not_taken() {
    let world = World::new().await;
    let ada = world.somebody().await;
    for strange in ["a b", "<script>", &"a".repeat(101)] {
        let answer = asked_with(&world, &ada, "/v1/sessions", ("x-request-id", strange)).await;
        let name = answer.headers["x-request-id"].to_str().unwrap();
        assert!(name.starts_with("req_"), "{name}");
    }
}

#[tokio::test]
async fn the_audit_tells_which_request_it_was() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let request = world
        .request(Method::POST, "/v1/sessions")
        .header(AUTHORIZATION, format!("Bearer {}", ada.token))
        .header(CONTENT_TYPE, "application/json")
        .header("x-request-id", "mine-2")
        .body(Full::from("{}"));
    let made = world.send(request.unwrap()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let lines = world.store.audit_lines(ada.organisation, None, 10).await;
    let lines = lines.unwrap();
    assert!(lines[0].body.contains(r#""request":"mine-2""#), "{lines:?}");
}

#[tokio::test]
async fn a_start_that_failed_is_told_with_its_phase_its_request_and_what_to_do() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}");
    let refused = ProviderError::refused("no more room");
    world.fake.fail_next("ensure", refused);
    let request = world
        .request(Method::POST, &format!("{path}/resume"))
        .header(AUTHORIZATION, format!("Bearer {}", ada.token))
        .header("x-request-id", "mine-3")
        .header("traceparent", CALLER)
        .body(Full::default());
    let failed = world.send(request.unwrap()).await;
    assert_eq!(failed.status, 502, "{failed:?}");
    let session = world.get(&ada, &path).await;
    let fault = &session["faults"][0];
    assert_eq!(fault["code"], "provider", "{session}");
    assert_eq!(fault["phase"], "sandbox");
    assert_eq!(fault["request_id"], "mine-3");
    assert_eq!(fault["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert!(fault["message"].as_str().unwrap().contains("no more room"));
    assert_eq!(
        session["next"]["command"],
        format!("nacre session resume {id}")
    );
}

#[tokio::test]
async fn a_prompt_is_one_trace_from_its_request_to_the_end_of_the_agents_turn() {
    let collector = Collector::start().await;
    let exporter = telemetry::start(telemetry::Settings {
        endpoint: collector.endpoint.clone(),
        headers: None,
        service: "nacre".to_owned(),
        version: "0".to_owned(),
        instance: "a test".to_owned(),
    });
    let exporter = exporter.unwrap();
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}");
    let session = world.post(&ada, &format!("{path}/resume"), json!({})).await;
    let mut runner = Runner::of(&world, &session).await;
    let body = json!({ "id": "p-1", "content": PROMPT });
    let request = world
        .request(Method::POST, &format!("{path}/prompts"))
        .header(AUTHORIZATION, format!("Bearer {}", ada.token))
        .header(CONTENT_TYPE, "application/json")
        .header("traceparent", CALLER)
        .body(Full::from(body.to_string()));
    let asked = world.send(request.unwrap()).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    runner.hear("prompt").await;
    for frame in [
        json!({ "type": "accepted", "prompt_id": "p-1", "channel": "web:default" }),
        json!({ "type": "message", "message_id": "m-1", "role": "assistant",
            "channel": "web:default", "prompt_id": "p-1" }),
        json!({ "type": "part", "message_id": "m-1", "part_id": "text", "open": false,
            "content": { "kind": "text", "text": PROMPT } }),
        json!({ "type": "message.done", "message_id": "m-1", "prompt_id": "p-1",
            "reason": "end_turn", "text": "" }),
        json!({ "type": "complete", "prompt_id": "p-1", "channel": "web:default" }),
    ] {
        runner.say(frame).await;
    }
    world.sessions.shut_down().await;
    exporter.finish().await;

    let spans = collector.spans();
    let one = |name: &str| {
        let mut found = spans.values().filter(|span| span["name"] == name);
        let span = found.next();
        span.unwrap_or_else(|| panic!("no `{name}` among {:#?}", names(&spans)))
    };
    let above = |span: &Value| &spans[span["parentSpanId"].as_str().unwrap()];
    let turn = one("agent turn");
    let prompt = above(turn);
    assert_eq!(prompt["name"], "prompt");
    let request = above(prompt);
    assert_eq!(request["name"], "POST /v1/sessions/{id}/prompts");
    // The caller's own span is the one above.
    assert_eq!(request["parentSpanId"], "b7ad6b7169203331");
    for span in [turn, prompt, request] {
        assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    }
    assert_eq!(attribute(turn, "nacre.session"), id);
    assert_eq!(attribute(prompt, "nacre.prompt"), "p-1");
    assert_eq!(attribute(prompt, "status"), "finished");
    assert_eq!(turn["events"][0]["name"], "first output");
    assert_eq!(above(one("hub prompt"))["spanId"], request["spanId"]);
    assert_eq!(above(one("prompt dispatched"))["spanId"], prompt["spanId"]);

    let boot = above(above(one("provider ensure")));
    assert_eq!(boot["name"], "boot");
    assert_eq!(above(boot)["name"], "hub ensure_ready");
    assert_eq!(above(one("boot link"))["spanId"], boot["spanId"]);

    let everything = format!("{spans:?}");
    assert!(!everything.contains("canary"), "{everything}");
    assert!(!everything.contains(&ada.token));
}

fn names(spans: &HashMap<String, Value>) -> Vec<&Value> {
    spans.values().map(|span| &span["name"]).collect()
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.unwrap()["value"]["stringValue"].as_str().unwrap()
}

/// Takes spans as a collector does, and shows them.
struct Collector {
    endpoint: String,
    taken: Arc<Mutex<Vec<Value>>>,
    _serving: tokio::task::JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let taken: Arc<Mutex<Vec<Value>>> = Arc::default();
        let mut serving = tokio::task::JoinSet::new();
        let (app, kept) = (axum::Router::new(), Arc::clone(&taken));
        let take = async move |axum::Json(body): axum::Json<Value>| {
            kept.lock().unwrap().push(body);
            axum::Json(json!({}))
        };
        let app = app.route("/v1/traces", axum::routing::post(take));
        serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            endpoint,
            taken,
            _serving: serving,
        }
    }

    /// By their ids.
    fn spans(&self) -> HashMap<String, Value> {
        let taken = self.taken.lock().unwrap();
        let spans = taken.iter().flat_map(|body| {
            body["resourceSpans"][0]["scopeSpans"][0]["spans"]
                .as_array()
                .unwrap()
        });
        let named = spans.map(|span| (span["spanId"].as_str().unwrap().to_owned(), span.clone()));
        named.collect()
    }
}
