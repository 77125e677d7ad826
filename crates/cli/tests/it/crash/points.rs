//! Every fail point, and the operations that make and end sandboxes killed at theirs.

use std::collections::BTreeSet;

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use serde_json::Value;

use super::process::within;
use super::stage::{PATIENCE, Stage};
use crate::world::text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Pause,
    Resume,
    Snapshot,
    Stop,
    Fork,
    Remove,
    Import,
    MoveStore,
}

use Operation::{Create, Fork, Import, MoveStore, Pause, Remove, Resume, Snapshot, Stop};

/// Which operation passes which fail point. Each is walked by that operation's test, which fails
/// if the process does not die there.
const TABLE: &[(&str, Operation)] = &[
    ("create.intended", Create),
    ("create.claimed", Create),
    ("create.recorded", Create),
    ("create.cgroups", Create),
    ("keeper.started", Create),
    ("keeper.cloned", Create),
    ("keeper.mounted", Create),
    ("keeper.ready", Create),
    ("create.launched", Create),
    ("create.running", Create),
    ("create.finished", Create),
    ("pause.intended", Pause),
    ("pause.frozen", Pause),
    ("pause.recorded", Pause),
    ("resume.intended", Resume),
    ("resume.thawed", Resume),
    ("snapshot.intended", Snapshot),
    ("snapshot.frozen", Snapshot),
    ("snapshot.copied", Snapshot),
    ("snapshot.thawed", Snapshot),
    ("snapshot.sealed", Snapshot),
    ("snapshot.recorded", Snapshot),
    ("stop.intended", Stop),
    ("keeper.killed", Stop),
    ("keeper.unmounted", Stop),
    ("stop.ended", Stop),
    ("stop.sealed", Stop),
    ("stop.recorded", Stop),
    ("stop.buried", Stop),
    ("fork.captured", Fork),
    ("fork.cloned", Fork),
    ("remove.intended", Remove),
    ("remove.ended", Remove),
    ("remove.trashed", Remove),
    ("remove.released", Remove),
    ("storage.copied", MoveStore),
    ("storage.filled", MoveStore),
    ("storage.moved", MoveStore),
    ("import.intended", Import),
    ("import.unpacked", Import),
    ("import.recorded", Import),
];

pub(super) fn points_of(operation: Operation) -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(move |(_, passes)| *passes == operation)
        .map(|(point, _)| *point)
}

/// It is the keeper that dies there, not nacre.
pub(super) fn is_the_keepers(point: &str) -> bool {
    point.starts_with("keeper.")
}

#[test]
fn every_fail_point_there_is_belongs_to_an_operation_that_is_killed_at_it() {
    let walked: BTreeSet<&str> = TABLE.iter().map(|(point, _)| *point).collect();
    let listed: BTreeSet<&str> = model::failpoint::ALL.iter().copied().collect();
    assert_eq!(walked, listed);
}

impl Stage {
    /// A snapshot with the known files.
    pub(super) fn origin(&self) -> String {
        let id = self.victim(None);
        let snapshot = text(&self.ok(&["sandbox", "stop", &id])["snapshot"]);
        self.ok(&["sandbox", "rm", &id]);
        snapshot
    }

    /// Kills nacre or its keeper at the point; either way the operation was not acknowledged.
    pub(super) fn fails_at(&self, point: &str, arguments: &[&str]) {
        if is_the_keepers(point) {
            let ran = self.run(Some(point), arguments);
            assert!(
                ran.code.is_some_and(|code| code != 0),
                "{point}: {}",
                ran.transcript()
            );
            assert!(
                ran.stderr.contains("without an answer"),
                "{point}: {}",
                ran.transcript()
            );
        } else {
            self.dies_at(point, arguments);
        }
    }
}

#[test]
fn killed_while_creating_leaves_no_sandbox_or_a_whole_one() {
    creating_is_whole_or_nothing("native", points_of(Create));
}

/// The keeper's own steps are those that differ.
#[test]
fn killed_while_creating_a_gvisor_sandbox_leaves_none_or_a_whole_one() {
    creating_is_whole_or_nothing("runsc", points_of(Create).filter(|p| is_the_keepers(p)));
}

fn creating_is_whole_or_nothing(runtime: &str, points: impl Iterator<Item = &'static str>) {
    let stage = Stage::new();
    let origin = stage.origin();
    let create = [
        "sandbox",
        "create",
        "--from",
        &origin,
        "--name",
        "victim",
        "--runtime",
        runtime,
    ];
    for point in points {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        stage.fails_at(point, &create);
        let found = stage
            .restart()
            .iter()
            .any(|sandbox| sandbox["name"] == "victim");
        assert_eq!(found, point == "create.finished", "{point}: it is there");
        stage.is_sound(point);
        // What was undone can be done again, under the same name.
        if !found {
            stage.ok(&create);
        }
        let id = text(&stage.ok(&["sandbox", "show", "victim"])["id"]);
        stage.is_usable_to_the_end(&id);
        stage.is_sound(&format!("{point}, used and removed"));
        stage.the_bystander_noticed_nothing(pulse);
    }
}

#[test]
fn killed_while_stopping_the_stop_is_finished() {
    let stage = Stage::new();
    for point in points_of(Stop).filter(|point| !is_the_keepers(point)) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        let id = stage.victim(None);
        let (keeper, runner) = (stage.keeper(&id), stage.runner(&id));
        stage.dies_at(point, &["sandbox", "stop", &id]);
        let all = stage.restart();
        assert_stopped(&stage, &all, &id, point);
        assert!(
            !keeper.is_alive() && !runner.is_alive(),
            "{point}: its processes"
        );
        stage.the_bystander_noticed_nothing(pulse);
    }
}

#[test]
fn a_keeper_killed_while_it_ends_its_sandbox_does_not_stop_the_stop() {
    // Keepers then become our children, and we see how they ended.
    set_child_subreaper(Some(getpid())).unwrap();
    let stage = Stage::new();
    for point in points_of(Stop).filter(|point| is_the_keepers(point)) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        let id = stage.victim(Some(point));
        let keeper = stage.keeper(&id);
        stage.ok(&["sandbox", "stop", &id]);
        let pid = Pid::from_raw(keeper.pid).unwrap();
        let ended = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)
            .unwrap()
            .unwrap();
        assert_eq!(
            ended.terminating_signal(),
            Some(6),
            "{point} was not passed"
        );
        let all = stage.restart();
        assert_stopped(&stage, &all, &id, point);
        stage.the_bystander_noticed_nothing(pulse);

        let id = stage.victim(Some(point));
        stage.ok(&["sandbox", "rm", &id]);
        assert_eq!(stage.status(&id), None, "{point}: removed");
        stage.is_sound(point);
    }
}

fn assert_stopped(stage: &Stage, all: &[Value], id: &str, point: &str) {
    let stopped = all
        .iter()
        .find(|sandbox| sandbox["id"] == id)
        .expect("its id still leads to it");
    assert_eq!(stopped["state"]["status"], "stopped", "{point}");
    stage.is_sound(point);
    let snapshot = text(&stopped["state"]["snapshot"]);
    assert_eq!(
        stage.ok(&["sandbox", "stop", id])["snapshot"],
        snapshot.as_str(),
        "{point}"
    );
    assert_eq!(
        stage
            .snapshots()
            .iter()
            .filter(|s| s["sandbox"] == id)
            .count(),
        1,
        "{point}"
    );
    stage.snapshot_has_the_files(&snapshot);
    // Its name is free again.
    stage.ok(&["sandbox", "create", "--from", &snapshot, "--name", "victim"]);
    stage.ok(&["sandbox", "rm", "victim", id]);
    stage.is_sound(&format!("{point}, used and removed"));
}

#[test]
fn killed_while_forking_there_is_no_fork_and_the_origin_goes_on() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let inner = [
        "snapshot.frozen",
        "snapshot.sealed",
        "create.recorded:2",
        "keeper.mounted:1",
        "create.running:2",
    ];
    let points = points_of(Fork)
        .chain(["fork.cloned:2", "fork.cloned:3"])
        .chain(inner);
    let layers = || fs_err::read_dir(stage.home("layers")).unwrap().count();
    for point in points {
        let (pulse, layers_before) = (stage.pulse(&stage.bystander).unwrap(), layers());
        let beats = stage.pulse(&id).unwrap();
        stage.fails_at(point, &["sandbox", "fork", &id, "-n", "3"]);
        // The keeper thaws it without being asked.
        stage.beats_on(&id, beats);
        assert_eq!(stage.restart().len(), 2, "{point}: all forks or none");
        stage.is_sound(point);
        assert_eq!(layers(), layers_before, "{point}: the copy is dropped");
        stage.has_its_files(&id);
        stage.the_bystander_noticed_nothing(pulse);
    }
    let forked = stage.ok(&["sandbox", "fork", &id, "-n", "2"]);
    for fork in forked["sandboxes"].as_array().unwrap() {
        stage.is_usable_to_the_end(&text(&fork["id"]));
    }
    stage.is_usable_to_the_end(&id);
    stage.is_sound("after the forks");
}

#[test]
fn killed_while_removing_the_rest_is_removed() {
    let stage = Stage::new();
    for point in points_of(Remove) {
        let pulse = stage.pulse(&stage.bystander).unwrap();
        let id = stage.victim(None);
        let snapshot = text(&stage.ok(&["sandbox", "snapshot", &id])["snapshot"]);
        let (keeper, runner) = (stage.keeper(&id), stage.runner(&id));
        stage.dies_at(point, &["sandbox", "rm", &id]);
        // The digest of the snapshot is computed by a nacre process of its own, which may be
        // finishing the removal at this moment.
        within("only the bystander is left", PATIENCE, || {
            stage.restart().len() == 1
        });
        stage.is_sound(point);
        assert!(
            !keeper.is_alive() && !runner.is_alive(),
            "{point}: its processes"
        );
        assert!(
            !stage.home(&format!("sandboxes/{id}")).exists(),
            "{point}: its directory"
        );
        // What was kept of it before is kept.
        stage.snapshot_has_the_files(&snapshot);
        stage.the_bystander_noticed_nothing(pulse);
    }
}

#[test]
fn killed_while_importing_leaves_no_snapshot_or_a_whole_one() {
    let stage = Stage::new();
    let origin = stage.origin();
    let file = stage.home("origin.nacre");
    stage.ok(&["snapshot", "export", &origin, file.as_str()]);
    let import = ["snapshot", "import", file.as_str(), "--name", "victim"];
    let layers = || stage.home("layers").read_dir_utf8().unwrap().count();
    let before = layers();
    for point in points_of(Import) {
        stage.fails_at(point, &import);
        stage.restart();
        let found = stage.run(None, &["snapshot", "show", "victim"]).code == Some(0);
        assert_eq!(found, point == "import.recorded", "{point}: it is there");
        if !found {
            assert_eq!(layers(), before, "{point}: its layers are gone");
            stage.ok(&import);
        }
        assert_eq!(stage.ok(&["snapshot", "verify", "victim"])["ok"], true);
        stage.ok(&["snapshot", "rm", "victim"]);
        assert_eq!(layers(), before, "{point}: removed");
        stage.is_sound(point);
    }
}
