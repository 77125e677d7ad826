//! A home with a base in it, built by the first test that wants it and kept for the next run: it
//! takes a minute, Debian's mirrors, `PyPI` and npm.

use std::cell::RefCell;

use camino::Utf8PathBuf;
use fs_err::File;
use model::SnapshotId;

use crate::world::text;
use crate::{Nacre, Ran};

pub(crate) struct Based {
    pub(crate) nacre: Nacre,
    /// Of the same home another test may build another one, and that is named `base` then.
    pub(crate) base: SnapshotId,
    made: RefCell<Vec<String>>,
}

impl Based {
    /// `None` where there is nothing to build from; that is said.
    pub(crate) fn slim() -> Option<Self> {
        Self::built("--slim")
    }

    /// With everything that people look at, and services. It takes some minutes more.
    pub(crate) fn with_parts() -> Option<Self> {
        Self::built("--with=desktop,editor,services")
    }

    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    fn built(flavour: &str) -> Option<Self> {
        let home = Utf8PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("based");
        fs_err::create_dir_all(&home).unwrap();
        let nacre = Nacre::at(home.clone());
        let lock = File::create(home.join(format!("test{flavour}.lock"))).unwrap();
        lock.file().lock().unwrap();
        let built = nacre.run(["--json", "base", "build", flavour]);
        drop(lock);
        if built.code == Some(5) && is_out_of_reach(&built.stderr) {
            eprintln!(
                "skipped: what a base is built from cannot be reached: {}",
                built.stderr
            );
            return None;
        }
        assert_eq!(built.code, Some(0), "{}", built.transcript());
        Some(Self {
            base: text(&built.json()["id"]).parse().unwrap(),
            nacre,
            made: RefCell::default(),
        })
    }

    /// It goes with the test, however that ends.
    pub(crate) fn goes_with_us(&self, id: &str) {
        self.made.borrow_mut().push(id.to_owned());
    }

    pub(crate) fn create(&self, arguments: &[&str]) -> String {
        let base = self.base.to_string();
        let all = [&["--json", "sandbox", "create", "--from", &base], arguments].concat();
        let created = self.nacre.run(&all);
        assert_eq!(created.code, Some(0), "{}", created.transcript());
        let id = text(&created.json()["id"]);
        self.made.borrow_mut().push(id.clone());
        id
    }

    /// As `user`, in a shell as a person would have it.
    pub(crate) fn user(&self, id: &str, script: &str) -> Ran {
        self.nacre.run([
            "sandbox", "exec", id, "--user", "user", "--", "bash", "-lc", script,
        ])
    }

    pub(crate) fn user_says(&self, id: &str, script: &str) -> String {
        let ran = self.user(id, script);
        assert_eq!(ran.code, Some(0), "{script}: {}", ran.transcript());
        ran.stdout.trim_end().to_owned()
    }
}

/// Of a mirror or an index, by what apt, pip and npm say.
fn is_out_of_reach(words: &str) -> bool {
    [
        "unable to download",
        "Failed to fetch",
        "Temporary failure",
        "Could not resolve",
        "ENOTFOUND",
        "ECONNREFUSED",
        "No matching distribution",
    ]
    .iter()
    .any(|sign| words.contains(sign))
}

impl Drop for Based {
    fn drop(&mut self) {
        let made = self.made.take();
        let all = self.nacre.run(["--json", "sandbox", "ls", "--all"]);
        let all: serde_json::Value = serde_json::from_str(&all.stdout).unwrap_or_default();
        let left = all["sandboxes"].as_array().into_iter().flatten();
        let left: Vec<&str> = left
            .filter_map(|sandbox| sandbox["id"].as_str())
            .filter(|id| made.iter().any(|made| made == id))
            .collect();
        if left.is_empty() {
            return;
        }
        let removed = self
            .nacre
            .run([&["sandbox", "rm"], left.as_slice()].concat());
        assert!(
            removed.code == Some(0) || std::thread::panicking(),
            "sandboxes stay behind: {}",
            removed.transcript()
        );
    }
}
