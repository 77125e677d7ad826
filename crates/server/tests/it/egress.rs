//! What sessions reach, and who decides.

use std::time::Duration;

use hyper::Method;
use model::{Clock as _, SystemClock};
use provider::{Blocked, SandboxId};
use serde_json::{Value, json};
use store::accounts::Role;

use crate::world::{Somebody, World};

async fn running(world: &World, who: &Somebody, id: &str) -> SandboxId {
    let path = format!("/v1/sessions/{id}/resume");
    let session = world.post(who, &path, json!({})).await;
    session["sandbox_id"].as_str().unwrap().parse().unwrap()
}

async fn blocked(world: &World, who: &Somebody, id: &str, count: usize) -> Value {
    let path = format!("/v1/sessions/{id}/egress");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let egress = world.get(who, &path).await;
        if egress["blocked"].as_array().unwrap().len() >= count {
            return egress;
        }
        assert!(tokio::time::Instant::now() < deadline, "{egress}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_was_blocked_is_listed_and_let_through_once_or_for_good() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}/egress");
    let none = world.get(&ada, &path).await;
    assert_eq!(
        none,
        json!({ "policy": "proxy", "allow": [], "once": [], "blocked": [] })
    );
    let sandbox = running(&world, &ada, &id).await;
    let refused = |host: &str, reason: &str| Blocked {
        at: SystemClock.now(),
        host: host.to_owned(),
        port: 443,
        reason: reason.to_owned(),
    };
    world.fake.refuse(
        sandbox,
        [
            refused("pearl.example", "not-listed"),
            refused("10.0.0.1", "private"),
        ],
    );
    let egress = blocked(&world, &ada, &id, 2).await;
    assert_eq!(egress["blocked"][0]["host"], "10.0.0.1");
    assert_eq!(egress["blocked"][0]["can_allow"], false);
    assert_eq!(egress["blocked"][1]["host"], "pearl.example");
    assert_eq!(egress["blocked"][1]["can_allow"], true);

    let once = json!({ "host": "Pearl.Example", "port": 443, "allow": "once" });
    let once = world.post(&ada, &path, once).await;
    assert_eq!(once["rule"], "pearl.example:443");
    assert_eq!(once["applied"], true);
    let always = json!({ "host": "shell.example", "allow": "always" });
    let always = world.post(&ada, &path, always).await;
    assert_eq!(
        always,
        json!({ "rule": "shell.example", "allow": "always", "applied": true })
    );
    let passes = world.fake.passes(sandbox);
    let rules: Vec<&str> = passes.iter().map(|pass| &*pass.rule).collect();
    assert_eq!(rules, ["shell.example", "pearl.example:443"]);
    let ends = passes[1].until.unwrap().duration_since(SystemClock.now());
    assert!((240..=300).contains(&ends.as_secs()), "{ends}");
    let egress = world.get(&ada, &path).await;
    assert_eq!(egress["allow"], json!(["shell.example"]));
    assert_eq!(egress["once"][0]["rule"], "pearl.example:443");
    assert_eq!(egress["once"][0]["until"], once["until"]);
    let lines = world.store.audit_lines(ada.organisation, None, 100).await;
    let lines = lines.unwrap();
    let noted = lines.iter().filter(|line| line.action == "session.egress");
    assert_eq!(noted.count(), 2, "{lines:?}");
}

#[tokio::test]
async fn private_addresses_and_what_is_no_host_are_let_through_for_nobody() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let id = world.session(&ada).await;
    let path = format!("/v1/sessions/{id}/egress");
    for (host, status, code) in [
        ("169.254.169.254", 409, "egress-private"),
        ("127.0.0.1", 409, "egress-private"),
        ("[::ffff:10.0.0.1]", 409, "egress-private"),
        ("[fd00:ec2::254]", 409, "egress-private"),
        ("*", 400, "invalid"),
        ("*.example", 400, "invalid"),
        ("pearl.example.", 400, "invalid"),
        ("0x7f000001", 400, "invalid"),
        ("pearl.example\u{0}.evil.example", 400, "invalid"),
    ] {
        let body = json!({ "host": host, "allow": "always" });
        let answer = world.say(&ada, Method::POST, &path, body).await;
        assert_eq!((answer.status, &*answer.code()), (status, code), "{host}");
    }
    let body = json!({ "host": "pearl.example", "allow": "sometimes" });
    let answer = world.say(&ada, Method::POST, &path, body).await;
    assert_eq!(answer.status, 400);
    assert_eq!(world.get(&ada, &path).await["allow"], json!([]));
}

#[tokio::test]
async fn a_session_is_made_with_a_policy_and_only_owners_open_everything() {
    let world = World::new().await;
    let ada = world.somebody().await;
    let eve = world.member(ada.organisation, Role::Member).await;
    let make = async |who: &Somebody, egress: Value| {
        let body = json!({ "egress": egress });
        world.say(who, Method::POST, "/v1/sessions", body).await
    };
    let shown_of = async |egress: Value| {
        let answer = make(&ada, egress).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let shown = world.get(&ada, &format!("/v1/sessions/{id}/egress")).await;
        (id, shown)
    };
    let (_, proxied) =
        shown_of(json!({ "allow": ["Pearl.example", "*.shell.example:8443"] })).await;
    assert_eq!(proxied["policy"], "proxy");
    assert_eq!(
        proxied["allow"],
        json!(["*.shell.example:8443", "pearl.example"])
    );
    let (_, open) = shown_of(json!({ "policy": "open" })).await;
    assert_eq!(open["policy"], "open");
    let (id, none) = shown_of(json!({ "policy": "none" })).await;
    assert_eq!(none["policy"], "none");
    let body = json!({ "host": "pearl.example", "allow": "once" });
    let path = format!("/v1/sessions/{id}/egress");
    let refused = world.say(&ada, Method::POST, &path, body).await;
    assert_eq!((refused.status, &*refused.code()), (409, "egress-none"));
    for wide in [
        json!({ "policy": "open" }),
        json!({ "allow": ["*"] }),
        json!({ "allow": ["*:22"] }),
    ] {
        assert_eq!(make(&eve, wide.clone()).await.status, 403, "{wide}");
    }
    assert_eq!(make(&eve, json!({ "policy": "none" })).await.status, 201);
    for bad in [
        json!({ "policy": "none", "allow": ["a.example"] }),
        json!({ "allow": ["https://a.example"] }),
        json!({ "policy": "host" }),
        json!({ "allow": vec!["a.example"; 201] }),
    ] {
        assert_eq!(make(&ada, bad.clone()).await.status, 400, "{bad}");
    }
}
