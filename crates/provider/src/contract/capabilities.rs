//! What is declared works; what is not is `Unsupported` and changes nothing.

use std::time::Duration;

use model::{Clock as _, Id, SnapshotId, SnapshotKind, SystemClock};

use super::secrets;
use super::wait::{eventually, soon};
use super::world::{Guest, World};
use crate::{Alive, Capability, Network, Origin, Pass, ProviderError, SandboxSpec};

const ALL: [Capability; 11] = [
    Capability::Pause,
    Capability::AutoPause,
    Capability::LiveSnapshot,
    Capability::MemorySnapshot,
    Capability::Fork,
    Capability::Extend,
    Capability::Exec,
    Capability::Dial,
    Capability::Serve,
    Capability::NestedContainers,
    Capability::Egress,
];

pub async fn capabilities_are_the_same_each_time_they_are_asked(world: &World<'_>) {
    let (one, other) = (world.provider().await, world.provider().await);
    assert_eq!(one.capabilities(), other.capabilities());
    assert_eq!(world.capabilities().await, world.capabilities().await);
    assert_eq!(one.name(), other.name());
    let mut seen = Vec::new();
    for capability in &world.capabilities().await.can {
        assert!(!seen.contains(capability), "{capability} is declared twice");
        seen.push(*capability);
    }
}

pub async fn an_undeclared_capability_is_unsupported_and_changes_nothing(world: &World<'_>) {
    let capabilities = world.capabilities().await;
    let guest = world.sandbox().await;
    guest.ok(["write", "/contract/file", "kept"]).await;
    let before = (world.listed().await, guest.manifest().await);
    for capability in ALL {
        if capabilities.has(capability) {
            continue;
        }
        for (operation, answer) in tried(&guest, capability).await {
            assert!(
                matches!(answer, Err(ProviderError::Unsupported(named)) if named == capability),
                "{operation} without {capability}: {answer:?}"
            );
        }
        assert_eq!(
            (world.listed().await, guest.manifest().await),
            before,
            "{capability} changed something"
        );
        assert_eq!(guest.alive().await, Alive::Running);
    }
}

pub async fn a_declared_capability_works(world: &World<'_>) {
    let capabilities = world.capabilities().await;
    for capability in ALL {
        // These two show over time and by what the sandbox may do, not by an operation.
        let silent = [Capability::AutoPause, Capability::NestedContainers];
        if !capabilities.has(capability) || silent.contains(&capability) {
            continue;
        }
        let guest = world.sandbox().await;
        for (operation, answer) in tried(&guest, capability).await {
            // Nobody listens on the port, so that dial is right to refuse.
            let works = match (operation, &answer) {
                ("dial", Err(error)) => !matches!(error, ProviderError::Unsupported(_)),
                ("restore_memory", Err(ProviderError::NotFound { .. })) => true,
                (_, answer) => answer.is_ok(),
            };
            assert!(works, "{operation} with {capability}: {answer:?}");
        }
    }
}

/// Every operation that stands for a capability, tried once.
async fn tried(
    guest: &Guest<'_>,
    capability: Capability,
) -> Vec<(&'static str, Result<(), ProviderError>)> {
    let (world, provider) = (guest.world, guest.provider().await);
    let id = guest.id;
    let all = async {
        match capability {
            Capability::Pause => vec![
                ("pause", provider.pause(id).await.map(drop)),
                ("resume", provider.resume(id).await.map(drop)),
            ],
            Capability::LiveSnapshot => {
                let receipt = provider.snapshot(id, None).await;
                vec![(
                    "snapshot",
                    receipt.map(|receipt| drop(world.keep(&receipt))),
                )]
            }
            Capability::MemorySnapshot => {
                let receipt = provider.snapshot_memory(id).await;
                let unknown = SnapshotId {
                    provider: provider.name().to_owned(),
                    kind: SnapshotKind::Memory,
                    id: Id::new(&SystemClock),
                };
                let restored = provider.restore_memory(&unknown, &world.spec()).await;
                vec![
                    (
                        "snapshot_memory",
                        receipt.map(|receipt| drop(world.keep(&receipt))),
                    ),
                    ("restore_memory", restored.map(drop)),
                ]
            }
            Capability::Fork => {
                let forks = provider.fork(id, 1).await;
                let kept = match forks {
                    Ok(forks) => {
                        for fork in forks {
                            world.guest(fork).await;
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                };
                vec![("fork", kept)]
            }
            Capability::Extend => {
                let until = SystemClock.now() + Duration::from_hours(1);
                vec![("extend", provider.extend(id, until).await.map(drop))]
            }
            Capability::Exec => {
                vec![(
                    "exec",
                    provider.exec(id, guest.command(["pwd"])).await.map(drop),
                )]
            }
            Capability::Dial => vec![("dial", provider.dial(id, 8033).await.map(drop))],
            Capability::Serve => vec![("serve", provider.serve(id, "bell").await.map(drop))],
            Capability::Egress => {
                let spec = SandboxSpec {
                    network: Network::Proxy,
                    ..world.spec()
                };
                let id = world.create(&spec).await.id;
                let pass = Pass {
                    rule: "pearl.example:443".to_owned(),
                    until: Some(SystemClock.now()),
                };
                vec![
                    ("let_out", provider.let_out(id, &[pass]).await),
                    ("refusals", provider.refusals(id, None).await.map(drop)),
                ]
            }
            Capability::AutoPause | Capability::NestedContainers => vec![],
        }
    };
    soon("an answer", all).await
}

pub async fn extending_moves_the_end_of_a_sandboxs_life(world: &World<'_>) {
    if !world.can(Capability::Extend).await {
        return;
    }
    let lifetime = Some(Duration::from_mins(2));
    let guest = world
        .create(&SandboxSpec {
            lifetime,
            ..world.spec()
        })
        .await;
    let before = guest.sandbox.expires_at.expect("it has an end");
    let wanted = before + Duration::from_mins(1);
    let given = guest
        .provider()
        .await
        .extend(guest.id, wanted)
        .await
        .expect("it is extended");
    assert!(given > before, "{given} is not later than {before}");
    assert_eq!(
        guest.listed().await.expect("listed").expires_at,
        Some(given)
    );
}

pub async fn a_sandbox_that_pauses_by_itself_is_paused_at_its_end(world: &World<'_>) {
    if !world.can(Capability::AutoPause).await {
        return;
    }
    let lifetime = Some(Duration::from_secs(3));
    let guest = world
        .create(&SandboxSpec {
            lifetime,
            ..world.spec()
        })
        .await;
    eventually("it pauses by itself", async || {
        guest.alive().await == Alive::Paused
    })
    .await;
    guest.resume().await;
    guest.ok(["pwd"]).await;
}

pub async fn a_memory_snapshot_goes_on_from_where_it_was(world: &World<'_>) {
    if !world.can(Capability::MemorySnapshot).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.start(["counter", "/contract/count"]).await;
    eventually("it counts", async || {
        guest.count("/contract/count").await.is_some()
    })
    .await;
    let receipt = guest.provider().await.snapshot_memory(guest.id).await;
    let snapshot = world.keep(&receipt.expect("a memory snapshot is taken"));
    assert_eq!(snapshot.kind, SnapshotKind::Memory);
    let (token, before) = guest.count("/contract/count").await.expect("it counts on");
    let spec = SandboxSpec {
        generation: 2,
        ..world.spec_from(Origin::Snapshot(snapshot.clone()))
    };
    let restored = guest
        .provider()
        .await
        .restore_memory(&snapshot, &spec)
        .await;
    let restored = world.guest(restored.expect("it is restored")).await;
    assert_ne!(restored.id, guest.id);
    eventually("it counts on from there", async || {
        let (same, value) = restored
            .count("/contract/count")
            .await
            .expect("its file is there");
        assert_eq!(same, token);
        value > before
    })
    .await;
}

pub async fn no_error_shows_a_secret(world: &World<'_>) {
    secrets::no_error_shows_a_secret(world).await;
}
