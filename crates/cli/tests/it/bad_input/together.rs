//! Two nacre processes on one home.

use std::thread;

use super::Traces;
use crate::Ran;
use crate::world::World;

/// Runs them at once.
fn together(world: &World, commands: &[&[&str]]) -> Vec<Ran> {
    thread::scope(|scope| {
        let started: Vec<_> = commands
            .iter()
            .map(|arguments| scope.spawn(|| world.nacre.run(*arguments)))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn count(all: &[Ran], code: i32) -> usize {
    all.iter().filter(|ran| ran.code == Some(code)).count()
}

#[test]
fn twenty_sandboxes_are_made_at_once_in_a_new_home() {
    let world = World::new();
    let create: &[&str] = &["sandbox", "create", "--from", "host"];
    let all = together(&world, &[create; 20]);
    let failed: Vec<&Ran> = all.iter().filter(|ran| ran.code != Some(0)).collect();
    assert!(failed.is_empty(), "{} of 20: {failed:?}", failed.len());
    let listed = world.ok(&["sandbox", "ls"]);
    assert_eq!(listed["sandboxes"].as_array().map(Vec::len), Some(20));
    let ranges = world.nacre.path("ranges").read_dir_utf8().unwrap();
    assert_eq!(ranges.count(), 20);
}

#[test]
fn of_five_that_want_one_name_one_gets_it() {
    let world = World::new();
    let traces = Traces::of(&world);
    let create: &[&str] = &["sandbox", "create", "--from", "host", "--name", "wanted"];
    let all = together(&world, &[create; 5]);
    assert_eq!((count(&all, 0), count(&all, 4)), (1, 4), "{all:?}");
    let lost = all.iter().find(|ran| ran.code == Some(4)).unwrap();
    assert!(lost.stderr.contains("is taken"), "{lost:?}");
    world.ok(&["sandbox", "rm", "wanted"]);
    world.ok(&["sandbox", "ls"]);
    traces.assert_no_more(&world, "five creates and a rm");
}

#[test]
fn stopping_what_is_being_removed_finds_it_or_says_that_it_is_gone() {
    let world = World::new();
    let traces = Traces::of(&world);
    for _ in 0..4 {
        let id = world.create(&[]);
        let all = together(
            &world,
            &[&["sandbox", "stop", &id], &["sandbox", "rm", &id]],
        );
        let [stop, rm] = &all[..] else {
            panic!("two commands, {} ends", all.len())
        };
        assert_eq!(rm.code, Some(0), "{all:?}");
        match stop.code {
            // It was first, so its snapshot stays.
            Some(0) => {
                let snapshot = stop.stdout.split_whitespace().next().unwrap();
                world.ok(&["snapshot", "show", snapshot, "--wait"]);
                world.ok(&["snapshot", "rm", snapshot]);
            }
            code => {
                assert_eq!(code, Some(3), "{all:?}");
                assert!(stop.stderr.contains("does not exist"), "{stop:?}");
            }
        }
        world.ok(&["sandbox", "ls"]);
        traces.assert_no_more(&world, "a stop and a rm");
    }
}

#[test]
fn of_four_that_remove_one_sandbox_none_fails_otherwise_than_by_its_being_gone() {
    let world = World::new();
    let traces = Traces::of(&world);
    let id = world.create(&[]);
    let rm: &[&str] = &["sandbox", "rm", &id];
    let all = together(&world, &[rm; 4]);
    assert!(count(&all, 0) >= 1, "{all:?}");
    assert_eq!(count(&all, 0) + count(&all, 3), 4, "{all:?}");
    world.ok(&["sandbox", "ls"]);
    traces.assert_no_more(&world, "four rm");
}

#[test]
fn four_that_stop_one_sandbox_get_one_snapshot() {
    let world = World::new();
    let id = world.create(&[]);
    let stop: &[&str] = &["--json", "sandbox", "stop", &id];
    let all = together(&world, &[stop; 4]);
    assert_eq!(count(&all, 0), 4, "{all:?}");
    let first = all[0].json()["snapshot"].clone();
    assert!(all.iter().all(|ran| ran.json()["snapshot"] == first));
    let kept = world.ok(&["snapshot", "ls"]);
    assert_eq!(kept["snapshots"].as_array().map(Vec::len), Some(1));
}
