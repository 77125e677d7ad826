//! The front door over the fake provider, for testers of `/v1` that are no Rust: it prints where it
//! is, a token and what there is to ask for, as one line of JSON, and serves until its input is
//! closed or it is told to end.

#![expect(clippy::print_stdout, reason = "that is how it says where it is")]

#[expect(dead_code, clippy::unwrap_used, reason = "it is made for tests")]
#[path = "../tests/it/world.rs"]
mod world;

use hyper::Method;
use model::{Clock as _, Id, SignedDuration, SystemClock};
use serde_json::{Value, json};
use store::actions::{NewAction, Risk, Status};
use store::evidence::EvidenceRecord;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use world::{Somebody, World};

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse());
    let port = port.expect("a port, or nothing for one that is free");
    let mut end = signal(SignalKind::terminate()).expect("signals can be waited for");
    let world = World::at_port(port).await;
    let owner = world.somebody().await;
    println!("{}", furnish(&world, &owner).await);
    tokio::select! {
        _ = input_closes() => {}
        _ = end.recv() => {}
    }
}

/// One of each that a path can name.
async fn furnish(world: &World, owner: &Somebody) -> Value {
    let (new, running, paused, prompted) = (
        world.session(owner).await,
        world.session(owner).await,
        world.session(owner).await,
        world.session(owner).await,
    );
    let at = |session: &str, what: &str| format!("/v1/sessions/{session}/{what}");
    for session in [&running, &paused] {
        world.post(owner, &at(session, "resume"), json!({})).await;
    }
    let rests = world.post(owner, &at(&paused, "pause"), json!({})).await;
    let prompt = json!({ "id": "p1", "content": "say one" });
    world.post(owner, &at(&prompted, "prompts"), prompt).await;
    let token = json!({ "name": "another" });
    let token = world.post(owner, "/v1/tokens", token).await;
    let share = json!({ "port": 3000, "expires_in_ms": 60_000 });
    let share = world.post(owner, &at(&running, "shares"), share).await;
    let secret = json!({ "name": "NAME", "scope": "organisation", "value": "x" });
    let secret = world
        .say(owner, Method::PUT, "/v1/secrets", secret)
        .await
        .json();
    let member = json!({ "email": "bob@example.org", "role": "member" });
    let members = format!("/v1/orgs/{}/members", owner.organisation);
    let member = world.say(owner, Method::PUT, &members, member).await.json();
    let tools = tools(world, &running).await;
    json!({
        "organisation": owner.organisation.to_string(),
        "member": member["user"]["id"],
        "action": tools["action"],
        "evidence": tools["evidence"],
        "url": format!("http://{}", world.address),
        "token": owner.token,
        "sessions": [new, running, paused, prompted],
        "prompt": "p1",
        "snapshot": rests["receipt"]["snapshot"],
        "other_token": token["id"],
        "share": share["id"],
        "secret": secret["id"],
    })
}

/// What an agent's tools leave.
async fn tools(world: &World, session: &str) -> Value {
    let (session, now) = (session.parse().expect("it was made"), SystemClock.now());
    let action = NewAction {
        id: Id::new(&SystemClock),
        session,
        request: "r1".to_owned(),
        integration: "person".to_owned(),
        action: "allow".to_owned(),
        params: json!({ "what": "deploy" }).to_string(),
        risk: Risk::Danger,
        status: Status::Pending,
        at: now,
        expires_at: now + SignedDuration::from_hours(1),
    };
    let evidence = EvidenceRecord {
        id: Id::new(&SystemClock),
        session,
        request: "r2".to_owned(),
        path: "shot.png".to_owned(),
        media_type: "image/png".to_owned(),
        size: 2,
        digest: "sha256:00".to_owned(),
        created_at: now,
    };
    let folder = world.directory.path().join("uploads/evidence");
    fs_err::create_dir_all(&folder).expect("a folder of ours");
    fs_err::write(folder.join(evidence.id.to_string()), "ok").expect("a file of ours");
    let mut tx = world.store.begin().await.expect("a store of ours");
    tx.ask_for_action(&action).await.expect("it is the first");
    tx.record_evidence(&evidence)
        .await
        .expect("it is the first");
    tx.commit().await.expect("a store of ours");
    json!({ "action": action.id.to_string(), "evidence": evidence.id.to_string() })
}

/// On a thread of its own, which nobody waits for: a read of the standard input cannot be called
/// off.
async fn input_closes() -> Result<(), oneshot::error::RecvError> {
    let (closed, is_closed) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = closed.send(());
    });
    is_closed.await
}
