//! `kill -9` of keepers: the sandbox runs on, and the next nacre process gives it a new one.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Child;

use camino::Utf8PathBuf;
use rustix::process::Signal;

use super::process::{Process, wait_within, within};
use super::stage::{PATIENCE, Stage};
use crate::world::text;

#[test]
fn without_its_keeper_a_sandbox_runs_on_and_takes_commands_and_files() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let beats = stage.pulse(&id).unwrap();
    stage.keeper(&id).kill();
    stage.beats_on(&id, beats);
    stage.has_its_files(&id);
    let out = stage.home("out");
    fs_err::write(stage.home("in"), "through").unwrap();
    stage.ok(&[
        "sandbox",
        "cp",
        stage.home("in").as_str(),
        &format!("{id}:/srv/in"),
    ]);
    stage.ok(&["sandbox", "cp", &format!("{id}:/srv/in"), out.as_str()]);
    assert_eq!(fs_err::read_to_string(out).unwrap(), "through");
    assert_eq!(stage.status(&id).as_deref(), Some("running"));
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the keeper's end");
}

#[test]
fn with_a_new_keeper_a_sandbox_is_paused_resumed_snapshotted_and_stopped() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let first = stage.keeper(&id);
    first.kill();
    stage.ok(&["sandbox", "pause", &id]);
    let second = stage.keeper(&id);
    assert_ne!(second, first);
    assert!(stage.is_frozen(&id));

    // Paused, and again without one.
    let still = stage.pulse(&id).unwrap();
    second.kill();
    assert_eq!(stage.status(&id).as_deref(), Some("paused"));
    assert_eq!(stage.kept(&id), "memory");
    assert!(
        stage.is_frozen(&id),
        "a new keeper does not thaw what was paused on purpose"
    );
    assert_eq!(stage.ok(&["sandbox", "resume", &id])["kept"], "memory");
    stage.beats_on(&id, still);

    stage.keeper(&id).kill();
    let snapshot = text(&stage.ok(&["sandbox", "snapshot", &id])["snapshot"]);
    stage.beats_on(&id, still);
    stage.snapshot_has_the_files(&snapshot);
    stage.keeper(&id).kill();
    stage.ok(&["sandbox", "fork", &id]);
    stage.keeper(&id).kill();
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after many keepers");
}

#[test]
fn garbage_collection_gives_every_orphan_a_keeper_and_one_is_enough() {
    let stage = Stage::new();
    let id = stage.victim(None);
    for orphan in [&id, &stage.bystander] {
        stage.keeper(orphan).kill();
    }
    stage.ok(&["storage", "gc"]);
    let keeper = stage.keeper(&id);
    stage.keeper(&stage.bystander);
    stage.ok(&["storage", "gc"]);
    assert_eq!(stage.keeper(&id), keeper);
    stage.is_sound("after the adoption");
}

#[test]
fn a_new_keeper_notices_the_end_of_the_sandbox() {
    let stage = Stage::new();
    let id = stage.victim(None);
    stage.keeper(&id).kill();
    stage.ok(&["storage", "gc"]);
    let keeper = stage.keeper(&id);
    stage.runner(&id).kill();
    within("the new keeper ends with its sandbox", PATIENCE, || {
        !keeper.is_alive()
    });
    assert!(stage.home(&format!("sandboxes/{id}/exit.json")).exists());
    assert_eq!(stage.status(&id).as_deref(), Some("ended"));
    let snapshot = text(&stage.ok(&["sandbox", "stop", &id])["snapshot"]);
    stage.snapshot_has_the_files(&snapshot);
    stage.is_sound("after the end");
}

#[test]
fn a_sandbox_that_ends_without_a_keeper_is_ended() {
    let stage = Stage::new();
    let id = stage.victim(None);
    stage.keeper(&id).kill();
    stage.runner(&id).kill();
    assert_eq!(stage.status(&id).as_deref(), Some("ended"));
    let snapshot = text(&stage.ok(&["sandbox", "stop", &id])["snapshot"]);
    stage.snapshot_has_the_files(&snapshot);
    stage.is_sound("after the end");
}

/// A snapshot that holds its sandbox frozen and goes on when the file is removed.
fn snapshot_under_way(stage: &Stage, id: &str) -> (Child, Process, Utf8PathBuf) {
    let hold = stage.home("hold");
    fs_err::write(&hold, "").unwrap();
    let point = format!("snapshot.frozen@{hold}");
    let nacre = stage.spawn(Some(&point), &["sandbox", "snapshot", id]);
    let process = Process::find(i32::try_from(nacre.id()).unwrap()).unwrap();
    within("the sandbox is frozen", PATIENCE, || stage.is_frozen(id));
    (nacre, process, hold)
}

#[test]
fn a_snapshot_whose_keeper_is_killed_fails_and_the_sandbox_is_thawed() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let (mut nacre, _, hold) = snapshot_under_way(&stage, &id);
    let beats = stage.pulse(&id).unwrap();
    stage.keeper(&id).kill();
    fs_err::remove_file(hold).unwrap();
    // Whether it ends well or not, it must end.
    assert!(
        wait_within(&mut nacre, PATIENCE).is_some(),
        "the snapshot hangs"
    );
    stage.restart();
    stage.beats_on(&id, beats);
    assert_eq!(stage.status(&id).as_deref(), Some("running"));
    stage.is_sound("after the snapshot");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn a_snapshot_killed_together_with_its_keeper_leaves_nothing_frozen() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let (mut nacre, process, _) = snapshot_under_way(&stage, &id);
    let beats = stage.pulse(&id).unwrap();
    stage.keeper(&id).kill();
    process.signal(Signal::KILL);
    nacre.wait().unwrap();
    assert!(stage.is_frozen(&id), "nobody is left to thaw it");
    stage.restart();
    stage.beats_on(&id, beats);
    assert_eq!(stage.status(&id).as_deref(), Some("running"));
    stage.is_sound("after the snapshot");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn a_snapshot_killed_in_its_copy_is_thawed_by_the_keeper_alone() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let (mut nacre, process, _) = snapshot_under_way(&stage, &id);
    let beats = stage.pulse(&id).unwrap();
    process.signal(Signal::KILL);
    nacre.wait().unwrap();
    stage.beats_on(&id, beats);
    stage.restart();
    stage.is_sound("after the snapshot");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn a_port_that_is_served_is_served_again_by_a_new_keeper() {
    let stage = Stage::new();
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let serve = format!("7777={}", host.local_addr().unwrap());
    let id = text(&stage.ok(&["sandbox", "create", "--from", "host", "--serve", &serve])["id"]);
    // Answers each connection with what it says, for as long as the test runs.
    std::thread::spawn(move || {
        for connection in host.incoming() {
            let mut connection = connection.unwrap();
            std::thread::spawn(move || {
                let mut said = [0; 64];
                while let Ok(length @ 1..) = connection.read(&mut said) {
                    if connection.write_all(&said[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let echo = |word: &str| {
        let script = format!(
            "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/7777; echo {word} >&3; head -n 1 <&3'"
        );
        stage.says(&id, &script)
    };
    assert_eq!(echo("one"), "one");
    // In use when its keeper is killed: the connection breaks, and does not hang.
    let held = "exec 3<>/dev/tcp/127.0.0.1/7777; echo held >&3; head -n 1 <&3; touch /srv/held; cat <&3; touch /srv/broken";
    stage.ok(&["sandbox", "exec", &id, "--detach", "--", "bash", "-c", held]);
    let made = |name: &str| {
        stage
            .home(&format!("sandboxes/{id}/disk/upper/srv/{name}"))
            .exists()
    };
    within("the port is in use", PATIENCE, || made("held"));
    stage.keeper(&id).kill();
    within("the connection ends", PATIENCE, || made("broken"));
    stage.ok(&["storage", "gc"]);
    assert_eq!(echo("two"), "two");
    stage.ok(&["sandbox", "pause", &id]);
    stage.ok(&["sandbox", "resume", &id]);
    assert_eq!(echo("three"), "three");
}

#[test]
fn a_keeper_killed_in_the_middle_of_a_freeze_leaves_nothing_frozen_that_is_said_to_run() {
    let stage = Stage::new();
    let id = stage.victim(None);
    for operation in ["pause", "snapshot", "fork"] {
        let beats = stage.pulse(&id).unwrap();
        let keeper = stage.keeper(&id);
        // It takes the order, freezes, and dies before it answers.
        keeper.signal(Signal::STOP);
        let mut nacre = stage.spawn(None, &["sandbox", operation, &id]);
        let process = Process::find(i32::try_from(nacre.id()).unwrap()).unwrap();
        within("nacre waits for the keeper", PATIENCE, || {
            process.waits_in("unix_stream")
        });
        fs_err::write(format!("{}/cgroup.freeze", stage.cgroup(&id)), "1").unwrap();
        within("it is frozen", PATIENCE, || stage.is_frozen(&id));
        keeper.kill();
        assert!(
            wait_within(&mut nacre, PATIENCE).is_some(),
            "{operation} hangs"
        );
        if stage.status(&id).as_deref() == Some("paused") {
            stage.ok(&["sandbox", "resume", &id]);
        }
        stage.beats_on(&id, beats);
        stage.is_sound(operation);
        // The next round needs a keeper.
        stage.ok(&["storage", "gc"]);
    }
    stage.is_usable_to_the_end(&id);
}
