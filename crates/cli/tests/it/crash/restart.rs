//! The host goes down and comes up again: every process is gone and the boot id is another.

use super::process::within;
use super::stage::{PATIENCE, Stage};
use crate::world::text;

#[test]
fn after_a_restart_of_the_host_every_disk_is_recovered() {
    let stage = Stage::new();
    let running = stage.victim(None);
    let sandbox = |name: &str| {
        let id = text(&stage.ok(&["sandbox", "create", "--from", "host", "--name", name])["id"]);
        stage.fill(&id);
        id
    };
    let (paused, ended, stopped) = (sandbox("paused"), sandbox("ended"), sandbox("stopped"));
    stage.ok(&["sandbox", "pause", &paused]);
    stage.runner(&ended).kill();
    let last = text(&stage.ok(&["sandbox", "stop", &stopped])["snapshot"]);
    // One more, whose making was under way.
    stage.dies_at(
        "create.launched",
        &["sandbox", "create", "--from", "host", "--name", "half"],
    );

    host_restarts(&stage);
    stage.restart();
    for id in [&running, &ended, &stage.bystander] {
        assert_eq!(stage.status(id).as_deref(), Some("stopped"));
        let snapshot = text(&stage.ok(&["sandbox", "show", id])["state"]["snapshot"]);
        assert_eq!(
            stage.ok(&["snapshot", "show", &snapshot])["recovered"],
            true
        );
        stage.snapshot_has_the_files(&snapshot);
    }
    assert_eq!(stage.status(&stopped).as_deref(), Some("stopped"));
    assert_eq!(
        stage.ok(&["sandbox", "stop", &stopped])["snapshot"],
        last.as_str()
    );
    stage.snapshot_has_the_files(&last);
    assert_eq!(stage.restart().len(), 5, "the half-made one is gone");

    assert_eq!(
        (stage.status(&paused).as_deref(), &*stage.kept(&paused)),
        (Some("paused"), "disk")
    );
    assert_eq!(stage.ok(&["sandbox", "resume", &paused])["kept"], "disk");
    stage.is_usable_to_the_end(&paused);
    stage.is_consistent("after the disks were recovered");
}

#[test]
fn killed_while_it_recovers_disks_the_next_start_goes_on() {
    let stage = Stage::new();
    let id = stage.victim(None);
    host_restarts(&stage);
    for point in [
        "stop.intended",
        "stop.sealed",
        "stop.recorded",
        "stop.buried",
    ] {
        // Either of the two disks may be the one at which it dies.
        stage.run(Some(point), &["sandbox", "ls"]);
    }
    stage.restart();
    for id in [&id, &stage.bystander] {
        let snapshot = text(&stage.ok(&["sandbox", "show", id])["state"]["snapshot"]);
        assert_eq!(
            stage.ok(&["snapshot", "show", &snapshot])["recovered"],
            true
        );
        stage.snapshot_has_the_files(&snapshot);
    }
    assert_eq!(stage.snapshots().len(), 2);
    stage.is_consistent("after the disks were recovered");
}

fn host_restarts(stage: &Stage) {
    assert!(stage.kill_everything(), "every process is gone");
    let another = "00000000-0000-4000-8000-000000000000";
    fs_err::write(stage.home("run/host_boot"), another).unwrap();
    for entry in fs_err::read_dir(stage.home("sandboxes")).unwrap() {
        let path = entry.unwrap().path().join("keeper.json");
        if let Ok(text) = fs_err::read_to_string(&path) {
            let mut running: serde_json::Value = serde_json::from_str(&text).unwrap();
            running["host_boot"] = another.into();
            fs_err::write(path, running.to_string()).unwrap();
        }
    }
}

/// Numbers of threads begin anew with the host, and one killed while it claims something leaves
/// its file aside as a second name of the claim.
#[test]
fn what_a_dead_thread_left_aside_is_not_written_through() {
    let stage = Stage::new();
    let claim = stage.home("names/bystander");
    let last = fs_err::read_to_string("/proc/sys/kernel/ns_last_pid").unwrap();
    let last: u32 = last.trim().parse().unwrap();
    // The next process has one of these numbers, and so have its threads.
    for number in last..last + 500 {
        let left = stage.home(&format!("aside/{number}"));
        fs_err::hard_link(&claim, left).unwrap();
    }
    // The first thing that a first process writes is which boot of the host it saw.
    fs_err::write(stage.home("run/host_boot"), "another").unwrap();
    stage.ok(&["sandbox", "pause", &stage.bystander]);
    stage.ok(&["sandbox", "resume", &stage.bystander]);
    assert_eq!(
        fs_err::read_to_string(claim).unwrap().trim(),
        stage.bystander
    );
    // A process does not tidy what bears its own numbers; the next one does.
    within("everything aside is gone", PATIENCE, || {
        stage.restart();
        fs_err::read_dir(stage.home("aside")).unwrap().count() == 0
    });
    stage.is_sound("after the reuse of thread numbers");
}
