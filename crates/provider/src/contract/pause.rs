//! Freezing in place and going on.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::wait::{eventually, fast, soon};
use super::world::{Guest, World, refused};
use crate::probe::BEAT;
use crate::{Alive, Capability, Kept, SandboxSpec, SandboxState, Survives};

const PAUSE: Capability = Capability::Pause;
const COUNT: &str = "/contract/count";
/// Long enough for fifty beats.
const WHILE: Duration = Duration::from_secs(1);

pub async fn a_pause_keeps_what_the_provider_says_it_keeps(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.ok(["write", "/contract/file", "kept"]).await;
    let (token, before) = counting(&guest).await;
    let receipt = guest.pause().await;
    let resumed = soon("resume", guest.provider().await.resume(guest.id))
        .await
        .expect("it resumes");
    assert_eq!(resumed.kept, receipt.kept);
    assert_eq!(
        guest.content("/contract/file").await.as_deref(),
        Some("kept")
    );
    if world.capabilities().await.survives_resume == Survives::DiskOnly {
        return;
    }
    assert_eq!(receipt.kept, Kept::Memory);
    assert_eq!(receipt.snapshot, None, "nothing is copied");
    eventually("it counts on, with its memory", async || {
        let (same, value) = guest
            .count(COUNT)
            .await
            .expect("the counter's file is there");
        assert_eq!(same, token, "it started anew");
        value > before + 5
    })
    .await;
}

pub async fn nothing_runs_while_paused(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    let start = Instant::now();
    let (_, before) = counting(&guest).await;
    guest.pause().await;
    let paused = Instant::now();
    // Not a wait for something to happen: this is the time in which nothing may.
    tokio::time::sleep(WHILE).await;
    let paused = paused.elapsed();
    guest.resume().await;
    let (_, after) = guest
        .count(COUNT)
        .await
        .expect("the counter's file is there");
    // The counter sleeps a beat between two values, so it cannot count faster than this.
    let awake = start.elapsed().saturating_sub(paused);
    let most = awake.as_millis() / BEAT.as_millis() + 2;
    assert!(
        u128::from(after - before) <= most,
        "counted {} in {awake:?}",
        after - before
    );
}

pub async fn looking_at_a_paused_sandbox_leaves_it_paused(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    let kept = guest.pause().await.kept;
    for _ in 0..3 {
        assert_eq!(fast("alive", guest.alive()).await, Alive::Paused);
        assert_eq!(guest.state().await, Some(SandboxState::Paused { kept }));
        assert!(soon("health", guest.provider().await.health()).await.ok);
    }
    guest.resume().await;
    assert_eq!(guest.alive().await, Alive::Running);
    assert_eq!(guest.state().await, Some(SandboxState::Running));
}

pub async fn pausing_twice_is_fine(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    let first = guest.pause().await;
    let second = guest.pause().await;
    assert_eq!(first.kept, second.kept);
    assert_eq!(guest.alive().await, Alive::Paused);
    guest.resume().await;
    guest.ok(["pwd"]).await;
}

pub async fn resuming_twice_is_fine(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.pause().await;
    guest.resume().await;
    guest.resume().await;
    guest.ok(["pwd"]).await;
}

pub async fn a_sandbox_can_be_paused_again_and_again(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    for round in 0..10 {
        guest
            .ok(["write", "/contract/round", &round.to_string()])
            .await;
        guest.pause().await;
        guest.resume().await;
        assert_eq!(
            guest.content("/contract/round").await,
            Some(round.to_string())
        );
    }
}

pub async fn a_paused_sandbox_refuses_commands_at_once(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.pause().await;
    let provider = guest.provider().await;
    refused(
        "exec",
        fast("exec", provider.exec(guest.id, guest.command(["pwd"]))).await,
    );
    assert_eq!(guest.alive().await, Alive::Paused);
    guest.resume().await;
    guest.ok(["pwd"]).await;
}

pub async fn a_command_under_way_goes_on_after_a_pause(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    if world.capabilities().await.survives_resume == Survives::DiskOnly {
        return;
    }
    let exec = guest.exec(guest.command(["cat"])).await;
    guest.pause().await;
    guest.resume().await;
    let said = bytes::Bytes::from_static(b"still here");
    exec.input
        .send(crate::ExecInput::Data(said))
        .await
        .expect("it reads");
    let done = soon("cat", exec.finish()).await.expect("an exit");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "still here");
}

pub async fn a_resumed_sandbox_is_the_same_one(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let spec = SandboxSpec {
        name: Some(world.name("same")),
        key: Some(world.name("key")),
        generation: 4,
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    guest.pause().await;
    guest.resume().await;
    let listed = guest.listed().await.expect("it has its id still");
    assert_eq!(listed.generation, 4);
    assert_eq!((listed.name, listed.key), (spec.name, spec.key));
}

pub async fn the_environment_is_there_after_a_pause(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let env = BTreeMap::from([("GRAIN".to_owned(), "pearl".to_owned())]);
    let guest = world
        .create(&SandboxSpec {
            env,
            ..world.spec()
        })
        .await;
    guest.pause().await;
    guest.resume().await;
    let env = guest.text(["env"]).await;
    assert!(env.split('\0').any(|one| one == "GRAIN=pearl"), "{env:?}");
}

pub async fn a_paused_sandbox_can_be_ended(world: &World<'_>) {
    if !world.can(PAUSE).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.pause().await;
    guest.terminate().await;
    assert_eq!(guest.alive().await, Alive::Dead);
    let other = world.sandbox().await;
    other.pause().await;
    soon("remove", other.provider().await.remove(other.id))
        .await
        .expect("it is removed");
    assert_eq!(other.listed().await, None);
}

/// Starts a counter and waits until it counts.
async fn counting(guest: &Guest<'_>) -> (String, u64) {
    guest.start(["counter", COUNT]).await;
    let mut seen = None;
    eventually("it counts", async || {
        seen = guest.count(COUNT).await;
        seen.as_ref().is_some_and(|(_, value)| *value > 2)
    })
    .await;
    seen.expect("just seen")
}
