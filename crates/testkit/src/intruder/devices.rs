//! Device nodes: which there are, and whether more can be made.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use super::doors::ENV;
use super::facts::{Facts, c_path};
use super::sys::sys;
use super::{Outcome, all, broke, denied, held};

/// Directories on the file systems that a sandbox can write to.
fn writable_places() -> impl Iterator<Item = &'static str> {
    [
        "/", "/tmp", "/home", "/root", "/dev", "/dev/shm", "/run", ENV,
    ]
    .into_iter()
    .filter(|path| Path::new(path).is_dir())
}

/// Creating a node is one thing and opening it another; neither may work. They are zero and a disk.
pub(crate) fn make_devices(_: &Facts) -> Outcome {
    let mut outcomes = Vec::new();
    for place in writable_places() {
        for (kind, mode, device) in [
            ("char", libc::S_IFCHR, libc::makedev(1, 5)),
            ("kmem", libc::S_IFCHR, libc::makedev(1, 2)),
            ("block", libc::S_IFBLK, libc::makedev(8, 0)),
        ] {
            let path = c_path(format!("{place}/.nacre-intruder-{kind}"));
            let made = sys!(
                SYS_mknodat,
                libc::AT_FDCWD,
                path.as_c_str(),
                mode | 0o600,
                device
            );
            if made.is_ok() {
                let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, path.as_c_str(), 0);
            }
            outcomes.push((format!("{kind} in {place}"), denied(made)));
        }
    }
    all(outcomes)
}

/// A whiteout is the device 0:0, which anybody may make: it must not become one of ours.
pub(crate) fn make_whiteout(_: &Facts) -> Outcome {
    let mut told = Vec::new();
    for place in writable_places() {
        let path = c_path(format!("{place}/.nacre-intruder-whiteout"));
        let made = sys!(
            SYS_mknodat,
            libc::AT_FDCWD,
            path.as_c_str(),
            libc::S_IFCHR,
            0
        );
        if made.is_ok() {
            let opened = sys!(SYS_openat, libc::AT_FDCWD, path.as_c_str(), libc::O_RDONLY);
            let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, path.as_c_str(), 0);
            if opened.is_ok() {
                return broke(format!("in {place}, and it opens"));
            }
            told.push(format!("{place}: made"));
            if place == "/" {
                return broke("the root file system took it");
            }
        }
    }
    held(if told.is_empty() {
        "nowhere".to_owned()
    } else {
        format!("{}; none opens", told.join(", "))
    })
}

/// Looks at every node and opens none: opening some of them does something.
pub(crate) fn devices(_: &Facts) -> Outcome {
    const HARMLESS: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];
    const TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;
    let mut found = Vec::new();
    walk(Path::new("/dev"), 4, &mut |path, metadata| {
        let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        let harmless = HARMLESS.contains(&(major, minor)) || TERMINALS.contains(&major);
        if metadata.file_type().is_block_device()
            || (metadata.file_type().is_char_device() && !harmless)
        {
            found.push(format!("{} ({major}:{minor})", path.display()));
        }
    });
    if found.is_empty() {
        held("only the harmless ones")
    } else {
        broke(found.join(", "))
    }
}

pub(crate) fn dev_is_small(_: &Facts) -> Outcome {
    const KNOWN: [&str; 15] = [
        "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd",
        "stdin", "stdout", "stderr", "console",
    ];
    let entries = fs_err::read_dir("/dev").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let unknown: Vec<String> = names
        .filter(|name| !KNOWN.contains(&name.as_str()))
        .collect();
    if unknown.is_empty() {
        held("nothing beyond the list")
    } else {
        broke(unknown.join(", "))
    }
}

fn walk(directory: &Path, depth: usize, visit: &mut dyn FnMut(&Path, &std::fs::Metadata)) {
    for entry in fs_err::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        visit(&entry.path(), &metadata);
        if metadata.is_dir() && depth > 0 {
            walk(&entry.path(), depth - 1, visit);
        }
    }
}
