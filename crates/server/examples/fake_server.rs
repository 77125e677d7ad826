//! The front door over the fake provider, for testers of `/v1` that are no Rust: it prints where it
//! is, a token and what there is to ask for, as one line of JSON, and serves until its input is
//! closed or it is told to end.

#![expect(clippy::print_stdout, reason = "that is how it says where it is")]

#[expect(dead_code, clippy::unwrap_used, reason = "it is made for tests")]
#[path = "../tests/it/world.rs"]
mod world;

use hyper::Method;
use serde_json::{Value, json};
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
    json!({
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
