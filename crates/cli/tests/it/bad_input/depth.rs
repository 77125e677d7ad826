//! Trees deeper than a path is long.

use super::tar::Tar;
use crate::world::{World, text};

#[test]
fn a_deep_archive_is_refused_or_its_snapshots_are_whole() {
    let world = World::new();
    let path = world.nacre.path("rootfs.tar");
    let deep = format!("{}file", "d/".repeat(1000));
    fs_err::write(&path, Tar::new().file(&deep, "x").bytes()).unwrap();
    let ran = world.run(&["sandbox", "create", "--rootfs", path.as_str()]);
    if ran.code == Some(4) {
        return;
    }
    let id = text(&ran.json()["id"]);
    let snapshot = text(&world.ok(&["sandbox", "stop", &id])["snapshot"]);
    assert_eq!(world.ok(&["snapshot", "verify", &snapshot])["ok"], true);
}

#[test]
fn a_deep_tree_in_one_sandbox_is_no_trouble_for_the_others() {
    let world = World::new();
    let id = world.create(&[]);
    let dig = "cd /root; i=0; while [ $i -lt 1500 ]; do mkdir d; cd -P d; i=$((i+1)); done";
    world.says(&id, dig);
    world.ok(&["storage", "usage"]);
    world.ok(&["storage", "gc"]);
    // What cannot be copied now cannot be copied when tried again.
    let snapshot = world.run(&["sandbox", "snapshot", &id]);
    assert!(
        matches!(snapshot.code, Some(0 | 4)),
        "{}",
        snapshot.transcript()
    );
    world.ok(&["sandbox", "rm", &id]);
}
