//! `kill -9` of the runner: with its PID 1 a sandbox ends, but not its disk.

use super::process::within;
use super::stage::{PATIENCE, Stage};
use crate::world::text;

#[test]
fn with_its_runner_killed_a_sandbox_is_ended_and_garbage_collection_recovers_its_disk() {
    let stage = Stage::new();
    let id = ended(&stage);
    let collected = stage.ok(&["storage", "gc"]);
    let snapshot = text(&collected["recovered"][0]);
    let shown = stage.ok(&["snapshot", "show", &snapshot]);
    assert_eq!(
        (&shown["recovered"], &shown["sandbox"]),
        (&true.into(), &id.as_str().into())
    );
    assert_eq!(stage.status(&id).as_deref(), Some("stopped"));
    stage.snapshot_has_the_files(&snapshot);
    assert_eq!(
        stage.ok(&["storage", "gc"])["recovered"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    stage.is_sound("after the recovery");
}

#[test]
fn with_its_runner_killed_a_sandbox_can_still_be_stopped_and_removed() {
    let stage = Stage::new();
    let id = ended(&stage);
    let refused = stage.run(None, &["sandbox", "exec", &id, "--", "true"]);
    assert_eq!(refused.code, Some(4), "{}", refused.transcript());
    let snapshot = text(&stage.ok(&["sandbox", "stop", &id])["snapshot"]);
    assert_eq!(
        stage.ok(&["snapshot", "show", &snapshot])["recovered"],
        false
    );
    stage.snapshot_has_the_files(&snapshot);
    stage.ok(&["sandbox", "rm", &id]);

    let id = ended(&stage);
    stage.ok(&["sandbox", "rm", &id]);
    stage.is_sound("after the removal");
}

/// A victim whose PID 1 was killed.
fn ended(stage: &Stage) -> String {
    let id = stage.victim(None);
    let keeper = stage.keeper(&id);
    stage.runner(&id).kill();
    within("the keeper ends with its sandbox", PATIENCE, || {
        !keeper.is_alive()
    });
    assert_eq!(stage.status(&id).as_deref(), Some("ended"));
    assert!(
        !fs_err::exists(stage.cgroup(&id)).unwrap(),
        "its cgroup is gone"
    );
    stage.is_sound("after the runner's end");
    id
}
