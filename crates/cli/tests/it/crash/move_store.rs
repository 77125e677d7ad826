//! `nacre storage init --btrfs`, killed at every step.
//!
//! Each command runs in a mount namespace of its own, so what it mounts goes with it, and every
//! command has to find the store again.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::points::{Operation, points_of};
use super::process::{Process, within};
use super::stage::PATIENCE;
use crate::world::{World, text};
use crate::{Nacre, Ran};

const INIT: [&str; 4] = ["storage", "init", "--btrfs", "1G"];

fn apart(nacre: &Nacre, failpoint: Option<&str>, arguments: &[&str]) -> Ran {
    let inner = nacre.command(std::iter::once("--json").chain(arguments.iter().copied()));
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "--"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .envs(failpoint.map(|point| ("NACRE_FAILPOINT", point)))
        .stdin(Stdio::null());
    Ran::from(command.output().unwrap(), nacre.home.path())
}

fn ok(nacre: &Nacre, arguments: &[&str]) -> Value {
    let ran = apart(nacre, None, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.transcript());
    ran.json()
}

/// A home with a stopped sandbox and one that died; and what their disks are.
fn furnished() -> (World, String, String) {
    let world = World::new();
    let stopped = world.create(&["--name", "stopped"]);
    world.says(
        &stopped,
        "mkdir /srv/a; echo kept > /srv/a/file; ln /srv/a/file /srv/link; rm -rf /opt",
    );
    let snapshot = text(&world.ok(&["sandbox", "stop", &stopped])["snapshot"]);
    world.ok(&["snapshot", "show", &snapshot, "--wait"]);
    let dead = world.create(&["--name", "dead", "--disk", "64M"]);
    world.says(&dead, "echo left > /srv/left; sync");
    let running: Value = serde_json::from_str(
        &fs_err::read_to_string(world.nacre.path(&format!("sandboxes/{dead}/keeper.json")))
            .unwrap(),
    )
    .unwrap();
    let pid = |key: &str| i32::try_from(running[key].as_i64().unwrap()).unwrap();
    let keeper = Process::find(pid("keeper")).unwrap();
    Process::find(pid("pid")).unwrap().kill();
    within("its keeper goes too", PATIENCE, || !keeper.is_alive());
    (world, snapshot, dead)
}

/// Everything is there, wherever the store is.
fn is_whole(nacre: &Nacre, snapshot: &str, dead: &str) {
    assert_eq!(ok(nacre, &["snapshot", "verify", snapshot])["ok"], true);
    let states = ok(nacre, &["sandbox", "ls", "--all"]);
    let state = states["sandboxes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|sandbox| sandbox["id"] == dead)
        .map(|sandbox| text(&sandbox["state"]["status"]));
    assert_eq!(state.as_deref(), Some("ended"), "{states}");
}

fn names(nacre: &Nacre) -> Vec<String> {
    let mut names: Vec<String> = fs_err::read_dir(nacre.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn killed_while_it_moves_onto_btrfs_the_store_is_the_old_one_or_the_new_one() {
    for point in points_of(Operation::MoveStore) {
        let (world, snapshot, dead) = furnished();
        let nacre = &world.nacre;
        let killed = apart(nacre, Some(point), &INIT);
        if killed.stderr.contains("on btrfs already") {
            // The tests themselves run on a btrfs.
            return;
        }
        assert_eq!(killed.code, None, "{point}: {}", killed.transcript());
        is_whole(nacre, &snapshot, &dead);
        let again = apart(nacre, None, &INIT);
        if point == "storage.moved" {
            assert!(again.stderr.contains("on btrfs already"), "{again:?}");
        } else {
            assert_eq!(again.code, Some(0), "{point}: {}", again.transcript());
        }
        is_whole(nacre, &snapshot, &dead);
        let left = ["master.key", "store", "store.btrfs"];
        assert_eq!(names(nacre), left, "{point}");

        let recovered = text(&ok(nacre, &["sandbox", "stop", &dead])["snapshot"]);
        let next = text(&ok(nacre, &["sandbox", "create", "--from", &recovered])["id"]);
        let left = apart(
            nacre,
            None,
            &["sandbox", "exec", &next, "--", "cat", "/srv/left"],
        );
        assert_eq!(left.stdout, "left\n", "{point}: {left:?}");
        ok(nacre, &["sandbox", "rm", &next, &dead]);
        let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(nacre.home.path().as_str()), "{mounts}");
    }
}

#[test]
fn a_home_with_a_living_sandbox_or_too_small_a_size_is_not_moved() {
    let world = World::new();
    let id = world.create(&[]);
    let refused = apart(&world.nacre, None, &INIT);
    if refused.stderr.contains("on btrfs already") {
        return;
    }
    assert!(
        refused.stderr.contains(&format!("sandbox stop {id}")),
        "{refused:?}"
    );
    world.ok(&["sandbox", "stop", &id]);
    let small = apart(&world.nacre, None, &["storage", "init", "--btrfs", "100M"]);
    assert!(small.stderr.contains("at least"), "{small:?}");
    assert!(
        !names(&world.nacre)
            .iter()
            .any(|name| name.starts_with("store"))
    );
}
