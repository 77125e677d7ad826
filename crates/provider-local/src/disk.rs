//! A sandbox's own disk, and how it becomes a layer.
//!
//! ```text
//!                  plain directories                 btrfs
//! sandboxes/ID/    disk/{upper,work}                 disk/ (a subvolume) {upper,work,empty}
//! stop             upper ─rename─► layers/ID/fs      disk ─rename───► layers/ID/disk
//! live snapshot    upper ─copy───► layers/ID/fs      disk ─snapshot─► layers/ID/disk
//! settling                                           layers/ID/disk/upper ─copy─► layers/ID/fs
//! ```
//!
//! A copy shares blocks where the file system can (xfs, btrfs), and copies them where it cannot.
//! What a disk is, is seen by looking at it: a store may hold both kinds.
//!
//! Inode numbers are unique only within a subvolume, and an overlay shows them as they are: two
//! files of one sandbox could look like one. So all layers lie in one subvolume, the store's, before
//! anyone uses them (they *settle*), and a disk that is a subvolume is mounted over them so that the
//! kernel tells the two apart (`wire::keeper::Launch::apart`).

use std::io;
use std::os::unix::fs::DirBuilderExt as _;

use camino::Utf8Path;

use crate::{subvolume, tree};

/// What stands in for a second layer where the kernel wants two.
const EMPTY: &str = "empty";

/// Makes an empty one, limited by the kernel where it can.
pub(crate) fn make(disk: &Utf8Path, limit: Option<u64>) -> io::Result<()> {
    let directory = |path: &Utf8Path, mode| std::fs::DirBuilder::new().mode(mode).create(path);
    let parent = disk.parent().unwrap_or(disk);
    let apart = subvolume::possible(parent);
    if apart {
        subvolume::create(disk)?;
        rustix::fs::chmod(disk.as_std_path(), 0o755.into())?;
        if let Some(bytes) = limit {
            match subvolume::limit(disk, bytes) {
                // Nobody accounts on this file system; then the keeper watches.
                Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {}
                other => other?,
            }
        }
    } else {
        directory(disk, 0o755)?;
    }
    directory(&disk.join("upper"), 0o755)?;
    if apart {
        directory(&disk.join(EMPTY), 0o755)?;
    }
    directory(&disk.join("work"), 0o700)
}

/// Where the empty directory of a disk is whose inode numbers are its own.
pub(crate) fn apart(disk: &Utf8Path) -> Option<String> {
    subvolume::is_one(disk).then(|| disk.join(EMPTY).into_string())
}

/// Whether the kernel keeps a disk's limit, so that nobody has to watch it.
pub(crate) fn keeps_limit(disk: &Utf8Path) -> bool {
    subvolume::is_one(disk) && subvolume::has_quota(disk)
}

/// Whether what is copied had better be on the disk before the sandbox stands still: where blocks
/// are shared, the kernel writes back first, and the sandbox would wait for that.
pub(crate) fn shares_blocks(disk: &Utf8Path) -> bool {
    const XFS: i64 = 0x5846_5342;
    subvolume::possible(disk)
        || rustix::fs::statfs(disk.as_std_path()).is_ok_and(|found| found.f_type == XFS)
}

/// Puts what a disk holds, while nothing writes to it, into a layer's directory. Calls `taken` once,
/// when it may be written to again, also if this has failed.
pub(crate) fn capture(disk: &Utf8Path, layer: &Utf8Path, taken: impl FnOnce()) -> io::Result<()> {
    if subvolume::is_one(disk) {
        return subvolume::snapshot(disk, &layer.join("disk"), taken);
    }
    let copied = tree::copy(&disk.join("upper"), &layer.join("fs"));
    taken();
    copied
}

/// Makes a disk that has no use any more a layer's. Done already is fine.
pub(crate) fn seal(disk: &Utf8Path, layer: &Utf8Path) -> io::Result<()> {
    let (from, to) = if subvolume::is_one(disk) {
        (disk.to_owned(), layer.join("disk"))
    } else {
        (disk.join("upper"), layer.join("fs"))
    };
    match fs_err::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_there(layer) => Ok(()),
        other => other,
    }
}

/// Whether a layer has files.
pub(crate) fn is_there(layer: &Utf8Path) -> bool {
    layer.join("disk/upper").exists() || layer.join("fs").exists()
}

/// Moves a layer out of the subvolume that it came as; nobody has mounted it before. Done already is
/// fine, and so is half done.
pub(crate) fn settle(layer: &Utf8Path) -> io::Result<()> {
    let (disk, files, new) = (layer.join("disk"), layer.join("fs"), layer.join("fs.new"));
    if !files.exists() {
        remove_if_there(&new)?;
        tree::copy(&disk.join("upper"), &new)?;
        fs_err::rename(new, files)?;
    }
    remove_if_there(&disk)
}

/// An empty scratch space for the next mount.
pub(crate) fn renew_work(disk: &Utf8Path) -> io::Result<()> {
    let work = disk.join("work");
    remove_if_there(&work)?;
    std::fs::DirBuilder::new().mode(0o700).create(work)
}

fn remove_if_there(path: &Utf8Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => tree::remove(path),
    }
}
