//! What models took: for which prompt, what it cost, and when it is enough.

use std::time::Duration;

use doors::models::{Budget, Config, Price};
use hyper::Method;
use serde_json::{Value, json};

use crate::runner::{Runner, ask_model};
use crate::stand_in::{Asked, Said, StandIn};
use crate::world::{Somebody, World};

/// 100 tokens in and 10 out, whatever is asked.
fn model(asked: &Asked) -> Said {
    let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
    let body = match &*asked.what {
        "POST /v1/responses" => json!({ "id": "r", "usage": usage }),
        _ => json!({ "error": { "message": "what?" } }),
    };
    (200, "application/json", body.to_string())
}

/// A dollar for a million tokens in, ten for a million out, of `m`; of others nobody knows.
fn config(upstream: &StandIn, budget: Budget) -> Config {
    let mut config = Config::default();
    config.upstreams.retain(|one| one.id == "openai");
    config.upstreams[0].base_url = upstream.base_url();
    config.prices = vec![Price {
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        input: 1_000_000,
        output: 10_000_000,
        cache_read: 0,
        cache_write: 0,
    }];
    config.budget = budget;
    config
}

struct Stage {
    world: World,
    ada: Somebody,
    runner: Runner,
    /// Of the session, below `/v1`.
    path: String,
    _upstream: StandIn,
}

impl Stage {
    async fn set(budget: Budget) -> Self {
        let upstream = StandIn::start(model).await;
        let world = World::with(config(&upstream, budget), doors::git::Config::default()).await;
        let ada = world.somebody().await;
        let key = json!({ "name": "key", "scope": { "model": "openai" }, "value": "sk-1234567" });
        let set = world.say(&ada, Method::PUT, "/v1/secrets", key).await;
        assert_eq!(set.status, 200, "{set:?}");
        let id = world.session(&ada).await;
        let path = format!("/v1/sessions/{id}");
        let session = world.post(&ada, &format!("{path}/resume"), json!({})).await;
        let runner = Runner::of(&world, &session).await;
        Self {
            world,
            ada,
            runner,
            path,
            _upstream: upstream,
        }
    }

    /// A prompt that runs on a channel, in this conversation of the agent.
    async fn prompt(&mut self, prompt: &str, channel: &str, conversation: &str) {
        let body = json!({ "id": prompt, "content": "go", "channel": channel });
        let path = format!("{}/prompts", self.path);
        self.world.post(&self.ada, &path, body).await;
        let sent = self.runner.hear("prompt").await;
        assert_eq!(sent["id"], prompt);
        self.runner
            .say(json!({ "type": "accepted", "prompt_id": prompt, "channel": channel }))
            .await;
        self.runner
            .say(
                json!({ "type": "channel_session_created", "channel": channel,
                "agent_session": conversation }),
            )
            .await;
    }

    async fn ask(&self, model: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let body = json!({ "model": model });
        let sandbox = self.runner.sandbox;
        ask_model(&self.world, sandbox, "/openai/v1/responses", headers, &body).await
    }

    /// Once so many requests are written down.
    async fn session(&self, requests: u64) -> Value {
        let counted = async {
            loop {
                let session = self.world.get(&self.ada, &self.path).await;
                if session["usage"]["requests"] == requests {
                    return session;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let limit = Duration::from_secs(10);
        let counted = tokio::time::timeout(limit, counted).await;
        counted.expect("all of it is written down")
    }

    async fn of_prompt(&self, prompt: &str) -> Value {
        let path = format!("{}/prompts/{prompt}", self.path);
        self.world.get(&self.ada, &path).await["usage"].clone()
    }
}

#[tokio::test]
async fn what_was_used_is_written_down_before_the_server_ends() {
    let stage = Stage::set(Budget::default()).await;
    for _ in 0..3 {
        assert_eq!(stage.ask("m", &[]).await.0, 200);
    }
    stage.world.front.flush().await;
    let session = stage.world.get(&stage.ada, &stage.path).await;
    assert_eq!(session["usage"]["requests"], 3);
    let scraped = stage.world.ask(&stage.ada, Method::GET, "/metrics").await;
    let scraped = String::from_utf8(scraped.body).unwrap();
    for counted in [
        "nacre_model_requests_total{",
        "nacre_model_tokens_total{",
        "nacre_model_seconds_",
        "nacre_door_visits_total{door=\"model\"}",
        "nacre_sockets_open 0",
    ] {
        assert!(scraped.contains(counted), "{counted} is not in {scraped}");
    }
}

#[tokio::test]
async fn each_request_is_counted_for_the_prompt_that_it_was_made_for() {
    let mut stage = Stage::set(Budget::default()).await;
    stage.prompt("p1", "web:default", "ses_web").await;
    stage.prompt("p2", "slack:C1", "ses_slack").await;
    let conversation = |name| ("x-session-id", name);
    let parent = |name| ("x-parent-session-id", name);
    for headers in [
        &[conversation("ses_web")][..],
        &[conversation("ses_web")],
        &[conversation("ses_slack")],
        // A subagent of the first, and one of its own.
        &[conversation("ses_sub"), parent("ses_web")],
        &[conversation("ses_deep"), parent("ses_sub")],
        // Nobody's: no name, a review's, one that is made up.
        &[],
        &[conversation("ses_review")],
        &[conversation("../ses_web")],
    ] {
        assert_eq!(stage.ask("m", headers).await.0, 200);
    }
    let usage = &stage.session(8).await["usage"];
    // 100 + 100 micro-dollars each.
    assert_eq!(usage["cost_micros"], 1600);
    assert_eq!(usage["input_tokens"], 800);
    assert_eq!(usage["unattributed"]["requests"], 3);
    assert_eq!(usage["unattributed"]["cost_micros"], 600);
    let listed = stage.world.get(&stage.ada, "/v1/sessions").await;
    assert_eq!(listed["items"][0]["usage"], *usage);
    let first = stage.of_prompt("p1").await;
    assert_eq!(
        (&first["requests"], &first["cost_micros"]),
        (&json!(4), &json!(800))
    );
    assert_eq!(first["subagents"]["requests"], 2);
    let second = stage.of_prompt("p2").await;
    assert_eq!(second["requests"], 1);
    assert_eq!(second["subagents"]["requests"], 0);
}

#[tokio::test]
async fn what_is_asked_after_the_end_of_a_prompt_is_not_its() {
    let mut stage = Stage::set(Budget::default()).await;
    stage.prompt("p1", "web:default", "ses_web").await;
    stage.ask("m", &[("x-session-id", "ses_web")]).await;
    stage
        .runner
        .say(json!({ "type": "complete", "prompt_id": "p1", "channel": "web:default" }))
        .await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    stage.ask("m", &[("x-session-id", "ses_web")]).await;
    let usage = &stage.session(2).await["usage"];
    assert_eq!(usage["unattributed"]["requests"], 1);
    assert_eq!(stage.of_prompt("p1").await["requests"], 1);
}

#[tokio::test]
async fn a_model_without_a_price_costs_something_and_nobody_says_how_much() {
    let stage = Stage::set(Budget::default()).await;
    stage.ask("unheard-of", &[]).await;
    let usage = &stage.session(1).await["usage"];
    assert_eq!(usage["cost_micros"], Value::Null);
    assert_eq!(usage["unpriced_requests"], 1);
    assert_eq!(usage["input_tokens"], 100);
    stage.ask("m", &[]).await;
    let usage = &stage.session(2).await["usage"];
    assert_eq!(usage["cost_micros"], 200);
    assert_eq!(usage["unpriced_requests"], 1);
}

#[tokio::test]
async fn a_session_that_has_used_up_its_tokens_is_told_and_asks_no_more() {
    let budget = Budget {
        tokens: Some(220),
        cost_micros: None,
    };
    let stage = Stage::set(budget).await;
    for requests in 1..=2 {
        assert_eq!(stage.ask("m", &[]).await.0, 200);
        stage.session(requests).await;
    }
    let (status, refused) = stage.ask("m", &[]).await;
    assert_eq!(status, 402, "{refused}");
    assert_eq!(refused["error"]["code"], "insufficient_quota");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("220 tokens"), "{message}");
    assert!(message.contains("models.tokens_per_session"), "{message}");
    // What was refused here went nowhere.
    stage.session(2).await;
}

#[tokio::test]
async fn a_session_that_has_used_up_its_money_is_told_and_another_is_not() {
    let budget = Budget {
        tokens: None,
        cost_micros: Some(150),
    };
    let stage = Stage::set(budget).await;
    stage.ask("m", &[]).await;
    stage.session(1).await;
    let (status, refused) = stage.ask("m", &[]).await;
    assert_eq!(status, 402, "{refused}");
    let id = stage.world.session(&stage.ada).await;
    let path = format!("/v1/sessions/{id}/resume");
    let other = stage.world.post(&stage.ada, &path, json!({})).await;
    let sandbox = other["sandbox_id"].as_str().unwrap().parse().unwrap();
    let body = json!({ "model": "m" });
    let (status, _) = ask_model(&stage.world, sandbox, "/openai/v1/responses", &[], &body).await;
    assert_eq!(status, 200);
}

/// What the agent itself counted, with its cost, is on the message.
#[tokio::test]
async fn the_end_of_a_message_says_what_it_cost() {
    let mut stage = Stage::set(Budget::default()).await;
    let usage = json!({ "input_tokens": 1000, "output_tokens": 100 });
    for (prompt, model, cost) in [
        ("p1", "openai/m", json!(2000)),
        ("p2", "openai/unheard-of", Value::Null),
    ] {
        stage.prompt(prompt, "web:default", "ses_web").await;
        let message = format!("m-{prompt}");
        for frame in [
            json!({ "type": "message", "message_id": message, "prompt_id": prompt,
                "channel": "web:default" }),
            json!({ "type": "usage", "prompt_id": prompt, "entries": [
                { "agent_message": "msg_1", "model": model, "usage": usage }] }),
            json!({ "type": "message.done", "message_id": message, "prompt_id": prompt,
                "reason": "end_turn", "text": "", "usage": {
                    "input_tokens": 1000, "output_tokens": 100, "cost_micros": 1 } }),
            json!({ "type": "complete", "prompt_id": prompt, "channel": "web:default" }),
        ] {
            stage.runner.say(frame).await;
        }
        let path = format!("{}/messages", stage.path);
        let messages = stage.world.get(&stage.ada, &path).await;
        let messages = messages["items"].as_array().unwrap();
        let told = messages.iter().find(|one| one["id"] == message).unwrap();
        assert_eq!(told["usage"]["input_tokens"], 1000);
        // Never the runner's own word for it.
        assert_eq!(told["usage"]["cost_micros"], cost, "{told}");
    }
}
