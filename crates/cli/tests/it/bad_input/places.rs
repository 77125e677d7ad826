//! Homes that cannot be written, or can until they are full.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::archives::gzip;
use super::assert_says;
use super::confined::{private, run_in};
use super::tar::Tar;
use super::traces::assert_untouched;
use crate::{Nacre, Ran};

const CREATE: [&str; 4] = ["sandbox", "create", "--from", "host"];

#[test]
fn a_home_that_is_a_file_is_refused() {
    let nacre = Nacre::new();
    let file = nacre.path("file");
    fs_err::write(&file, "mine").unwrap();
    for below in ["", "/below"] {
        let mut command = nacre.command(["sandbox", "ls"]);
        let output = command
            .env("NACRE_HOME", format!("{file}{below}"))
            .output()
            .unwrap();
        let ran = Ran::from(output, nacre.home.path());
        assert_says(&ran, 4, &["[home]/file", "NACRE_HOME"]);
    }
    assert_eq!(fs_err::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_relative_home_is_below_the_current_directory() {
    let nacre = Nacre::new();
    let mut command = nacre.command(["sandbox", "ls"]);
    command.env("NACRE_HOME", "re/lative");
    let output = command.current_dir(nacre.home.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(nacre.path("re/lative/sandboxes").is_dir());
}

#[test]
fn a_home_on_a_read_only_file_system_is_refused() {
    let nacre = Nacre::new();
    let home = nacre.home.path();
    let mount = format!("mount -t tmpfs -o ro none {home} && exec \"$@\"");
    let ran = run_in(&nacre, &private(&mount), &CREATE);
    assert_says(&ran, 4, &["[home]", "read-only", "NACRE_HOME"]);
    assert_untouched(home);
}

#[test]
fn a_home_that_becomes_read_only_can_still_be_looked_at() {
    let nacre = Nacre::new();
    assert_eq!(nacre.run(["sandbox", "ls"]).code, Some(0));
    let home = nacre.home.path();
    let mount =
        format!("mount --bind {home} {home} && mount -o remount,bind,ro {home} && exec \"$@\"");
    let looked = run_in(&nacre, &private(&mount), &["sandbox", "ls", "--all"]);
    assert_eq!(looked.code, Some(0), "{}", looked.transcript());
    let ran = run_in(&nacre, &private(&mount), &CREATE);
    assert_says(&ran, 4, &["read-only", "NACRE_HOME"]);
    assert_untouched(home);
}

#[test]
fn a_home_on_another_file_system_than_the_hosts_runs_the_hosts_programs() {
    let disk = Disk::of("256M");
    let ran = disk.nacre(&[&CREATE[..], &["--name", "other"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let ran = disk.nacre(&["sandbox", "exec", "other", "--", "/bin/true"]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
}

#[test]
fn on_a_full_disk_every_refusal_says_so_and_removing_still_works() {
    let disk = Disk::of("160M");
    let ran = disk.nacre(&[&CREATE[..], &["--name", "hog"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let fill = "for i in 1 2 3; do cat /dev/zero > /root/fill$i; sync; done 2>/dev/null; true";
    let ran = disk.nacre(&["sandbox", "exec", "hog", "--", "sh", "-c", fill]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    // A new sandbox takes a few blocks; sooner or later they are not there.
    let refused = (0..400)
        .map(|_| disk.nacre(&CREATE))
        .find(|ran| ran.code != Some(0))
        .expect("a full disk takes no more sandboxes");
    assert_says(&refused, 4, &["the disk is full"]);

    let before = disk.left();
    for arguments in [
        &["sandbox", "snapshot", "hog"][..],
        &["sandbox", "fork", "hog"],
    ] {
        assert_says(&disk.nacre(arguments), 4, &["the disk is full"]);
        assert_eq!(disk.left(), before, "{arguments:?}");
    }
    for arguments in [
        &["sandbox", "exec", "hog", "--", "/bin/true"][..],
        &["sandbox", "ls", "--all"],
        &["storage", "usage"],
        &["storage", "gc"],
    ] {
        let ran = disk.nacre(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.transcript());
    }
    let ran = disk.nacre(&["sandbox", "rm", "hog"]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    // What it held is free when the command ends, not when the next one begins.
    let ran = disk.nacre(&[&CREATE[..], &["--name", "next"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
}

#[test]
fn a_sandbox_that_filled_the_disk_keeps_it_when_it_is_stopped() {
    let disk = Disk::of("160M");
    let ran = disk.nacre(&[&CREATE[..], &["--name", "hog"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let fill = "echo work > /root/work; sync; for i in 1 2 3; do cat /dev/zero > /root/fill$i; sync; done 2>/dev/null; true";
    disk.nacre(&["sandbox", "exec", "hog", "--", "sh", "-c", fill]);
    let stopped = disk.nacre(&["--json", "sandbox", "stop", "hog"]);
    // A stop moves and does not copy. If the record itself does not fit, it may refuse, and the
    // sandbox must still be there to be asked again.
    if stopped.code == Some(0) {
        let kept = disk.nacre(&["snapshot", "ls"]);
        let snapshot = stopped.json()["snapshot"].as_str().unwrap().to_owned();
        assert!(kept.stdout.contains(&snapshot), "{}", kept.transcript());
    } else {
        assert_says(&stopped, 4, &["the disk is full"]);
        let shown = disk.nacre(&["sandbox", "show", "hog"]);
        assert_eq!(shown.code, Some(0), "{}", shown.transcript());
    }
}

#[test]
fn a_disk_is_filled_with_sandboxes_until_one_is_refused_and_those_before_live() {
    let disk = Disk::of("160M");
    let mut made = Vec::new();
    let refused = loop {
        assert!(made.len() < 40, "40 disks of 32M fit into 160M");
        let name = format!("n{}", made.len());
        let ran = disk.nacre(&[&CREATE[..], &["--name", &name]].concat());
        if ran.code != Some(0) {
            break ran;
        }
        let fill = "head -c 32M /dev/zero > /root/fill && sync";
        disk.nacre(&["sandbox", "exec", &name, "--", "sh", "-c", fill]);
        made.push(name);
    };
    assert_says(&refused, 4, &["the disk is full"]);
    for name in &made {
        let ran = disk.nacre(&["sandbox", "exec", name, "--", "/bin/true"]);
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
        let ran = disk.nacre(&["sandbox", "rm", name]);
        assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    }
}

#[test]
fn a_bomb_of_zeroes_leaves_the_disk_as_it_found_it() {
    let disk = Disk::of("160M");
    assert_eq!(disk.nacre(&["sandbox", "ls"]).code, Some(0));
    let (before, free) = (disk.left(), disk.free());
    let mebibyte = "\0".repeat(1 << 20);
    let bomb = (0..200).fold(Tar::new(), |tar, n| {
        tar.file(&format!("zeroes{n}"), &mebibyte)
    });
    let path = disk.image.path().join("bomb.tar.gz");
    fs_err::write(&path, gzip(&bomb.bytes())).unwrap();
    let ran = disk.nacre(&["sandbox", "create", "--rootfs", path.as_str()]);
    assert_says(&ran, 4, &["bomb.tar.gz", "the disk is full"]);
    assert_eq!(disk.left(), before);
    assert!(
        disk.free().abs_diff(free) < 1 << 20,
        "{} of {free}",
        disk.free()
    );
}

/// A home on a small disk of its own, mounted where nobody else sees it.
struct Disk {
    nacre: Nacre,
    holder: Child,
    // Dropped last: the image lies in it.
    image: camino_tempfile::Utf8TempDir,
}

impl Disk {
    fn of(size: &str) -> Self {
        let nacre = Nacre::new();
        let image = camino_tempfile::tempdir().unwrap();
        let file = image.path().join("disk");
        let home = nacre.home.path();
        // The holder reads its input, which ends with us; the mount and its loop device end with
        // the last process of the namespace.
        let script = format!(
            "truncate -s {size} {file} && mkfs.ext4 -q -m 0 {file} && mount -o loop {file} {home} && echo mounted && exec cat"
        );
        let shell = private(&script);
        let mut holder = Command::new(shell[0])
            .args(&shell[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = holder.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n");
        Self {
            nacre,
            holder,
            image,
        }
    }

    fn nacre(&self, arguments: &[&str]) -> Ran {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.holder.id());
        run_in(&self.nacre, &["nsenter", &namespace], arguments)
    }

    /// The home, as seen from here.
    fn home(&self) -> camino::Utf8PathBuf {
        format!("/proc/{}/root{}", self.holder.id(), self.nacre.home.path()).into()
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.home().as_std_path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// What is in the home now.
    fn left(&self) -> Vec<String> {
        let home = self.home();
        let mut all = Vec::new();
        for name in ["sandboxes", "layers", "intents", "ranges", "names", "trash"] {
            let directory = home.join(name);
            for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
                all.push(format!("{name}/{}", entry.file_name()));
            }
        }
        all.sort();
        all
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let listed = self.nacre(&["--json", "sandbox", "ls", "--all"]);
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        for sandbox in listed["sandboxes"].as_array().into_iter().flatten() {
            if let Some(id) = sandbox["id"].as_str() {
                self.nacre(&["sandbox", "rm", id]);
            }
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
