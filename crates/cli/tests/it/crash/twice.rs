//! The same thing done twice, one after the other and at once.

use super::process::{digesting, wait_within, within};
use super::stage::{PATIENCE, Stage};
use crate::Ran;
use crate::world::{World, text};

#[test]
fn an_operation_done_twice_is_done_once() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let taken = stage.run(
        None,
        &["sandbox", "create", "--from", "host", "--name", "victim"],
    );
    assert_eq!(taken.code, Some(4), "{}", taken.transcript());
    for _ in 0..2 {
        stage.ok(&["sandbox", "pause", &id]);
        assert!(stage.is_frozen(&id));
    }
    let still = stage.pulse(&id).unwrap();
    for _ in 0..2 {
        stage.ok(&["sandbox", "resume", &id]);
        stage.beats_on(&id, still);
    }
    let first = stage.ok(&["sandbox", "stop", &id])["snapshot"].clone();
    assert_eq!(stage.ok(&["sandbox", "stop", &id])["snapshot"], first);
    stage.ok(&["sandbox", "rm", &id]);
    assert_eq!(stage.run(None, &["sandbox", "rm", &id]).code, Some(3));
    stage.is_sound("after everything twice");
}

#[test]
fn of_two_operations_at_once_each_is_done_or_refused_and_nothing_is_torn() {
    let stage = Stage::new();
    let pairs = [
        ["pause", "pause"],
        ["pause", "resume"],
        ["pause", "snapshot"],
        ["snapshot", "snapshot"],
        ["snapshot", "fork"],
        ["fork", "fork"],
        ["pause", "stop"],
        ["snapshot", "stop"],
        ["fork", "stop"],
        ["stop", "stop"],
        ["stop", "rm"],
        ["pause", "rm"],
        ["fork", "rm"],
        ["rm", "rm"],
    ];
    for pair in pairs {
        let id = stage.victim(None);
        let ran = at_once(&stage, pair.map(|operation| ["sandbox", operation, &id]));
        for one in &ran {
            // Done, not there any more, or not possible in that state; never broken.
            assert!(
                matches!(one.code, Some(0 | 3 | 4)),
                "{pair:?}: {}",
                one.transcript()
            );
        }
        assert!(
            ran.iter().any(|one| one.code == Some(0)),
            "{pair:?}: neither was done"
        );
        stage.restart();
        stage.is_sound(&format!("{pair:?}"));
        let snapshots: Vec<_> = ran
            .iter()
            .filter(|one| one.code == Some(0) && one.stdout.contains("\"snapshot\":\""))
            .map(|one| text(&one.json()["snapshot"]))
            .collect();
        for snapshot in &snapshots {
            stage.snapshot_has_the_files(snapshot);
        }
        if pair == ["stop", "stop"] {
            assert_eq!(snapshots[0], snapshots[1]);
        }
        for sandbox in stage.restart() {
            let other = text(&sandbox["id"]);
            if other != stage.bystander {
                stage.ok(&["sandbox", "rm", &other]);
            }
        }
        stage.is_sound(&format!("{pair:?}, removed"));
    }
}

#[test]
fn of_two_sandboxes_made_under_one_name_at_once_there_is_one() {
    let stage = Stage::new();
    for _ in 0..5 {
        let create = ["sandbox", "create", "--from", "host", "--name", "same"];
        let ran = at_once(&stage, [create, create]);
        let mut codes = [ran[0].code, ran[1].code];
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(4)], "{ran:?}");
        stage.is_sound("two of one name");
        stage.ok(&["sandbox", "rm", "same"]);
    }
}

#[test]
fn the_first_two_sandboxes_of_a_home_can_be_made_at_once() {
    let world = World::new();
    let create = || {
        world
            .nacre
            .command(["--json", "sandbox", "create", "--from", "host"])
            .spawn()
            .unwrap()
    };
    let both = [create(), create()];
    // Both have ended before anything is said: the home goes with a failed test.
    let codes = both.map(|mut one| wait_within(&mut one, PATIENCE).and_then(|ended| ended.code()));
    assert_eq!(codes, [Some(0), Some(0)]);
    assert_eq!(
        world.ok(&["sandbox", "ls"])["sandboxes"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

fn at_once<const N: usize>(stage: &Stage, both: [[&str; N]; 2]) -> [Ran; 2] {
    let children = both.map(|arguments| stage.spawn(None, &arguments));
    children.map(|mut child| {
        let status = wait_within(&mut child, PATIENCE);
        assert!(status.is_some(), "{both:?} hangs");
        Ran::from(
            child.wait_with_output().unwrap(),
            stage.world.nacre.home.path(),
        )
    })
}

#[test]
fn a_removed_snapshot_does_not_come_back_when_its_digest_is_done() {
    let stage = Stage::new();
    for round in 0..30 {
        let snapshot = text(&stage.ok(&["sandbox", "snapshot", &stage.bystander])["snapshot"]);
        // Several at once, so that some end beside the removal.
        let mut digests: Vec<_> = (0..6)
            .map(|_| stage.spawn(None, &["snapshot", "show", &snapshot, "--wait"]))
            .collect();
        within("the first has its digest", PATIENCE, || {
            digests
                .iter_mut()
                .any(|digest| digest.try_wait().unwrap().is_some())
        });
        stage.ok(&["snapshot", "rm", &snapshot]);
        for digest in &mut digests {
            assert!(wait_within(digest, PATIENCE).is_some(), "a digest hangs");
        }
        within("nobody computes its digest", PATIENCE, || {
            digesting(stage.world.nacre.home.path().as_str()).is_empty()
        });
        assert!(
            stage.snapshots().is_empty(),
            "round {round}: {snapshot} came back"
        );
    }
    stage.is_sound("after the removals");
}

#[test]
fn digests_left_to_one_that_is_busy_are_computed_by_the_next() {
    let stage = Stage::new();
    let home = stage.world.nacre.home.path();
    let busy = fs_err::File::create(home.join("run/digests.lock")).unwrap();
    rustix::fs::flock(&busy, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let take = || text(&stage.ok(&["sandbox", "snapshot", &stage.bystander])["snapshot"]);
    let mut taken: Vec<String> = (0..3).map(|_| take()).collect();
    within("nobody computes a digest", PATIENCE, || {
        digesting(home.as_str()).is_empty()
    });
    let has_digest =
        |snapshot: &String| stage.ok(&["snapshot", "show", snapshot])["digest"].is_string();
    assert!(!taken.iter().any(has_digest), "computed beside another");
    drop(busy);
    taken.push(take());
    within("all have their digests", PATIENCE, || {
        taken.iter().all(has_digest)
    });
}
