//! Disks that are kept, and what must be on them again.

use model::{Id, SnapshotId, SnapshotKind, SystemClock};

use super::wait::{eventually, soon};
use super::world::{Guest, World, not_found, refused};
use crate::probe::{CAPABILITY_XATTR, LineKind, ManifestLine};
use crate::{Capability, Kept, Origin, SandboxState};

const LIVE: Capability = Capability::LiveSnapshot;

/// One of everything that a disk can hold.
const EVERYTHING: &str = "\
    mkdir /contract/plain ; write /contract/plain/text pearl ; write /contract/plain/empty  ; \
    mkdir /contract/hollow ; mkdir /contract/hollow/er 700 ; \
    write /contract/modes x ; chmod /contract/modes 4751 ; \
    mkdir /contract/sticky 1777 ; mkdir /contract/setgid 2750 ; \
    write /contract/owned x ; chown /contract/owned 1000 1000 ; \
    mkdir /contract/theirs ; chown /contract/theirs 12 34 ; \
    write /contract/tagged x ; setxattr /contract/tagged user.grain sand ; \
    setxattr /contract/tagged user.layer nacre ; \
    mkdir /contract/tagdir ; setxattr /contract/tagdir user.grain shell ; \
    write /contract/able x ; chmod /contract/able 755 ; setcap /contract/able ; \
    sparse /contract/sparse 16777216 ; \
    write /contract/one same ; link /contract/one /contract/other ; \
    link /contract/one /contract/plain/third ; \
    symlink plain/text /contract/link ; symlink /nowhere /contract/broken ; \
    chown /contract/link 1000 1000 ; \
    mkfifo /contract/fifo ; chmod /contract/fifo 622 ; socket /contract/socket";

pub async fn a_snapshot_of_a_running_sandbox_keeps_every_kind_of_file(world: &World<'_>) {
    if !world.can(LIVE).await {
        return;
    }
    let guest = world.sandbox().await;
    files(&guest, EVERYTHING).await;
    let before = guest.lasting_manifest().await;
    shows_everything(world, &before);
    let snapshot = guest.snapshot().await;
    restores_to(world, &snapshot, &before).await;
    assert_eq!(
        guest.lasting_manifest().await,
        before,
        "the original is as it was"
    );
}

pub async fn a_stop_keeps_every_kind_of_file(world: &World<'_>) {
    let guest = world.sandbox().await;
    files(&guest, EVERYTHING).await;
    let before = guest.lasting_manifest().await;
    shows_everything(world, &before);
    restores_to(world, &guest.stop().await, &before).await;
}

pub async fn a_socket_file_is_no_obstacle_to_a_snapshot(world: &World<'_>) {
    let guest = world.sandbox().await;
    files(&guest, "socket /contract/socket ; write /contract/after x").await;
    let restored = world.restored(&guest.stop().await).await;
    assert_eq!(
        restored.content("/contract/after").await.as_deref(),
        Some("x")
    );
}

pub async fn what_was_deleted_stays_deleted(world: &World<'_>) {
    let first = world.sandbox().await;
    files(
        &first,
        "mkdir /contract/gone/deep ; write /contract/gone/deep/a 1 ; write /contract/file 1 ; \
         mkdir /contract/again ; write /contract/again/old 1 ; mkdir /contract/again/olddir ; \
         mkdir /contract/swap ; write /contract/swap/x 1 ; write /contract/turn 1 ; \
         symlink file /contract/link",
    )
    .await;
    let second = world.restored(&first.stop().await).await;
    files(
        &second,
        "rmtree /contract/gone ; rm /contract/file ; \
         rmtree /contract/again ; mkdir /contract/again 750 ; write /contract/again/new 2 ; \
         rmtree /contract/swap ; write /contract/swap 2 ; \
         rm /contract/turn ; mkdir /contract/turn ; write /contract/turn/in 2 ; rm /contract/link",
    )
    .await;
    let before = second.lasting_manifest().await;
    let third = restores_to(world, &second.stop().await, &before).await;
    files(&third, "mkdir /contract/gone ; write /contract/file 3").await;
    let before = third.lasting_manifest().await;
    let gone: Vec<_> = before
        .iter()
        .filter(|line| line.path.starts_with("gone/"))
        .collect();
    assert!(gone.is_empty(), "what came back was empty: {gone:?}");
    restores_to(world, &third.stop().await, &before).await;
}

pub async fn what_was_changed_in_place_is_kept(world: &World<'_>) {
    let first = world.sandbox().await;
    files(&first, EVERYTHING).await;
    let second = world.restored(&first.stop().await).await;
    files(
        &second,
        "append /contract/plain/text s ; chmod /contract/modes 600 ; chown /contract/owned 0 0 ; \
         setxattr /contract/tagged user.grain pearl ; chown /contract/hollow 5 6 ; \
         rmdir /contract/hollow/er ; write /contract/able y",
    )
    .await;
    let before = second.lasting_manifest().await;
    restores_to(world, &second.stop().await, &before).await;
}

/// As `git mv` does: a directory that came from a snapshot is renamed, in a stack three deep.
pub async fn directories_of_a_snapshot_can_be_renamed(world: &World<'_>) {
    let first = world.sandbox().await;
    files(
        &first,
        "mkdir /contract/src/inner ; write /contract/src/a 1 ; write /contract/src/inner/b 1 ; \
         mkdir /contract/target",
    )
    .await;
    let second = world.restored(&first.stop().await).await;
    files(
        &second,
        "mv /contract/src /contract/lib ; write /contract/lib/c 2",
    )
    .await;
    let before = second.lasting_manifest().await;
    let third = restores_to(world, &second.stop().await, &before).await;
    files(
        &third,
        "mv /contract/lib/inner /contract/lib/core ; append /contract/lib/core/b 3 ; \
         mv /contract/lib /contract/target/lib ; mkdir /contract/src ; write /contract/src/a 3",
    )
    .await;
    let before = third.lasting_manifest().await;
    let fourth = restores_to(world, &third.stop().await, &before).await;
    files(
        &fourth,
        "mv /contract/target /contract/moved ; rm /contract/moved/lib/a ; \
         mv /contract/moved/lib/core /contract/core ; rmtree /contract/moved",
    )
    .await;
    let before = fourth.lasting_manifest().await;
    let fifth = restores_to(world, &fourth.stop().await, &before).await;
    assert_eq!(
        fifth.content("/contract/core/b").await.as_deref(),
        Some("13")
    );
}

pub async fn the_original_goes_on_after_a_snapshot(world: &World<'_>) {
    if !world.can(LIVE).await {
        return;
    }
    let guest = world.sandbox().await;
    guest.start(["counter", "/contract/count"]).await;
    eventually("it counts", async || {
        guest.count("/contract/count").await.is_some()
    })
    .await;
    let (token, before) = guest.count("/contract/count").await.expect("just seen");
    let receipt = guest
        .provider()
        .await
        .snapshot(guest.id, Some("named"))
        .await;
    let receipt = receipt.expect("a snapshot is taken");
    assert_eq!(receipt.kept, Kept::Disk);
    world.keep(&receipt);
    assert_eq!(guest.state().await, Some(SandboxState::Running));
    eventually("it counts on", async || {
        let (same, value) = guest
            .count("/contract/count")
            .await
            .expect("its file is there");
        assert_eq!(same, token);
        value > before + 3
    })
    .await;
}

pub async fn changes_after_a_snapshot_are_not_in_it(world: &World<'_>) {
    if !world.can(LIVE).await {
        return;
    }
    let guest = world.sandbox().await;
    files(
        &guest,
        "write /contract/file before ; write /contract/doomed x",
    )
    .await;
    let before = guest.lasting_manifest().await;
    let first = guest.snapshot().await;
    files(
        &guest,
        "write /contract/file after ; rm /contract/doomed ; write /contract/new x",
    )
    .await;
    let after = guest.lasting_manifest().await;
    let second = guest.snapshot().await;
    assert_ne!(first, second);
    restores_to(world, &first, &before).await;
    restores_to(world, &second, &after).await;
}

pub async fn two_sandboxes_of_one_snapshot_share_nothing_more(world: &World<'_>) {
    let guest = world.sandbox().await;
    files(&guest, "write /contract/file common").await;
    let snapshot = guest.stop().await;
    let (one, other) = (
        world.restored(&snapshot).await,
        world.restored(&snapshot).await,
    );
    files(&one, "write /contract/file one").await;
    assert_eq!(
        other.content("/contract/file").await.as_deref(),
        Some("common")
    );
    assert_eq!(
        world
            .restored(&snapshot)
            .await
            .content("/contract/file")
            .await
            .as_deref(),
        Some("common")
    );
}

pub async fn deleting_a_snapshot_leaves_what_was_made_from_it(world: &World<'_>) {
    let guest = world.sandbox().await;
    files(&guest, "mkdir /contract/d ; write /contract/d/file kept").await;
    let first = guest.stop().await;
    let child = world.restored(&first).await;
    files(&child, "write /contract/more x").await;
    let before = child.lasting_manifest().await;
    let second = child.stop().await;
    let running = world.restored(&first).await;
    let provider = world.provider().await;
    soon("delete", provider.delete_snapshot(&first))
        .await
        .expect("it is deleted");
    soon("delete", provider.delete_snapshot(&first))
        .await
        .expect("twice is fine");
    assert_eq!(
        running.content("/contract/d/file").await.as_deref(),
        Some("kept")
    );
    restores_to(world, &second, &before).await;
    let spec = world.spec_from(Origin::Snapshot(first));
    not_found("a deleted snapshot", provider.create(&spec).await);
}

pub async fn an_unknown_snapshot_is_not_found(world: &World<'_>) {
    let provider = world.provider().await;
    let unknown = SnapshotId {
        provider: provider.name().to_owned(),
        kind: SnapshotKind::Disk,
        id: Id::new(&SystemClock),
    };
    let spec = world.spec_from(Origin::Snapshot(unknown.clone()));
    not_found("create", provider.create(&spec).await);
    provider
        .delete_snapshot(&unknown)
        .await
        .expect("not-found is fine");
    assert!(
        world.listed().await.is_empty(),
        "the failed create left nothing"
    );
}

pub async fn another_providers_snapshot_is_refused(world: &World<'_>) {
    let provider = world.provider().await;
    let foreign = SnapshotId {
        provider: "elsewhere".to_owned(),
        kind: SnapshotKind::Disk,
        id: Id::new(&SystemClock),
    };
    let spec = world.spec_from(Origin::Snapshot(foreign.clone()));
    refused("create", provider.create(&spec).await);
    refused("delete", provider.delete_snapshot(&foreign).await);
    assert!(
        world.listed().await.is_empty(),
        "the failed create left nothing"
    );
}

pub async fn a_snapshots_id_names_its_provider(world: &World<'_>) {
    let guest = world.sandbox().await;
    let snapshot = guest.stop().await;
    assert_eq!(snapshot.provider, world.provider().await.name());
    assert_eq!(snapshot.kind, SnapshotKind::Disk);
}

/// That the tree has what [`EVERYTHING`] made: two manifests that both lack it would be equal too.
fn shows_everything(world: &World<'_>, lines: &[ManifestLine]) {
    let line = |path: &str| {
        let found = lines.iter().find(|line| line.path == path);
        found.unwrap_or_else(|| panic!("{path} is missing"))
    };
    assert_eq!(line("modes").mode, 0o4751);
    assert_eq!(line("setgid").mode, 0o2750);
    assert_eq!((line("owned").uid, line("owned").gid), (1000, 1000));
    assert_eq!(
        (line("link").uid, line("link").kind),
        (1000, LineKind::Symlink)
    );
    let disk = world.harness().disk();
    if disk.attributes {
        assert_eq!(line("tagged").xattrs.len(), 2);
        assert_eq!(line("tagdir").xattrs.len(), 1);
        assert!(line("able").xattrs.contains_key(CAPABILITY_XATTR));
    }
    if disk.holes {
        assert!(line("sparse").sparse, "the file system keeps holes");
    }
    assert_eq!(line("plain/third").same_as.as_deref(), Some("one"));
    assert_eq!(line("one").links, 3);
    if disk.pipes {
        assert_eq!(line("fifo").kind, LineKind::Fifo);
    }
    assert_eq!(line("hollow/er").kind, LineKind::Directory);
}

/// Pieces of file work, written as on a command line: single spaces apart, so that two in a row
/// stand around an empty argument. What the disk does not hold is left out; to set an attribute
/// where there are none is refused, not forgotten.
async fn files(guest: &Guest<'_>, works: &str) {
    let disk = guest.world.harness().disk();
    let sets_attribute = |work: &&str| work.starts_with("setxattr ") || work.starts_with("setcap ");
    let held = works.split(" ; ").filter(|work| {
        (disk.attributes || !sets_attribute(work)) && (disk.pipes || !work.contains("/fifo"))
    });
    let pieces = held.collect::<Vec<_>>().join(" ; ");
    guest
        .ok(std::iter::once("all").chain(pieces.split(' ')))
        .await;
    if let Some(attribute) = works.split(" ; ").find(sets_attribute)
        && !disk.attributes
    {
        let done = guest.run(attribute.split(' ')).await;
        assert_ne!(done.exit.code, 0, "{attribute} should be refused");
    }
}

async fn restores_to<'w>(
    world: &'w World<'_>,
    snapshot: &SnapshotId,
    wanted: &[ManifestLine],
) -> Guest<'w> {
    let restored = world.restored(snapshot).await;
    let found = restored.lasting_manifest().await;
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len(), "{found:?} instead of {wanted:?}");
    restored
}
