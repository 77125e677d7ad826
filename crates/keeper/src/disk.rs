//! How much a sandbox takes on disk: what its tree holds, and what its processes hold that has no
//! name any more.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use crate::cgroup;

/// One descriptor is held for each level; a tree deeper than this is somebody's trick, and counts
/// as over any limit.
const MAX_DEPTH: usize = 512;

/// Bytes allocated below `path`. What vanishes while we look does not count.
pub(crate) fn used(path: &str) -> u64 {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |fd| Dir::new(fd).ok();
    let Some(top) = rustix::fs::open(path, flags, Mode::empty())
        .ok()
        .and_then(open)
    else {
        return 0;
    };
    let mut stack = vec![top];
    let mut total = 0u64;
    while let Some(directory) = stack.last_mut() {
        let Some(entry) = directory.read() else {
            stack.pop();
            continue;
        };
        let Ok(entry) = entry else {
            stack.pop();
            continue;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(parent) = directory.fd() else { continue };
        if let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            let names = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => 1,
                _ => stat.st_nlink,
            };
            total = total.saturating_add(
                // A file with several names counts once in all.
                u64::try_from(stat.st_blocks)
                    .unwrap_or(0)
                    .saturating_mul(512)
                    / u64::max(1, names),
            );
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                if stack.len() >= MAX_DEPTH {
                    return u64::MAX;
                }
                let child = stack
                    .last()
                    .and_then(|d| d.fd().ok())
                    .and_then(|fd| openat(fd.as_fd(), name, flags, Mode::empty()).ok());
                stack.extend(child.and_then(open));
            }
        }
    }
    total
}

/// `statfs` of an overlay.
const OVERLAY: i64 = 0x794c_7630;
/// A sandbox's own limit on processes is lower, so this many descriptors are somebody's trick.
const MAX_LOOKED_AT: usize = 1 << 20;

/// Bytes of deleted files that processes of a cgroup, and of those below it, keep open or mapped.
pub(crate) fn held(cgroup: &str) -> u64 {
    let mut seen = BTreeSet::new();
    let mut looked_at = 0;
    for process in cgroup::processes(cgroup) {
        for link in open_files(&process).chain(mapped_files(&process)) {
            looked_at += 1;
            if looked_at > MAX_LOOKED_AT {
                return u64::MAX;
            }
            seen.extend(nameless(&link));
        }
    }
    seen.iter()
        .fold(0, |total, (_, bytes)| total.saturating_add(*bytes))
}

fn open_files(process: &str) -> impl Iterator<Item = String> {
    let entries = fs_err::read_dir(format!("/proc/{process}/fd"));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().to_string_lossy().into_owned())
}

fn mapped_files(process: &str) -> impl Iterator<Item = String> {
    let maps = fs_err::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let deleted = maps.lines().filter(|line| line.ends_with(" (deleted)"));
    let places: Vec<String> = deleted
        .filter_map(|line| line.split(' ').next())
        .map(|range| format!("/proc/{process}/map_files/{range}"))
        .collect();
    places.into_iter()
}

/// A deleted file of a sandbox's disk: which it is, and its bytes.
fn nameless(link: &str) -> Option<(u64, u64)> {
    let stat = statat(CWD, link, AtFlags::empty()).ok()?;
    if stat.st_nlink != 0 || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    // Memory has limits of its own.
    let on_disk = rustix::fs::statfs(link).ok()?.f_type == OVERLAY;
    let bytes = u64::try_from(stat.st_blocks).ok()?.saturating_mul(512);
    on_disk.then_some((stat.st_ino, bytes))
}
