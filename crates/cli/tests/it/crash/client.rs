//! `kill -9` of nacre while it carries a command or files, or imports a root file system.

use std::process::Command;
use std::time::{Duration, Instant};

use camino::Utf8Path;

use super::chance::Chance;
use super::process::within;
use super::stage::{PATIENCE, Stage};

const SEED: u64 = 2;
/// How many of the kills must have come in the middle.
const INTERRUPTED: usize = 6;
const MOST_ATTEMPTS: usize = 60;

#[test]
fn a_command_whose_client_is_killed_dies_with_all_it_started() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let beats = stage.pulse(&id).unwrap();
    // A child, and a daemon with a session of its own whose parent is gone.
    let script = "setsid sh -c 'sleep 47110 & sleep 47111 &' & sleep 47112";
    let mut nacre = stage.spawn(None, &["sandbox", "exec", &id, "--", "sh", "-c", script]);
    let commands = || -> usize {
        let sleeps = stage.commands(&id);
        sleeps
            .iter()
            .filter(|command| command.starts_with("sleep 4711"))
            .count()
    };
    within("all of them run", PATIENCE, || commands() == 3);
    nacre.kill().unwrap();
    nacre.wait().unwrap();
    within("all of them are dead", PATIENCE, || commands() == 0);
    // What was started to stay is not theirs.
    stage.beats_on(&id, beats);
    stage.is_sound("after the client's end");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn a_copy_into_a_sandbox_that_is_killed_leaves_no_part_of_a_file_under_its_name() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let source = large_file(&stage);
    stage.says(&id, "mkdir /srv/in");
    let interrupted = interrupt(Duration::from_millis(60), |attempt, delay| {
        let place = format!("{id}:/srv/in/{attempt}");
        let whole = killed_after(&stage, &["sandbox", "cp", source.as_str(), &place], delay);
        // The runner tidies up what its client left.
        within("only whole files are left", PATIENCE, || {
            let sizes = stage.says(
                &id,
                "cd /srv/in && ls -A | while read f; do stat -c '%n %s' $f || true; done",
            );
            sizes
                .lines()
                .all(|line| line.ends_with(" 67108864") && !line.starts_with('.'))
        });
        if whole {
            stage.says(&id, &format!("test -e /srv/in/{attempt}"));
        }
        stage.says(&id, "rm -f /srv/in/*");
        whole
    });
    assert!(interrupted, "every copy was over before it was killed");
    stage.is_sound("after the copies");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn a_copy_out_of_a_sandbox_that_is_killed_leaves_no_part_of_a_file_under_its_name() {
    let stage = Stage::new();
    let id = stage.victim(None);
    let source = large_file(&stage);
    stage.ok(&[
        "sandbox",
        "cp",
        source.as_str(),
        &format!("{id}:/srv/large"),
    ]);
    let content = fs_err::read(&source).unwrap();
    fs_err::create_dir(stage.home("out")).unwrap();
    let interrupted = interrupt(Duration::from_millis(60), |attempt, delay| {
        let place = stage.home(&format!("out/{attempt}"));
        let whole = killed_after(
            &stage,
            &["sandbox", "cp", &format!("{id}:/srv/large"), place.as_str()],
            delay,
        );
        match fs_err::read(&place) {
            Ok(found) => assert!(found == content, "a part under the file's name"),
            Err(_) => assert!(!whole, "copied, and not there"),
        }
        whole
    });
    assert!(interrupted, "every copy was over before it was killed");
    stage.is_sound("after the copies");
    stage.is_usable_to_the_end(&id);
}

#[test]
fn an_import_that_is_killed_leaves_no_half_layer() {
    let stage = Stage::new();
    let tar = large_tar(&stage);
    let create = [
        "sandbox",
        "create",
        "--rootfs",
        tar.as_str(),
        "--name",
        "imported",
    ];
    let interrupted = interrupt(Duration::from_millis(200), |_, delay| {
        let whole = killed_after(&stage, &create, delay);
        let found = stage
            .restart()
            .iter()
            .any(|sandbox| sandbox["name"] == "imported");
        assert!(found || !whole, "made, and not there");
        stage.is_sound("after a killed import");
        if found {
            stage.ok(&["sandbox", "rm", "imported"]);
        }
        // Each attempt imports anew.
        let modified = std::process::Command::new("touch")
            .arg(&tar)
            .status()
            .unwrap();
        assert!(modified.success());
        whole
    });
    assert!(interrupted, "every import was over before it was killed");
    stage.ok(&create);
    let out = stage.home("out");
    stage.ok(&["sandbox", "cp", "imported:/data/7", out.as_str()]);
    assert!(fs_err::read(out).unwrap() == fs_err::read(stage.home("rootfs/data/7")).unwrap());
    stage.is_sound("after the last import");
}

/// Tries, with delays by chance, until enough attempts were cut short. Each says whether it ended
/// by itself.
fn interrupt(most: Duration, mut attempt: impl FnMut(usize, Duration) -> bool) -> bool {
    let mut chance = Chance::new(SEED);
    let mut interrupted = 0;
    for number in 0..MOST_ATTEMPTS {
        interrupted += usize::from(!attempt(number, chance.at_most(most)));
        if interrupted == INTERRUPTED {
            return true;
        }
    }
    false
}

/// Whether it ended well before it was killed.
fn killed_after(stage: &Stage, arguments: &[&str], delay: Duration) -> bool {
    let begun = Instant::now();
    let mut nacre = stage.spawn(None, arguments);
    while begun.elapsed() < delay {
        if let Some(status) = nacre.try_wait().unwrap() {
            return status.success();
        }
        std::thread::yield_now();
    }
    nacre.kill().unwrap();
    nacre.wait().unwrap().success()
}

fn large_file(stage: &Stage) -> camino::Utf8PathBuf {
    let path = stage.home("large");
    fill(&path, 64 << 20);
    path
}

fn fill(path: &Utf8Path, length: u64) {
    let file = fs_err::File::create(path).unwrap();
    let mut random = std::io::Read::take(fs_err::File::open("/dev/urandom").unwrap(), length);
    std::io::copy(&mut random, &mut { file }).unwrap();
}

/// Fifty files of a megabyte, and what a root file system needs.
fn large_tar(stage: &Stage) -> camino::Utf8PathBuf {
    let root = stage.home("rootfs");
    for name in ["data", "proc", "sys", "dev", "run", "tmp", "etc"] {
        fs_err::create_dir_all(root.join(name)).unwrap();
    }
    for name in ["hostname", "hosts", "machine-id", "resolv.conf"] {
        fs_err::write(root.join("etc").join(name), "").unwrap();
    }
    for number in 0..50 {
        fill(&root.join(format!("data/{number}")), 1 << 20);
    }
    let tar = stage.home("rootfs.tar");
    let made = Command::new("tar")
        .args(["-C", root.as_str(), "-cf", tar.as_str(), "."])
        .status();
    assert!(made.unwrap().success());
    tar
}
