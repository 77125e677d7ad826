//! Root file systems that are none, or that try something.

use std::process::{Command, Stdio};

use camino::Utf8PathBuf;

use super::tar::Tar;
use super::{Traces, assert_says};
use crate::world::{World, text};

#[test]
fn an_archive_that_reaches_outside_itself_is_refused_whole() {
    let world = World::new();
    let victim = world.nacre.path("victim");
    fs_err::create_dir(&victim).unwrap();
    let traces = Traces::of(&world);
    let out = "../".repeat(20);
    for (archive, says) in [
        (Tar::new().file("ok", "").file("../x", ""), "leads out"),
        (Tar::new().file(&format!("{victim}/x"), ""), "absolute path"),
        (
            Tar::new()
                .symbolic_link("etc", victim.as_str())
                .file("etc/x", ""),
            "symbolic link",
        ),
        (
            Tar::new()
                .symbolic_link("etc", &format!("{out}{victim}"))
                .file("etc/x", ""),
            "symbolic link",
        ),
        (Tar::new().hard_link("x", "/etc/passwd"), "absolute path"),
        (
            Tar::new().hard_link("x", &format!("{out}etc/passwd")),
            "leads out",
        ),
        (
            Tar::new()
                .symbolic_link("l", "/etc")
                .hard_link("x", "l/passwd"),
            "symbolic link",
        ),
    ] {
        let path = saved(&world, &archive.bytes());
        let ran = world
            .nacre
            .run(["sandbox", "create", "--rootfs", path.as_str()]);
        assert_says(&ran, 4, &["[home]/rootfs.tar cannot be used", says]);
        traces.assert_no_more(&world, says);
    }
    assert_eq!(victim.read_dir_utf8().unwrap().count(), 0);
}

#[test]
fn an_archive_that_contradicts_itself_is_refused() {
    let world = World::new();
    let traces = Traces::of(&world);
    for (archive, says) in [
        (Tar::new(), "is empty"),
        (Tar::new().device("null"), "is empty"),
        (
            Tar::new()
                .directory("etc")
                .file("etc/x", "")
                .file("etc", ""),
            "place of a directory",
        ),
        (Tar::new().file("etc", "").file("etc/x", ""), "`etc`"),
        (Tar::new().file(&"d/".repeat(3000), ""), "is no path"),
        (Tar::new().file(&"n".repeat(300), ""), "too long"),
        (Tar::new().hard_link("x", "not-there"), "not-there"),
    ] {
        let path = saved(&world, &archive.bytes());
        let ran = world
            .nacre
            .run(["sandbox", "create", "--rootfs", path.as_str()]);
        assert_says(&ran, 4, &["[home]/rootfs.tar", says]);
        traces.assert_no_more(&world, says);
    }
}

#[test]
fn what_is_no_archive_is_refused_in_one_line() {
    let world = World::new();
    let traces = Traces::of(&world);
    let whole = Tar::new().file("file", &"content ".repeat(9999)).bytes();
    let packed = gzip(&whole);
    for (what, bytes) in [
        ("half a tar", whole[..whole.len() / 2].to_vec()),
        ("half a gzip", packed[..packed.len() / 2].to_vec()),
        ("the beginning of a gzip", vec![0x1f, 0x8b, 8, 0, 0, 0]),
        ("nothing", Vec::new()),
        ("text", "hello\n".repeat(1000).into_bytes()),
        ("noise", (0..9000u32).map(|n| (n * n % 251) as u8).collect()),
    ] {
        let path = saved(&world, &bytes);
        let ran = world
            .nacre
            .run(["sandbox", "create", "--rootfs", path.as_str()]);
        assert_says(&ran, 4, &["[home]/rootfs.tar"]);
        let first = ran.stderr.lines().next().unwrap();
        assert!(
            ran.stderr.lines().count() <= 2 && first.chars().count() < 300,
            "{what}: its own content is in the message: {}",
            ran.stderr
        );
        traces.assert_no_more(&world, what);
    }
}

#[test]
fn what_is_neither_a_directory_nor_a_file_is_refused() {
    let world = World::new();
    let traces = Traces::of(&world);
    let empty = world.nacre.path("empty");
    fs_err::create_dir(&empty).unwrap();
    for (path, code, says) in [
        ("/nowhere/at/all", 3, "/nowhere/at/all"),
        ("/dev/null", 4, "neither a directory nor a tar"),
        ("/", 4, "--from host"),
        (empty.as_str(), 4, "is empty"),
    ] {
        let ran = world.nacre.run(["sandbox", "create", "--rootfs", path]);
        assert_says(&ran, code, &[says]);
        traces.assert_no_more(&world, path);
    }
}

/// A sandbox needs these as directories; where something else is, trying again does not help.
#[test]
fn a_file_or_link_in_the_place_of_a_directory_that_a_sandbox_needs_is_refused() {
    let world = World::new();
    for (archive, place) in [
        (Tar::new().file("proc", ""), "proc"),
        (Tar::new().symbolic_link("run", "/tmp"), "run"),
        (Tar::new().symbolic_link("dev", "/tmp"), "dev"),
    ] {
        let path = saved(&world, &archive.bytes());
        let ran = world
            .nacre
            .run(["sandbox", "create", "--rootfs", path.as_str()]);
        assert_says(&ran, 4, &[place]);
        let left = world.ok(&["sandbox", "ls", "--all"]);
        assert_eq!(left["sandboxes"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn device_nodes_of_an_archive_are_not_made() {
    let world = World::new();
    let archive = Tar::new().file("file", "").device("null").device("dev/mem");
    let path = saved(&world, &archive.bytes());
    let created = world.ok(&["sandbox", "create", "--rootfs", path.as_str()]);
    let layer = world.nacre.path("layers").read_dir_utf8().unwrap();
    let files = layer.flatten().next().unwrap().path().join("fs");
    assert!(files.join("file").exists());
    assert!(!files.join("null").exists() && !files.join("dev/mem").exists());
    world.ok(&["sandbox", "rm", &text(&created["id"])]);
}

#[test]
fn an_archive_larger_than_the_disk_is_refused_before_it_fills_it() {
    let world = World::new();
    let traces = Traces::of(&world);
    let half_a_tebibyte = 1 << 39;
    let path = saved(&world, &Tar::new().promise("bomb", half_a_tebibyte).bytes());
    let ran = world
        .nacre
        .run(["sandbox", "create", "--rootfs", path.as_str()]);
    assert_says(&ran, 4, &["[home]/rootfs.tar"]);
    traces.assert_no_more(&world, "the bomb");
}

fn saved(world: &World, bytes: &[u8]) -> Utf8PathBuf {
    let path = world.nacre.path("rootfs.tar");
    fs_err::write(&path, bytes).unwrap();
    path
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = gzip.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut input, bytes).unwrap());
        gzip.wait_with_output().unwrap().stdout
    })
}
