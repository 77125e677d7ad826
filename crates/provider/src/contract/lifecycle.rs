//! Making sandboxes, finding them again, ending them.

use model::{Id, SystemClock};

use super::wait::{eventually, soon};
use super::world::{HOME, World, not_found, refused};
use crate::{
    Alive, Capability, ExecSpec, Expected, Kept, ProviderError, SandboxId, SandboxSpec,
    SandboxState, files_from,
};

const FILE: &str = "/contract/file";

pub async fn a_created_sandbox_runs(world: &World<'_>) {
    let spec = SandboxSpec {
        name: Some(world.name("first")),
        generation: 7,
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    assert_eq!(guest.sandbox.state, SandboxState::Running);
    assert_eq!(guest.sandbox.name, spec.name);
    assert_eq!(guest.sandbox.generation, 7);
    assert_eq!(guest.alive().await, Alive::Running);
    assert_eq!(
        guest.listed().await.as_ref(),
        Some(&guest.sandbox),
        "list knows it as create told it"
    );
}

pub async fn two_creates_make_two_sandboxes(world: &World<'_>) {
    let spec = world.spec();
    let (first, second) = (world.create(&spec).await, world.create(&spec).await);
    assert_ne!(first.id, second.id);
    first.ok(["write", FILE, "first"]).await;
    assert_eq!(second.content(FILE).await, None, "they share no disk");
}

pub async fn ensure_makes_one_sandbox_for_a_key_and_then_finds_it(world: &World<'_>) {
    let spec = SandboxSpec {
        key: Some(world.name("key")),
        ..world.spec()
    };
    let first = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    assert_eq!(first.expected, Expected::Created);
    assert_eq!(first.sandbox.key, spec.key);
    let guest = world.guest(first.sandbox).await;
    let again = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    assert_eq!(again.expected, Expected::Found);
    assert_eq!(again.sandbox.id, guest.id);
    assert_eq!(world.listed().await.len(), 1);
}

pub async fn two_ensures_at_once_make_one_sandbox(world: &World<'_>) {
    let spec = SandboxSpec {
        key: Some(world.name("key")),
        ..world.spec()
    };
    let (one, other) = (world.provider().await, world.provider().await);
    let (one, other) = soon("ensure", async {
        tokio::join!(one.ensure(&spec), other.ensure(&spec))
    })
    .await;
    let (one, other) = (one.expect("ensure answers"), other.expect("ensure answers"));
    assert_eq!(one.sandbox.id, other.sandbox.id);
    assert_eq!(world.listed().await.len(), 1);
}

pub async fn ensure_wakes_a_paused_sandbox(world: &World<'_>) {
    if !world.can(Capability::Pause).await {
        return;
    }
    let spec = SandboxSpec {
        key: Some(world.name("key")),
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    guest.ok(["write", FILE, "kept"]).await;
    let kept = guest.pause().await.kept;
    let woken = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    assert_eq!(woken.expected, Expected::Resumed(kept));
    assert_eq!(woken.sandbox.id, guest.id);
    assert_eq!(woken.sandbox.state, SandboxState::Running);
    assert_eq!(guest.content(FILE).await.as_deref(), Some("kept"));
}

pub async fn ensure_starts_an_ended_sandbox_again_on_its_disk(world: &World<'_>) {
    let spec = SandboxSpec {
        key: Some(world.name("key")),
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    guest.ok(["write", FILE, "kept"]).await;
    guest.start(["beat", "/contract/beats"]).await;
    eventually("it beats", async || {
        guest.beating("/contract/beats").await > 0
    })
    .await;
    guest.terminate().await;
    let again = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    let Expected::Restarted(snapshot) = again.expected else {
        panic!("restarted, not {:?}", again.expected);
    };
    world.keep_snapshot(&snapshot);
    let restarted = world.guest(again.sandbox).await;
    assert_eq!(restarted.sandbox.key, spec.key);
    assert_eq!(restarted.sandbox.state, SandboxState::Running);
    assert_eq!(restarted.content(FILE).await.as_deref(), Some("kept"));
    restarted.stands_still("/contract/beats").await;
    let found = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    assert_eq!(
        (found.expected, found.sandbox.id),
        (Expected::Found, restarted.id)
    );
}

pub async fn ensure_starts_a_stopped_sandbox_again_on_its_disk(world: &World<'_>) {
    let spec = SandboxSpec {
        key: Some(world.name("key")),
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    guest.ok(["write", FILE, "kept"]).await;
    guest.stop().await;
    let again = world
        .provider()
        .await
        .ensure(&spec)
        .await
        .expect("ensure answers");
    let Expected::Restarted(snapshot) = again.expected else {
        panic!("restarted, not {:?}", again.expected);
    };
    world.keep_snapshot(&snapshot);
    let restarted = world.guest(again.sandbox).await;
    assert_eq!(restarted.content(FILE).await.as_deref(), Some("kept"));
}

pub async fn terminating_twice_is_fine(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.terminate().await;
    guest.terminate().await;
    assert_eq!(guest.state().await, Some(SandboxState::Ended));
    assert_eq!(guest.alive().await, Alive::Dead);
}

pub async fn terminating_an_unknown_sandbox_is_fine(world: &World<'_>) {
    let nobody: SandboxId = Id::new(&SystemClock);
    soon("terminate", world.provider().await.terminate(nobody))
        .await
        .expect("already gone");
}

pub async fn an_unknown_sandbox_is_not_found(world: &World<'_>) {
    let nobody: SandboxId = Id::new(&SystemClock);
    let provider = world.provider().await;
    let capabilities = world.capabilities().await;
    let can = |capability| capabilities.has(capability);
    let alive = provider.alive(&[nobody]).await.expect("alive answers");
    assert_eq!(alive, [(nobody, Alive::Dead)]);
    not_found("stop", provider.stop(nobody).await);
    not_found("endpoints", provider.endpoints(nobody).await);
    not_found(
        "read_files",
        provider.read_files(nobody, HOME.as_bytes(), None).await,
    );
    not_found(
        "write_files",
        provider
            .write_files(nobody, HOME.as_bytes(), None, files_from(vec![]))
            .await,
    );
    if can(Capability::Exec) {
        not_found("exec", provider.exec(nobody, ExecSpec::new(["x"])).await);
    }
    if can(Capability::Pause) {
        not_found("pause", provider.pause(nobody).await);
        not_found("resume", provider.resume(nobody).await);
    }
    if can(Capability::LiveSnapshot) {
        not_found("snapshot", provider.snapshot(nobody, None).await);
    }
    if can(Capability::Fork) {
        not_found("fork", provider.fork(nobody, 1).await);
    }
    if can(Capability::Extend) {
        let soon = model::Clock::now(&SystemClock);
        not_found("extend", provider.extend(nobody, soon).await);
    }
    if can(Capability::Dial) {
        not_found("dial", provider.dial(nobody, 80).await);
    }
    if can(Capability::Serve) {
        not_found("serve", provider.serve(nobody, "bell").await);
    }
    if can(Capability::MemorySnapshot) {
        not_found("snapshot_memory", provider.snapshot_memory(nobody).await);
    }
}

pub async fn the_disk_is_still_there_after_terminate(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "kept"]).await;
    guest.terminate().await;
    let snapshot = guest.stop().await;
    let restored = world.restored(&snapshot).await;
    assert_eq!(restored.content(FILE).await.as_deref(), Some("kept"));
}

pub async fn stopping_twice_gives_the_same_snapshot(world: &World<'_>) {
    let guest = world.sandbox().await;
    let first = guest
        .provider()
        .await
        .stop(guest.id)
        .await
        .expect("it stops");
    assert_eq!(first.kept, Kept::Disk);
    let snapshot = world.keep(&first);
    let second = guest
        .provider()
        .await
        .stop(guest.id)
        .await
        .expect("it is stopped");
    assert_eq!(second.snapshot, first.snapshot);
    assert_eq!(second.kept, Kept::Disk);
    assert_eq!(
        guest.state().await,
        Some(SandboxState::Stopped { snapshot })
    );
    assert_eq!(guest.alive().await, Alive::Dead);
}

pub async fn a_paused_sandbox_can_be_stopped(world: &World<'_>) {
    if !world.can(Capability::Pause).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "kept"]).await;
    guest.pause().await;
    let snapshot = guest.stop().await;
    assert_eq!(
        world
            .restored(&snapshot)
            .await
            .content(FILE)
            .await
            .as_deref(),
        Some("kept")
    );
}

pub async fn an_ended_sandbox_takes_no_commands(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.terminate().await;
    let answer = soon(
        "exec",
        guest
            .provider()
            .await
            .exec(guest.id, guest.command(["pwd"])),
    )
    .await;
    assert!(
        matches!(
            answer,
            Err(ProviderError::Refused { .. } | ProviderError::NotFound { .. })
        ),
        "{answer:?}"
    );
}

pub async fn a_name_in_use_is_refused(world: &World<'_>) {
    let spec = SandboxSpec {
        name: Some(world.name("taken")),
        ..world.spec()
    };
    let guest = world.create(&spec).await;
    refused("the same name", guest.provider().await.create(&spec).await);
    assert_eq!(
        world.listed().await.len(),
        1,
        "the refused one left nothing"
    );
    guest
        .provider()
        .await
        .remove(guest.id)
        .await
        .expect("it is removed");
    world.create(&spec).await;
}

pub async fn a_removed_sandbox_is_unknown(world: &World<'_>) {
    let guest = world.sandbox().await;
    soon("remove", guest.provider().await.remove(guest.id))
        .await
        .expect("it is removed");
    assert_eq!(guest.listed().await, None);
    assert_eq!(guest.alive().await, Alive::Dead);
    not_found("stop", guest.provider().await.stop(guest.id).await);
    not_found(
        "exec",
        guest
            .provider()
            .await
            .exec(guest.id, guest.command(["pwd"]))
            .await,
    );
}

pub async fn removing_twice_is_fine(world: &World<'_>) {
    let guest = world.sandbox().await;
    for _ in 0..2 {
        soon("remove", guest.provider().await.remove(guest.id))
            .await
            .expect("it is removed");
    }
}

pub async fn a_snapshot_outlives_the_removal_of_its_sandbox(world: &World<'_>) {
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "kept"]).await;
    let snapshot = guest.stop().await;
    guest
        .provider()
        .await
        .remove(guest.id)
        .await
        .expect("it is removed");
    assert_eq!(
        world
            .restored(&snapshot)
            .await
            .content(FILE)
            .await
            .as_deref(),
        Some("kept")
    );
}
