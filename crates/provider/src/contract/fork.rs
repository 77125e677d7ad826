//! Several from one.

use std::collections::BTreeSet;

use super::wait::{eventually, soon};
use super::world::{Guest, World};
use crate::{Alive, Capability, SandboxState};

const FILE: &str = "/contract/file";

pub async fn a_fork_starts_from_what_is_on_disk_now(world: &World<'_>) {
    if !world.can(Capability::Fork).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "common"]).await;
    let before = guest.lasting_manifest().await;
    let [fork] = forks(&guest, 1).await.try_into().ok().expect("one");
    assert_eq!(fork.sandbox.state, SandboxState::Running);
    assert_eq!(fork.lasting_manifest().await, before);
    assert_eq!(guest.lasting_manifest().await, before);
}

pub async fn a_fork_and_its_original_go_their_own_ways(world: &World<'_>) {
    if !world.can(Capability::Fork).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "common"]).await;
    let [fork] = forks(&guest, 1).await.try_into().ok().expect("one");
    fork.ok(["write", FILE, "fork"]).await;
    assert_eq!(guest.content(FILE).await.as_deref(), Some("common"));
    guest.ok(["write", FILE, "original"]).await;
    assert_eq!(fork.content(FILE).await.as_deref(), Some("fork"));
    guest
        .provider()
        .await
        .remove(guest.id)
        .await
        .expect("it is removed");
    assert_eq!(fork.alive().await, Alive::Running);
    assert_eq!(fork.content(FILE).await.as_deref(), Some("fork"));
}

pub async fn the_original_runs_on_through_a_fork(world: &World<'_>) {
    if !world.can(Capability::Fork).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.start(["counter", FILE]).await;
    eventually("it counts", async || guest.count(FILE).await.is_some()).await;
    let (token, before) = guest.count(FILE).await.expect("just seen");
    forks(&guest, 1).await;
    eventually("it counts on", async || {
        let (same, value) = guest.count(FILE).await.expect("its file is there");
        assert_eq!(same, token);
        value > before + 3
    })
    .await;
}

pub async fn three_forks_at_once_each_have_an_identity_of_their_own(world: &World<'_>) {
    if !world.can(Capability::Fork).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.ok(["write", FILE, "common"]).await;
    let mut all = forks(&guest, 3).await;
    all.push(guest);
    let (mut ids, mut hostnames) = (BTreeSet::new(), BTreeSet::new());
    let (mut machines, mut randoms) = (BTreeSet::new(), BTreeSet::new());
    for guest in &all {
        assert_eq!(guest.content(FILE).await.as_deref(), Some("common"));
        let identity = guest.identity().await;
        ids.insert(guest.id);
        hostnames.insert(identity.hostname);
        machines.insert(identity.machine_id);
        randoms.insert(identity.random);
    }
    assert_eq!(ids.len(), 4);
    assert_eq!(hostnames.len(), 4, "{hostnames:?}");
    assert_eq!(machines.len(), 4, "{machines:?}");
    assert_eq!(randoms.len(), 4, "{randoms:?}");
}

async fn forks<'w>(guest: &Guest<'w>, count: usize) -> Vec<Guest<'w>> {
    let made = soon("fork", guest.provider().await.fork(guest.id, count)).await;
    let made = made.expect("it is forked");
    assert_eq!(made.len(), count);
    let mut guests = Vec::new();
    for sandbox in made {
        guests.push(guest.world.guest(sandbox).await);
    }
    guests
}
