//! Snapshots out and in, as a user types it.

mod s3;

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{World, eventually, text};

/// A stopped sandbox's snapshot, with this in it.
fn snapshot(world: &World, script: &str) -> String {
    let id = world.create(&[]);
    world.says(&id, script);
    text(&world.ok(&["sandbox", "stop", &id])["snapshot"])
}

#[test]
fn a_snapshot_goes_out_as_a_file_and_in_again_elsewhere() {
    let (here, there) = (World::new(), World::new());
    let id = snapshot(&here, "echo grit > /root/seed");
    let file = here.nacre.path("pearl.nacre");
    let exported = here.ok(&["snapshot", "export", &id, file.as_str()]);
    assert_eq!(exported["snapshot"], id.as_str());
    assert!(exported["took_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    let imported = there.ok(&["snapshot", "import", file.as_str(), "--name", "pearl"]);
    assert_eq!(imported["digest"], exported["digest"]);
    assert_eq!(imported["name"], "pearl");
    let sandbox = there.ok(&["sandbox", "create", "--from", "pearl"]);
    assert_eq!(there.says(&text(&sandbox["id"]), "cat /root/seed"), "grit");
    assert_eq!(
        there.ok(&["snapshot", "verify", "--all"])["snapshots"][0]["ok"],
        true
    );
}

#[test]
fn a_directory_holds_several_and_says_which_it_has() {
    let (here, there) = (World::new(), World::new());
    let first = snapshot(&here, "echo 1 > /root/n");
    let second = snapshot(&here, "echo 2 > /root/n");
    let store = format!("{}/", here.nacre.path("store"));
    for id in [&first, &second, &second] {
        here.ok(&["snapshot", "export", id, &store]);
    }
    let ran = there.nacre.run(["snapshot", "import", &store]);
    assert_eq!(ran.code, Some(4), "{}", ran.transcript());
    assert!(ran.stderr.contains("--snapshot"), "{}", ran.stderr);
    let imported = there.ok(&["snapshot", "import", &store, "--snapshot", &second]);
    let sandbox = there.ok(&["sandbox", "create", "--from", &text(&imported["id"])]);
    assert_eq!(there.says(&text(&sandbox["id"]), "cat /root/n"), "2");
}

#[test]
fn what_cannot_be_exported_or_imported_says_why() {
    let world = World::new();
    let id = snapshot(&world, "true");
    let path = |name: &str| world.nacre.path(name).into_string();
    fs_err::write(path("there"), "x").unwrap();
    fs_err::write(path("garbage"), vec![7; 5000]).unwrap();
    fs_err::write(path("empty"), "").unwrap();
    fs_err::create_dir(path("nothing")).unwrap();
    let (there, garbage, empty) = (path("there"), path("garbage"), path("empty"));
    let (nothing, absent, below) = (path("nothing"), path("absent"), path("absent/x"));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["export", &id, &there], 4, "exists"),
        (&["export", &id, &below], 3, "does not exist"),
        (
            &["export", "snp_01m7ggvca8fddb40098rzzr4ct", &absent],
            3,
            "snapshot ls",
        ),
        (&["export", &id, ""], 2, "empty"),
        (&["export", &id, "s3:///x"], 2, "bucket"),
        (&["export", &id, &absent, "--level", "99"], 2, "--level"),
        (&["import", &garbage], 4, "not a snapshot"),
        (&["import", &empty], 4, "no index"),
        (&["import", &nothing], 4, "holds no snapshots"),
        (&["import", &absent], 3, "does not exist"),
        (
            &["import", &garbage, "--snapshot", "x"],
            2,
            "a file holds one",
        ),
        (&["verify"], 2, "required"),
        (&["verify", &id, "--all"], 2, "--all"),
    ];
    for (arguments, code, says) in cases {
        let ran = world
            .nacre
            .run(std::iter::once(&"snapshot").chain(*arguments));
        assert_eq!(ran.code, Some(*code), "{arguments:?}: {}", ran.transcript());
        assert!(
            ran.stderr.contains(says),
            "{arguments:?}: {}",
            ran.transcript()
        );
        assert!(!world.nacre.path("absent").exists());
    }
}

#[test]
fn a_flipped_bit_makes_verify_fail_and_is_named() {
    let world = World::new();
    let id = snapshot(&world, "echo mother of pearl > /root/shell");
    let shown = world.ok(&["snapshot", "show", &id, "--wait"]);
    let layer = text(&shown["layers"][0]);
    let file = world.nacre.path(&format!("layers/{layer}/fs/root/shell"));
    fs_err::write(&file, "mother og pearl\n").unwrap();
    let ran = world.nacre.run(["snapshot", "verify", "--all"]);
    assert_eq!(ran.code, Some(1), "{}", ran.transcript());
    assert!(
        ran.stdout
            .contains(&format!("layer {layer} changed: /root/shell")),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("1 of 1 snapshots"), "{ran:?}");
}

/// Ctrl-C in the middle of an export leaves no file, no intent and no other trace.
#[test]
fn an_interrupted_export_cleans_up() {
    let world = World::new();
    let id = snapshot(&world, "head -c 400M /dev/urandom > /root/large");
    world.ok(&["snapshot", "show", &id, "--wait"]);
    let files = world.nacre.path("files");
    fs_err::create_dir(&files).unwrap();
    let out = files.join("x.nacre");
    let mut child = world
        .nacre
        .command(["snapshot", "export", &id, out.as_str(), "--level", "19"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let intents = || {
        let names = world.nacre.path("intents").read_dir_utf8().unwrap();
        names
            .filter(|e| e.as_ref().unwrap().file_name().starts_with("export-"))
            .count()
    };
    eventually("it has begun", || intents() == 1);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(files.read_dir_utf8().unwrap().count(), 0);
    assert_eq!(intents(), 0);
}
