//! Named places where a test may kill the process, as `kill -9` would.
//!
//! `NACRE_FAILPOINT=stop.sealed` makes a debug build of any of our processes die when it gets
//! there; `NACRE_FAILPOINT=stop.sealed:2` the second time. `NACRE_FAILPOINT=stop.sealed@FILE` makes
//! it wait there as long as the file exists. Release builds have none of it.

/// Every fail point there is. A test walks this list and kills at each.
pub const ALL: &[&str] = &[
    "create.intended",
    "create.claimed",
    "create.recorded",
    "create.cgroups",
    "keeper.started",
    "keeper.cloned",
    "keeper.mounted",
    "keeper.ready",
    "create.launched",
    "create.running",
    "create.finished",
    "pause.intended",
    "pause.frozen",
    "pause.recorded",
    "resume.intended",
    "resume.thawed",
    "snapshot.intended",
    "snapshot.frozen",
    "snapshot.copied",
    "snapshot.thawed",
    "snapshot.sealed",
    "snapshot.recorded",
    "stop.intended",
    "keeper.killed",
    "keeper.unmounted",
    "stop.ended",
    "stop.sealed",
    "stop.recorded",
    "stop.buried",
    "fork.captured",
    "fork.cloned",
    "remove.intended",
    "remove.ended",
    "remove.trashed",
    "remove.released",
    "storage.copied",
    "storage.filled",
    "storage.moved",
    "import.intended",
    "import.unpacked",
    "import.recorded",
];

/// Dies here if the environment names this place.
#[inline]
pub fn hit(name: &'static str) {
    if cfg!(any(debug_assertions, feature = "failpoints")) {
        armed::hit(name);
    }
}

mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Armed {
        name: String,
        nth: u32,
        /// Wait while this exists instead of dying.
        held_by: Option<std::path::PathBuf>,
        seen: AtomicU32,
    }

    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

    pub(super) fn hit(name: &'static str) {
        debug_assert!(
            super::ALL.contains(&name),
            "fail point {name} is not listed"
        );
        let Some(armed) = ARMED.get_or_init(read) else {
            return;
        };
        if armed.name == name && armed.seen.fetch_add(1, Ordering::Relaxed) + 1 == armed.nth {
            if let Some(file) = &armed.held_by {
                while file.exists() {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                return;
            }
            // No destructor runs and nothing is flushed: to the disk this is `kill -9`.
            std::process::abort();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test's switch, absent from release builds"
    )]
    fn read() -> Option<Armed> {
        let text = std::env::var("NACRE_FAILPOINT").ok()?;
        let (point, held_by) = match text.split_once('@') {
            Some((point, file)) => (point, Some(file.into())),
            None => (&*text, None),
        };
        let (name, nth) = point.split_once(':').unwrap_or((point, "1"));
        Some(Armed {
            name: name.to_owned(),
            nth: nth.parse().ok()?,
            held_by,
            seen: AtomicU32::new(0),
        })
    }
}
