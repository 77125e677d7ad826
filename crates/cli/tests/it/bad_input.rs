//! What a user may get wrong, and what may be wrong with the machine: the exit code says which
//! kind it is, the message says the next step, and nothing half-made stays behind.

mod archives;
mod confined;
mod depth;
mod doctor;
mod places;
mod tar;
mod together;
mod traces;

use traces::Traces;

use crate::Ran;
use crate::world::World;

/// Ends with this code, and every one of these is said on stderr.
#[track_caller]
fn assert_says(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{}", ran.transcript());
    for word in words {
        assert!(
            ran.stderr.contains(word),
            "not a word of `{word}`: {}",
            ran.transcript()
        );
    }
    assert!(!ran.stderr.contains("panicked"), "{}", ran.transcript());
}

/// As [`assert_says`], for people, in a home where each leaves nothing behind.
#[track_caller]
fn assert_all_say(world: &World, code: i32, cases: &[(&[&str], &[&str])]) {
    let traces = Traces::of(world);
    for (arguments, words) in cases {
        let ran = world.nacre.run(*arguments);
        assert_says(&ran, code, words);
        traces.assert_no_more(world, &format!("{arguments:?}"));
    }
}

#[test]
fn an_id_that_nobody_has_is_not_found_whatever_is_asked_of_it() {
    let world = World::new();
    let id = "sbx_01m7ggvca8fddb40098rzzr4ct";
    let of_sandboxes = |arguments: &[&str]| {
        let ran = world.nacre.run(arguments);
        assert_says(&ran, 3, &[id, "hint: `nacre sandbox ls --all`"]);
    };
    for verb in [
        "show", "pause", "resume", "stop", "rm", "snapshot", "fork", "ssh",
    ] {
        of_sandboxes(&["sandbox", verb, id]);
    }
    of_sandboxes(&["sandbox", "exec", id, "--", "true"]);
    of_sandboxes(&["sandbox", "port", id, "80"]);
    of_sandboxes(&["sandbox", "cp", &format!("{id}:/etc"), "/nowhere"]);
    for snapshot in [
        "snp_01m7ggvca8fddb40098rzzr4ct",
        "local:disk:snp_01m7ggvca8fddb40098rzzr4ct",
    ] {
        for arguments in [
            ["snapshot", "show", snapshot],
            ["snapshot", "verify", snapshot],
            ["snapshot", "rm", snapshot],
        ] {
            let ran = world.nacre.run(arguments);
            assert_says(&ran, 3, &[snapshot, "`nacre snapshot ls`"]);
        }
    }
}

#[test]
fn a_snapshot_to_start_from_that_is_not_there_is_not_found() {
    let world = World::new();
    for snapshot in [
        "snp_01m7ggvca8fddb40098rzzr4ct",
        "local:disk:snp_01m7ggvca8fddb40098rzzr4ct",
    ] {
        let arguments = ["sandbox", "create", "--from", snapshot];
        assert_all_say(
            &world,
            3,
            &[(&arguments, &[snapshot, "`nacre snapshot ls`"])],
        );
    }
}

#[test]
fn a_name_that_is_taken_is_refused_and_its_holder_named() {
    let world = World::new();
    let id = world.create(&["--name", "one"]);
    let arguments = ["sandbox", "create", "--from", "host", "--name", "one"];
    // The next step: another name, or the end of the sandbox that has it.
    let words = [id.as_str(), "another name", "nacre sandbox rm"];
    assert_all_say(&world, 4, &[(&arguments, &words)]);
}

#[test]
fn absurd_limits_are_wrong_usage() {
    let world = World::new();
    let create = |flag: &'static str, value: &'static str| {
        [
            "sandbox", "create", "--from", "host", "--name", "absurd", flag, value,
        ]
    };
    assert_all_say(
        &world,
        2,
        &[
            (
                &create("--memory", "99999999T"),
                &["larger than any machine"],
            ),
            (&create("--memory", "0"), &["more than nothing"]),
            (&create("--memory", "-1"), &["--help"]),
            (&create("--memory", "2 apples"), &["such as 512M or 1.5G"]),
            (&create("--cpus", "0"), &["such as 1.5"]),
            (&create("--cpus", "-1"), &["--help"]),
            (&create("--cpus", "nan"), &["such as 1.5"]),
            (&create("--cpus", "inf"), &["such as 1.5"]),
            (&create("--cpus", "1e400"), &["such as 1.5"]),
            (&create("--pids", "0"), &["--pids"]),
            (&create("--pids", "99999999999999999999999"), &["--pids"]),
            (&create("--disk", "0"), &["more than nothing"]),
            (&create("--disk", "99999999T"), &["larger than any machine"]),
        ],
    );
}

#[test]
fn limits_that_no_sandbox_can_live_in_are_refused_with_the_least_that_can() {
    let world = World::new();
    let create = |flag: &'static str, value: &'static str| {
        [
            "sandbox", "create", "--from", "host", "--name", "tiny", flag, value,
        ]
    };
    assert_all_say(
        &world,
        4,
        &[
            (&create("--memory", "1K"), &["at least 4M"]),
            (&create("--cpus", "0.001"), &["between 0.01 and"]),
            (&create("--pids", "1"), &["between 2 and"]),
            (&create("--pids", "99999999"), &["between 2 and", "4194304"]),
            (&create("--disk", "1"), &["at least 1M"]),
        ],
    );
}

#[test]
fn the_least_that_is_allowed_is_enough_to_run_a_command() {
    let world = World::new();
    let limits = [
        "--memory", "4M", "--pids", "2", "--cpus", "0.01", "--disk", "1M",
    ];
    let id = world.create(&limits);
    let ran = world
        .nacre
        .run(["sandbox", "exec", &id, "--", "/bin/echo", "hello"]);
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "hello"), "{ran:?}");
}

#[test]
fn variables_labels_and_ports_that_are_none_are_wrong_usage() {
    let world = World::new();
    let create = |flag: &'static str, value: &'static str| {
        ["sandbox", "create", "--from", "host", flag, value]
    };
    assert_all_say(
        &world,
        2,
        &[
            (&create("--env", "NOVALUE"), &["KEY=VALUE"]),
            (&create("--env", "=x"), &["KEY=VALUE"]),
            (&create("--label", "k"), &["KEY=VALUE"]),
            (&create("--label", "=v"), &["KEY=VALUE"]),
            (&create("--serve", "80"), &["PORT=HOST:PORT"]),
            (&create("--serve", "80=host"), &["PORT=HOST:PORT"]),
            (&create("--serve", "0=localhost:80"), &["PORT=HOST:PORT"]),
            (
                &create("--serve", "99999=localhost:80"),
                &["PORT=HOST:PORT"],
            ),
        ],
    );
}

#[test]
fn a_served_host_that_has_no_address_can_be_tried_again() {
    let world = World::new();
    let arguments = [
        "sandbox",
        "create",
        "--from",
        "host",
        "--serve",
        "80=no-such-host.invalid:80",
    ];
    assert_all_say(
        &world,
        5,
        &[(&arguments, &["no-such-host.invalid", "resolve"])],
    );
}

#[test]
fn a_removed_sandbox_is_gone_from_the_disk_when_the_command_ends() {
    let world = World::new();
    let traces = Traces::of(&world);
    let id = world.create(&[]);
    world.ok(&["sandbox", "rm", &id]);
    traces.assert_no_more(&world, "rm");
}

#[test]
fn what_ls_calls_a_sandbox_finds_it() {
    let world = World::new();
    world.create(&["--name", "shown"]);
    world.ok(&["sandbox", "stop", "shown"]);
    let listed = world.ok(&["sandbox", "ls", "--all"]);
    if let Some(name) = listed["sandboxes"][0]["name"].as_str() {
        world.ok(&["sandbox", "show", name]);
        world.ok(&["sandbox", "rm", name]);
    }
}
