use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Nacre, Ran};

/// A home whose sandboxes end with the test, however it ends.
pub(crate) struct World {
    pub(crate) nacre: Nacre,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            nacre: Nacre::new(),
        }
    }

    pub(crate) fn ok(&self, arguments: &[&str]) -> Value {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.transcript());
        ran.json()
    }

    /// With `--json`, before the `--` that a command's own arguments follow.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.nacre
            .run(std::iter::once("--json").chain(arguments.iter().copied()))
    }

    pub(crate) fn create(&self, arguments: &[&str]) -> String {
        let created = self.ok(&[&["sandbox", "create", "--from", "host"], arguments].concat());
        text(&created["id"])
    }

    pub(crate) fn sh(&self, id: &str, script: &str) -> Ran {
        self.nacre
            .run(["sandbox", "exec", id, "--", "sh", "-c", script])
    }

    /// What a script in the sandbox prints.
    pub(crate) fn says(&self, id: &str, script: &str) -> String {
        let ran = self.sh(id, script);
        assert_eq!(ran.code, Some(0), "{script}: {}", ran.transcript());
        ran.stdout.trim_end().to_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let all = self.run(&["sandbox", "ls", "--all"]);
        let listed: Value = serde_json::from_str(&all.stdout).unwrap_or_default();
        let ids: Vec<&str> = listed["sandboxes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|sandbox| sandbox["id"].as_str())
            .collect();
        if !ids.is_empty() {
            let removed = self.run(&[&["sandbox", "rm"], ids.as_slice()].concat());
            assert!(
                removed.code == Some(0) || std::thread::panicking(),
                "sandboxes stay behind: {}",
                removed.transcript()
            );
        }
        // A digest that is still being computed may make a file while we remove.
        let begun = Instant::now();
        let home = self.nacre.home.path();
        // A store in a file of its own was mounted by the commands above.
        if home.join("store.btrfs").exists() {
            let _ = std::process::Command::new("umount")
                .arg(home.join("store"))
                .status();
        }
        while std::fs::remove_dir_all(home).is_err() && home.exists() {
            if begun.elapsed() > Duration::from_secs(5) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends the process with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not within 20 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
