//! The operations on a sandbox that lives on, killed at their fail points.

use super::points::{Operation, is_the_keepers, points_of};
use super::process::within;
use super::stage::{PATIENCE, Stage};
use crate::world::text;

#[test]
fn killed_while_pausing_the_pause_is_finished() {
    let stage = Stage::new();
    let id = stage.victim(None);
    for point in points_of(Operation::Pause) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        stage.dies_at(point, &["sandbox", "pause", &id]);
        assert_eq!(stage.status(&id).as_deref(), Some("paused"), "{point}");
        assert_eq!(stage.kept(&id), "memory", "{point}");
        assert!(stage.is_frozen(&id), "{point}: it stands still");
        stage.is_sound(point);
        // It stays so: nobody takes it for a snapshot's freeze whose owner died.
        let still = stage.pulse(&id).unwrap();
        assert!(
            stage.is_frozen(&id) && stage.pulse(&id) == Some(still),
            "{point}"
        );
        assert_eq!(stage.ok(&["sandbox", "resume", &id])["kept"], "memory");
        stage.beats_on(&id, still);
        stage.has_its_files(&id);
        stage.the_bystander_noticed_nothing(pulse);
    }
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the pauses");
}

#[test]
fn killed_while_resuming_in_place_it_goes_on() {
    let stage = Stage::new();
    let id = stage.victim(None);
    for point in points_of(Operation::Resume) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        stage.ok(&["sandbox", "pause", &id]);
        let still = stage.pulse(&id).unwrap();
        stage.dies_at(point, &["sandbox", "resume", &id]);
        assert_eq!(stage.status(&id).as_deref(), Some("running"), "{point}");
        stage.beats_on(&id, still);
        stage.is_sound(point);
        stage.has_its_files(&id);
        stage.the_bystander_noticed_nothing(pulse);
    }
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the resumes");
}

#[test]
fn killed_while_resuming_from_disk_it_runs_or_is_still_paused_on_disk() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let launch = [
        "create.cgroups",
        "keeper.started",
        "keeper.cloned",
        "keeper.mounted",
        "keeper.ready",
    ];
    for point in points_of(Operation::Resume).chain(launch) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        stage.ok(&["sandbox", "pause", &id]);
        to_disk(&stage, &id);
        stage.fails_at(point, &["sandbox", "resume", &id]);
        let running = point == "resume.thawed";
        let expected = if running { "running" } else { "paused" };
        assert_eq!(stage.status(&id).as_deref(), Some(expected), "{point}");
        stage.is_sound(point);
        if !running {
            assert_eq!(stage.kept(&id), "disk", "{point}");
            assert_eq!(
                stage.ok(&["sandbox", "resume", &id])["kept"],
                "disk",
                "{point}"
            );
        }
        stage.has_its_files(&id);
        stage.the_bystander_noticed_nothing(pulse);
    }
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the resumes");
}

/// A paused sandbox whose processes end is paused on disk, whoever ended them.
fn to_disk(stage: &Stage, id: &str) {
    stage.runner(id).kill();
    within("it is on disk", PATIENCE, || {
        stage.kept(id) == "disk" && !fs_err::exists(stage.cgroup(id)).unwrap()
    });
}

#[test]
fn killed_while_taking_a_snapshot_the_sandbox_goes_on_and_the_snapshot_is_whole_or_absent() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let layers = || fs_err::read_dir(stage.home("layers")).unwrap().count();
    for point in points_of(Operation::Snapshot) {
        assert!(!is_the_keepers(point));
        let (pulse, beats) = (
            stage.pulse(&stage.bystander).unwrap(),
            stage.pulse(&id).unwrap(),
        );
        let (layers_before, snapshots_before) = (layers(), stage.snapshots().len());
        stage.dies_at(point, &["sandbox", "snapshot", &id, "--name", "copy"]);
        // The keeper thaws it without being asked: no nacre process has run since.
        stage.beats_on(&id, beats);
        assert_eq!(stage.status(&id).as_deref(), Some("running"), "{point}");
        stage.is_sound(point);
        let recorded = usize::from(point == "snapshot.recorded");
        assert_eq!(
            stage.snapshots().len(),
            snapshots_before + recorded,
            "{point}"
        );
        assert_eq!(
            layers(),
            layers_before + recorded,
            "{point}: no copy without its snapshot"
        );
        stage.has_its_files(&id);
        if recorded == 0 {
            stage.ok(&["sandbox", "snapshot", &id, "--name", "copy"]);
        }
        stage.snapshot_has_the_files("copy");
        let copy = text(&stage.ok(&["snapshot", "show", "copy", "--wait"])["id"]);
        assert_eq!(
            stage.ok(&["snapshot", "verify", &copy])["ok"],
            true,
            "{point}"
        );
        stage.ok(&["snapshot", "rm", "copy"]);
        stage.the_bystander_noticed_nothing(pulse);
    }
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the snapshots");
}
