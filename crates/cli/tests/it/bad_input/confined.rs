//! Machines, or corners of them, that cannot run a sandbox: refused with the next step.

use camino::Utf8PathBuf;

use super::assert_says;
use super::traces::assert_untouched;
use crate::{Nacre, Ran};

/// As `nacre.run`, by way of a program that takes something away first.
pub(super) fn run_in(nacre: &Nacre, wrapper: &[&str], arguments: &[&str]) -> Ran {
    let inner = nacre.command(arguments);
    let mut outer = std::process::Command::new(wrapper[0]);
    outer.args(&wrapper[1..]).arg(inner.get_program());
    outer.args(inner.get_args()).env_clear();
    for (name, value) in inner.get_envs() {
        outer.env(name, value.unwrap());
    }
    outer.stdin(std::process::Stdio::null());
    Ran::from(outer.output().unwrap(), nacre.home.path())
}

const CREATE: [&str; 4] = ["sandbox", "create", "--from", "host"];

#[test]
fn somebody_who_is_not_root_is_told_so() {
    let nacre = Nacre::new();
    // They own their home; it is not the directory that is in the way.
    std::os::unix::fs::chown(nacre.home.path(), Some(65_534), Some(65_534)).unwrap();
    let ran = run_in(&nacre, &NOBODY, &CREATE);
    assert_says(&ran, 4, &["root", "sudo"]);
    assert_untouched(nacre.home.path());
}

pub(super) const NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

#[test]
fn a_home_of_somebody_else_is_told_as_such() {
    let nacre = Nacre::new();
    let ran = run_in(&nacre, &NOBODY, &CREATE);
    assert_says(&ran, 4, &["[home]", "sudo"]);
}

#[test]
fn root_without_its_power_is_sent_to_the_doctor() {
    let nacre = Nacre::new();
    let wrapper = ["setpriv", "--bounding-set", "-sys_admin"];
    let ran = run_in(&nacre, &wrapper, &CREATE);
    assert_says(&ran, 4, &["nacre doctor"]);
    assert_untouched(nacre.home.path());
}

#[test]
fn root_of_a_user_namespace_is_sent_to_the_doctor() {
    let nacre = Nacre::new();
    let wrapper = ["unshare", "--user", "--map-root-user"];
    let ran = run_in(&nacre, &wrapper, &CREATE);
    assert_says(&ran, 4, &["nacre doctor"]);
    assert_untouched(nacre.home.path());
}

#[test]
fn without_a_cgroup_hierarchy_the_doctor_can_put_it_right() {
    let nacre = Nacre::new();
    let unmount = "umount -a -l -t cgroup2 && exec \"$@\"";
    let ran = run_in(&nacre, &private(unmount), &CREATE);
    assert_says(&ran, 4, &["cgroup", "nacre doctor --fix"]);
    assert_untouched(nacre.home.path());
}

/// A shell in a mount namespace of its own.
pub(super) fn private(script: &str) -> [&str; 8] {
    [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
    ]
}

#[test]
fn a_home_from_which_nothing_can_be_started_is_named() {
    let nacre = Nacre::new();
    let home: Utf8PathBuf = nacre.home.path().to_owned();
    let script =
        format!("mount --bind {home} {home} && mount -o remount,bind,noexec {home} && exec \"$@\"");
    let ran = run_in(&nacre, &private(&script), &CREATE);
    assert_says(&ran, 4, &["noexec"]);
    assert_untouched(nacre.home.path());
}
