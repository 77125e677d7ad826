//! What somebody let through after the sandbox was made: a file that nacre replaces and we read.
//!
//! It is looked at when the list alone would refuse. So it needs no message that could be lost, holds
//! whoever of keeper, proxy and nacre was killed meanwhile, and costs nothing where it is not used.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::{Clock, Timestamp};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, openat, renameat, unlinkat};
use serde::{Deserialize, Serialize};

use crate::policy::{Rule, RuleError};
use crate::target::Target;

const FILE: &str = "passes.json";
const NEW: &str = "passes.json.new";
/// Of passes for one sandbox, and of their bytes.
pub const MOST: usize = 512;
const MAX_FILE: u64 = 256 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub rule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What a proxy knows of them.
#[derive(Debug)]
pub struct Passes {
    directory: Option<OwnedFd>,
    clock: Arc<dyn Clock>,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    /// The file it was read from; another one is another inode.
    of: Option<Stamp>,
    rules: Vec<(Rule, Option<Timestamp>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    size: i64,
}

/// How long somebody may be let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Open {
    Always,
    For(std::time::Duration),
}

impl Passes {
    /// Nobody gives any.
    pub fn none(clock: Arc<dyn Clock>) -> Self {
        Self {
            directory: None,
            clock,
            read: Mutex::default(),
        }
    }

    /// Those in a directory, which is used by descriptor: we may not be able to reach it by its path
    /// later.
    pub fn in_directory(directory: OwnedFd, clock: Arc<dyn Clock>) -> Self {
        Self {
            directory: Some(directory),
            ..Self::none(clock)
        }
    }

    /// Whether a pass opens this name and port, and for how long. Which of its addresses may be
    /// dialled is judged as ever.
    pub(crate) fn admit(&self, target: &Target) -> Option<Open> {
        let directory = self.directory.as_ref()?;
        let mut read = self.read.lock().expect("no holder of this lock panics");
        read.renew(directory);
        let now = self.clock.now();
        let mut longest = None;
        for (rule, until) in &read.rules {
            if !rule.admits(target) {
                continue;
            }
            let Some(until) = until else {
                return Some(Open::Always);
            };
            longest = longest.max(Some(*until));
        }
        let left = longest?.duration_since(now);
        let left = std::time::Duration::try_from(left).ok()?;
        (!left.is_zero()).then_some(Open::For(left))
    }
}

impl Read {
    /// A file that cannot be read opens nothing: it is as if there were none.
    fn renew(&mut self, directory: &OwnedFd) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found = openat(directory, FILE, flags, Mode::empty())
            .and_then(|file| fstat(&file).map(|stat| (file, stat)));
        let Ok((file, stat)) = found else {
            *self = Self::default();
            return;
        };
        let stamp = Stamp {
            inode: stat.st_ino,
            changed: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            size: stat.st_size,
        };
        if self.of == Some(stamp) {
            return;
        }
        let mut text = Vec::new();
        let passes: Vec<Pass> = File::from(file)
            .take(MAX_FILE)
            .read_to_end(&mut text)
            .ok()
            .and_then(|_| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        self.of = Some(stamp);
        self.rules = passes
            .into_iter()
            .take(MOST)
            .filter_map(|pass| Some((pass.rule.parse().ok()?, pass.until)))
            .collect();
    }
}

/// Puts these in the place of those that were there. Nobody reads half of it.
pub fn write(directory: &Path, passes: &[Pass]) -> std::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, directory, flags, Mode::empty())?;
    // Left by one that was killed here.
    let _ = unlinkat(&directory, NEW, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&directory, NEW, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(&serde_json::to_vec(passes)?)?;
    // The proxy is nobody, and may read it by the directory that it was handed.
    fchmod(file.as_fd(), Mode::from_raw_mode(0o444))?;
    Ok(renameat(&directory, NEW, &directory, FILE)?)
}

/// What is wrong with them.
pub fn check(passes: &[Pass]) -> Result<(), RuleError> {
    passes
        .iter()
        .try_for_each(|pass| pass.rule.parse::<Rule>().map(drop))
}

#[cfg(test)]
mod tests {
    use model::{ManualClock, SignedDuration};

    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text.as_bytes(), None).expect("a target")
    }

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("nacre-passes-{name}-{}", std::process::id()));
            fs_err::create_dir_all(&path).expect("a directory");
            Self(path)
        }

        fn passes(&self, clock: &Arc<ManualClock>) -> Passes {
            let directory = fs_err::File::open(&self.0).expect("it opens");
            Passes::in_directory(
                OwnedFd::from(directory.into_parts().0),
                Arc::clone(clock) as _,
            )
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs_err::remove_dir_all(&self.0);
        }
    }

    fn clock() -> Arc<ManualClock> {
        let at = "2026-01-02T03:04:05Z".parse().expect("a time");
        Arc::new(ManualClock::starting_at(at))
    }

    fn pass(rule: &str, until: Option<Timestamp>) -> Pass {
        Pass {
            rule: rule.to_owned(),
            until,
        }
    }

    #[test]
    fn a_pass_opens_its_host_until_its_time_is_over() {
        let scratch = Scratch::new("time");
        let clock = clock();
        let passes = scratch.passes(&clock);
        assert_eq!(passes.admit(&target("pearl.example:443")), None);
        let until = clock.now() + SignedDuration::from_secs(300);
        write(&scratch.0, &[pass("pearl.example", Some(until))]).expect("written");
        let opened = passes.admit(&target("pearl.example:443"));
        assert_eq!(opened, Some(Open::For(std::time::Duration::from_mins(5))));
        assert_eq!(passes.admit(&target("pearl.example:22")), None);
        assert_eq!(passes.admit(&target("a.pearl.example:443")), None);
        clock.advance(SignedDuration::from_mins(5));
        assert_eq!(passes.admit(&target("pearl.example:443")), None);
    }

    #[test]
    fn what_is_written_takes_the_place_of_what_was_there() {
        let scratch = Scratch::new("replace");
        let clock = clock();
        let passes = scratch.passes(&clock);
        write(&scratch.0, &[pass("a.example", None)]).expect("written");
        assert_eq!(passes.admit(&target("a.example:443")), Some(Open::Always));
        write(&scratch.0, &[pass("b.example", None)]).expect("written");
        assert_eq!(passes.admit(&target("a.example:443")), None);
        assert_eq!(passes.admit(&target("b.example:443")), Some(Open::Always));
        fs_err::remove_file(scratch.0.join(FILE)).expect("removed");
        assert_eq!(passes.admit(&target("b.example:443")), None);
    }

    #[test]
    fn what_cannot_be_read_opens_nothing() {
        let scratch = Scratch::new("broken");
        let clock = clock();
        let passes = scratch.passes(&clock);
        for text in ["", "[", "{}", r#"[{"rule":"*:*"}]"#, r#"[{"rule":7}]"#] {
            fs_err::write(scratch.0.join(FILE), text).expect("written");
            assert_eq!(passes.admit(&target("a.example:443")), None, "{text}");
        }
        fs_err::remove_file(scratch.0.join(FILE)).expect("removed");
        let elsewhere = scratch.0.join("elsewhere");
        fs_err::write(&elsewhere, r#"[{"rule":"*"}]"#).expect("written");
        fs_err::os::unix::fs::symlink(&elsewhere, scratch.0.join(FILE)).expect("a link");
        assert_eq!(passes.admit(&target("a.example:443")), None);
    }

    #[test]
    fn rules_that_mean_nothing_are_said() {
        assert!(check(&[pass("a.example", None)]).is_ok());
        assert!(check(&[pass("a.example", None), pass("a.example.", None)]).is_err());
    }
}
