//! Each limit is kept as strongly as it is declared.

use model::ByteCount;

use super::world::{Guest, World, skip};
use crate::{Alive, Limits, SandboxSpec, Strength};

const MEGABYTE: u64 = 1 << 20;

pub async fn memory_beyond_its_limit_costs_the_command_and_not_the_sandbox(world: &World<'_>) {
    if !is_hard(world, "memory", |limits| limits.memory).await {
        return;
    }
    let limit = 128;
    let memory = Some(ByteCount::new(limit * MEGABYTE));
    let guest = world
        .create(&SandboxSpec {
            memory,
            ..world.spec()
        })
        .await;
    guest.ok(["alloc", "32"]).await;
    let done = guest.run(["alloc", "512"]).await;
    assert_ne!(done.exit.code, 0, "it got all it wanted");
    assert!(
        last_number(&done.stdout) <= limit,
        "it got {} MB",
        last_number(&done.stdout)
    );
    survives(&guest).await;
}

pub async fn processes_beyond_their_limit_are_not_started(world: &World<'_>) {
    if !is_hard(world, "pids", |limits| limits.pids).await {
        return;
    }
    let guest = world
        .create(&SandboxSpec {
            pids: Some(64),
            ..world.spec()
        })
        .await;
    let got = last_number(&guest.ok(["forks", "200"]).await);
    assert!((16..64).contains(&got), "it got {got}");
    survives(&guest).await;
}

pub async fn cpu_beyond_its_share_is_not_given(world: &World<'_>) {
    if !is_hard(world, "cpu", |limits| limits.cpu).await {
        return;
    }
    if !world.harness().measures_cpu() {
        return skip("the cpu limit cannot be measured on this machine");
    }
    let guest = world
        .create(&SandboxSpec {
            cpu_millis: Some(250),
            ..world.spec()
        })
        .await;
    let got = last_number(&guest.ok(["spin", "2000"]).await);
    // A quarter of two seconds is 500 ms; quotas are handed out in whole periods.
    assert!(got <= 800, "it got {got} ms");
    survives(&guest).await;
}

pub async fn disk_beyond_its_limit_is_not_given(world: &World<'_>) {
    if !is_hard(world, "disk", |limits| limits.disk).await {
        return;
    }
    let limit = 64;
    let disk = Some(ByteCount::new(limit * MEGABYTE));
    let guest = world
        .create(&SandboxSpec {
            disk,
            ..world.spec()
        })
        .await;
    let got = last_number(&guest.ok(["fill", "/contract/full", "256"]).await);
    assert!(got <= limit, "it got {got} MB");
    guest.ok(["rm", "/contract/full"]).await;
    guest.ok(["write", "/contract/small", "room again"]).await;
    survives(&guest).await;
}

pub async fn one_sandboxs_limit_is_not_anothers(world: &World<'_>) {
    if !is_hard(world, "memory", |limits| limits.memory).await {
        return;
    }
    let memory = Some(ByteCount::new(128 * MEGABYTE));
    world
        .create(&SandboxSpec {
            memory,
            ..world.spec()
        })
        .await;
    let free = world.sandbox().await;
    assert_eq!(last_number(&free.ok(["alloc", "200"]).await), 200);
}

async fn is_hard(world: &World<'_>, what: &str, strength: impl Fn(Limits) -> Strength) -> bool {
    let declared = strength(world.capabilities().await.limits);
    if declared != Strength::Hard {
        skip(&format!("the {what} limit is declared {declared:?}"));
    }
    declared == Strength::Hard
}

async fn survives(guest: &Guest<'_>) {
    assert_eq!(guest.alive().await, Alive::Running);
    guest.ok(["pwd"]).await;
}

fn last_number(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .last()
        .and_then(|line| line.parse().ok())
        .unwrap_or(0)
}
