use super::assert_says;
use super::confined::{NOBODY, private, run_in};
use super::traces::assert_untouched;
use crate::Nacre;

#[test]
fn the_doctor_finds_this_machine_fit_and_leaves_it_as_it_was() {
    let nacre = Nacre::new();
    let ran = nacre.run(["--json", "doctor"]);
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let said = ran.json();
    assert_eq!(said["ok"], true);
    let findings = said["findings"].as_array().unwrap();
    let trial = findings.iter().find(|f| f["name"] == "a sandbox").unwrap();
    assert_eq!(trial["status"], "ok", "{trial}");
    for finding in findings {
        assert!(finding["found"].is_string(), "{finding}");
        assert_eq!(
            finding["advice"].is_string(),
            finding["status"] == "warning",
            "{finding}"
        );
    }
    assert_untouched(nacre.home.path());
    assert_eq!(nacre.home.path().read_dir_utf8().unwrap().count(), 0);
}

#[test]
fn for_people_the_last_line_is_the_verdict() {
    let ran = Nacre::new().run(["doctor"]);
    assert!(ran.stdout.contains("✓ root"), "{}", ran.stdout);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("sandboxes can run here"), "{last}");
}

#[test]
fn the_doctor_tells_anyone_what_is_missing_and_mends_only_for_root() {
    let nacre = Nacre::new();
    std::os::unix::fs::chown(nacre.home.path(), Some(65_534), Some(65_534)).unwrap();
    let looked = run_in(&nacre, &NOBODY, &["doctor"]);
    assert_eq!(looked.code, Some(1), "{}", looked.transcript());
    assert!(looked.stdout.contains("✗ root"), "{}", looked.stdout);
    assert!(looked.stdout.contains("1 thing is missing"), "{looked:?}");
    let mended = run_in(&nacre, &NOBODY, &["doctor", "--fix"]);
    assert_says(&mended, 4, &["root", "sudo nacre doctor --fix"]);
}

#[test]
fn what_a_killed_doctor_left_is_removed_by_the_next() {
    for place in ["create.claimed", "keeper.cloned", "create.running"] {
        let nacre = Nacre::new().with("NACRE_FAILPOINT", place);
        nacre.run(["doctor"]);
        let mut again = nacre.command(["--json", "doctor"]);
        let again = again.env_remove("NACRE_FAILPOINT").output().unwrap();
        assert!(again.status.success(), "{place}: {again:?}");
        let left: Vec<_> = nacre.home.path().read_dir_utf8().unwrap().collect();
        assert!(left.is_empty(), "{place}: {left:?}");
        assert_untouched(nacre.home.path());
    }
}

#[test]
fn the_doctor_mounts_the_hierarchy_that_is_missing() {
    let nacre = Nacre::new();
    let unmounted = private("umount -a -l -t cgroup2 && exec \"$@\"");
    let looked = run_in(&nacre, &unmounted, &["--json", "doctor"]);
    assert_eq!(looked.code, Some(1), "{}", looked.transcript());
    assert_eq!(looked.json()["ok"], false);
    // The mount goes with its namespace.
    let mended = run_in(&nacre, &unmounted, &["--json", "doctor", "--fix"]);
    assert_eq!(mended.code, Some(0), "{}", mended.transcript());
    let fixed = mended.json()["fixed"].clone();
    assert!(
        fixed.as_array().unwrap().iter().any(|n| n == "cgroups"),
        "{fixed}"
    );
}
