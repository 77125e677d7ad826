//! How much a tree takes on disk.

use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

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
