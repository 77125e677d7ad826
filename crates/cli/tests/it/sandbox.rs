//! Sandboxes from their making to their end, as a user leads them through the command line.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::world::{World, text};

#[test]
fn a_sandbox_lives_is_copied_and_comes_back() {
    let world = World::new();
    let id = it_is_made_and_found(&world);
    files_go_in_and_out(&world);
    let snapshot = a_snapshot_has_a_receipt_and_then_a_digest(&world);
    let forks = a_fork_goes_its_own_way(&world);
    paused_it_refuses_and_resumed_it_goes_on(&world);
    let heirs = stopped_its_disk_is_a_snapshot_to_start_from(&world, &id);

    let mut rm = vec!["sandbox", "rm", &id];
    rm.extend(forks.iter().chain(&heirs).map(String::as_str));
    assert_eq!(world.ok(&rm)["removed"].as_array().map(Vec::len), Some(5));
    assert_eq!(
        world.ok(&["sandbox", "ls", "--all"])["sandboxes"],
        json!([])
    );
    assert_eq!(
        world.ok(&["snapshot", "rm", "half-way"])["removed"],
        json!([snapshot])
    );
}

fn it_is_made_and_found(world: &World) -> String {
    let created = world.ok(&[
        "sandbox", "create", "--from", "host", "--name", "story", "--label", "a=b", "--env",
        "WHO=me",
    ]);
    let id = text(&created["id"]);
    assert!(id.starts_with("sbx_"), "{created}");
    assert_eq!(created["name"], "story");
    assert_eq!(created["runtime"], "native");
    assert_eq!(created["isolation"], "shared-kernel");
    assert_eq!(created["generation"], 1);
    assert!(
        created["created_ms"].as_f64().is_some_and(|ms| ms > 0.0),
        "{created}"
    );

    assert_eq!(world.says("story", "echo hello from $WHO"), "hello from me");
    assert_eq!(
        world.ok(&["sandbox", "ls", "--label", "a=b"])["sandboxes"][0]["id"],
        id.as_str()
    );
    assert_eq!(
        world.ok(&["sandbox", "ls", "--label", "a=c"])["sandboxes"],
        json!([])
    );
    assert_eq!(world.ok(&["sandbox", "show", "story"])["id"], id.as_str());
    // The beginning of an id is enough when only one has it.
    assert_eq!(world.ok(&["sandbox", "show", &id[..20]])["id"], id.as_str());
    id
}

fn files_go_in_and_out(world: &World) {
    let home = |below: &str| world.nacre.path(below);
    fs_err::create_dir_all(home("in/sub")).unwrap();
    fs_err::write(home("in/sub/file"), "from the host").unwrap();
    fs_err::write(home("in/run"), "#!/bin/sh\necho ran").unwrap();
    fs_err::set_permissions(home("in/run"), std::fs::Permissions::from_mode(0o755)).unwrap();

    let copied = world.ok(&["sandbox", "cp", home("in").as_str(), "story:/srv/tree"]);
    assert_eq!(copied["files"], 2);
    assert_eq!(
        world.says("story", "cat /srv/tree/sub/file && /srv/tree/run"),
        "from the hostran"
    );
    world.ok(&["sandbox", "cp", home("in").as_str(), "story:/srv"]);
    assert_eq!(world.says("story", "cat /srv/in/sub/file"), "from the host");

    world.says(
        "story",
        "echo changed > /srv/tree/sub/file; ln -s /etc/passwd /srv/tree/link",
    );
    world.ok(&["sandbox", "cp", "story:/srv/tree", home("out").as_str()]);
    assert_eq!(
        fs_err::read_to_string(home("out/sub/file")).unwrap(),
        "changed\n"
    );
    assert!(
        fs_err::symlink_metadata(home("out/link"))
            .unwrap()
            .is_symlink()
    );
    world.ok(&[
        "sandbox",
        "cp",
        "story:/srv/tree/sub/file",
        home("out").as_str(),
    ]);
    assert_eq!(
        fs_err::read_to_string(home("out/file")).unwrap(),
        "changed\n"
    );
    assert_eq!(
        world
            .run(&["sandbox", "cp", "story:/srv/none", home("x").as_str()])
            .code,
        Some(3)
    );
    assert_eq!(
        world
            .run(&["sandbox", "cp", "/nowhere/at/all", "story:/srv"])
            .code,
        Some(3)
    );
}

fn a_snapshot_has_a_receipt_and_then_a_digest(world: &World) -> String {
    let taken = world.ok(&["sandbox", "snapshot", "story", "--name", "half-way"]);
    let snapshot = text(&taken["snapshot"]);
    for key in [
        "digest",
        "bytes",
        "files",
        "took_ms",
        "frozen_ms",
        "sync_ms",
        "sealed_ms",
    ] {
        assert!(taken.get(key).is_some(), "{key} is not in {taken}");
    }
    assert_eq!(taken["kept"], "disk");
    let shown = world.ok(&["snapshot", "show", "half-way", "--wait"]);
    assert_eq!(shown["id"], snapshot.as_str());
    assert!(
        shown["digest"].is_string() && shown["files"].is_u64(),
        "{shown}"
    );
    assert_eq!(world.ok(&["snapshot", "verify", "half-way"])["ok"], true);
    snapshot
}

fn a_fork_goes_its_own_way(world: &World) -> Vec<String> {
    let forked = world.ok(&["sandbox", "fork", "story", "-n", "2"]);
    let forks: Vec<String> = forked["sandboxes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fork| text(&fork["id"]))
        .collect();
    assert_eq!(forks.len(), 2);
    world.says(&forks[0], "echo fork > /srv/tree/sub/file");
    assert_eq!(world.says("story", "cat /srv/tree/sub/file"), "changed");
    assert_eq!(world.says(&forks[1], "cat /srv/tree/sub/file"), "changed");
    forks
}

fn paused_it_refuses_and_resumed_it_goes_on(world: &World) {
    world.ok(&[
        "sandbox", "exec", "story", "--detach", "--", "sleep", "4243",
    ]);
    assert_eq!(
        world.ok(&["sandbox", "pause", "story"])["snapshot"],
        Value::Null
    );
    assert_eq!(
        world.ok(&["sandbox", "show", "story"])["state"]["status"],
        "paused"
    );
    let refused = world.sh("story", "true");
    assert_eq!(refused.code, Some(4), "{}", refused.transcript());
    assert_eq!(world.ok(&["sandbox", "resume", "story"])["kept"], "memory");
    world.says("story", "grep -qsz '^4243$' /proc/[0-9]*/cmdline");
}

/// The sandboxes that were made of it.
fn stopped_its_disk_is_a_snapshot_to_start_from(world: &World, id: &str) -> Vec<String> {
    let last = text(&world.ok(&["sandbox", "stop", "story"])["snapshot"]);
    // Twice gives the same, and its id still finds it.
    assert_eq!(
        world.ok(&["sandbox", "stop", id])["snapshot"],
        last.as_str()
    );
    assert_eq!(
        world.ok(&["sandbox", "ls"])["sandboxes"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
    let mut heirs = Vec::new();
    for origin in [last.as_str(), "half-way"] {
        let heir = text(&world.ok(&["sandbox", "create", "--from", origin])["id"]);
        assert_eq!(world.says(&heir, "cat /srv/tree/sub/file"), "changed");
        heirs.push(heir);
    }
    heirs
}

#[test]
fn what_does_not_exist_ends_with_three_and_says_where_to_look() {
    let world = World::new();
    for arguments in [
        &["sandbox", "show", "nobody"][..],
        &["sandbox", "exec", "nobody", "--", "true"],
        &["sandbox", "pause", "nobody"],
        &["sandbox", "stop", "nobody"],
        &["sandbox", "rm", "nobody"],
        &["sandbox", "cp", "nobody:/etc/hosts", "/tmp/x"],
        &["snapshot", "show", "nothing"],
        &["snapshot", "rm", "nothing"],
        &["sandbox", "create", "--from", "nothing"],
        &["sandbox", "create", "--from", "base"],
        &["sandbox", "create", "--rootfs", "/nowhere"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, Some(3), "{arguments:?}: {}", ran.transcript());
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "not_found");
    }
    let ran = world.nacre.run(["sandbox", "show", "nobody"]);
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.contains("\nhint: `nacre sandbox ls"),
        "{}",
        ran.stderr
    );
}

#[test]
fn removing_goes_on_after_one_that_is_not_there() {
    let world = World::new();
    let id = world.create(&[]);
    let ran = world.run(&["sandbox", "rm", "nobody", &id]);
    assert_eq!(ran.code, Some(3));
    assert_eq!(ran.json()["removed"], json!([id]));
}

#[test]
fn a_name_is_taken_while_its_sandbox_lives() {
    let world = World::new();
    world.create(&["--name", "one"]);
    let ran = world.run(&["sandbox", "create", "--from", "host", "--name", "one"]);
    assert_eq!(ran.code, Some(4), "{}", ran.transcript());
}

#[test]
fn a_sandbox_without_a_server_says_how_to_get_a_shell() {
    let world = World::new();
    let id = world.create(&[]);
    if world.sh(&id, "test -e /usr/sbin/sshd").code == Some(0) {
        return;
    }
    let ran = world.nacre.run(["sandbox", "ssh", &id]);
    assert_eq!(ran.code, Some(3), "{}", ran.transcript());
    assert!(ran.stderr.contains("openssh-server"), "{}", ran.stderr);
}

#[test]
fn storage_adds_up_and_garbage_goes() {
    let world = World::new();
    world.create(&[]);
    let usage = world.ok(&["storage", "usage"]);
    assert_eq!(usage["sandboxes"]["count"], 1);
    assert!(world.ok(&["storage", "gc"])["layers"].is_u64());
}
