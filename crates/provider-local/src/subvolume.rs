//! Subvolumes of btrfs: a tree that can be copied, moved and dropped in one step, and limited.
#![expect(
    unsafe_code,
    reason = "the ioctls of btrfs have no safe wrapper; each gets a structure of its own"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use camino::Utf8Path;

const MAGIC: i64 = 0x9123_683e;
/// The inode of every subvolume's root.
pub(crate) const ROOT_INODE: u64 = 256;

const fn write_request(number: u64, size: usize) -> u64 {
    (1 << 30) | ((size as u64) << 16) | (0x94 << 8) | number
}

const fn read_request(number: u64, size: usize) -> u64 {
    (2 << 30) | ((size as u64) << 16) | (0x94 << 8) | number
}

const SNAP_CREATE: u64 = write_request(23, size_of::<Volume>());
const SUBVOL_CREATE: u64 = write_request(24, size_of::<Volume>());
const SNAP_DESTROY: u64 = write_request(63, size_of::<Volume>());
const CHILDREN: u64 =
    write_request(61, size_of::<Children>()) | read_request(61, size_of::<Children>());
const FS_INFO: u64 = read_request(31, size_of::<FsInfo>());
const QUOTA_CTL: u64 = write_request(40, 16) | read_request(40, 16);
const QGROUP_LIMIT: u64 = read_request(43, size_of::<QuotaLimit>());

/// `btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct Volume {
    fd: i64,
    generation: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// `btrfs_ioctl_fs_info_args`, of which we read the id alone.
#[repr(C)]
struct FsInfo {
    max_id: u64,
    devices: u64,
    id: [u8; 16],
    rest: [u64; 124],
}

/// `btrfs_ioctl_get_subvol_rootref_args`: the subvolumes in one, from `least` on.
#[repr(C)]
struct Children {
    least: u64,
    found: [Child; 255],
    count: u8,
    unused: [u8; 7],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Child {
    id: u64,
    /// The inode of the directory that it is in.
    directory: u64,
}

/// `btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct QuotaLimit {
    group: u64,
    flags: u64,
    referenced: u64,
    exclusive: u64,
    reserved: [u64; 2],
}

impl Volume {
    fn named(name: &OsStr) -> io::Result<Self> {
        let bytes = name.as_bytes();
        let mut volume = Self {
            fd: 0,
            generation: 0,
            flags: 0,
            unused: [0; 4],
            name: [0; 4040],
        };
        if bytes.is_empty() || bytes.len() > 255 || bytes.contains(&b'/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        volume.name[..bytes.len()].copy_from_slice(bytes);
        Ok(volume)
    }
}

fn control<T>(fd: impl AsFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: each request above is made with the size of the structure that is passed with it,
    // which lives for the call.
    let result = unsafe {
        libc::ioctl(
            fd.as_fd().as_raw_fd(),
            request,
            std::ptr::from_mut(argument),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a directory lies on btrfs.
pub(crate) fn possible(directory: &Utf8Path) -> bool {
    rustix::fs::statfs(directory.as_std_path()).is_ok_and(|found| found.f_type == MAGIC)
}

/// Whether a directory is a subvolume, and not merely in one.
pub(crate) fn is_one(directory: &Utf8Path) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|found| found.is_dir() && found.ino() == ROOT_INODE)
        && possible(directory)
}

fn parent_and_name(path: &Utf8Path) -> io::Result<(File, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((File::open(parent)?, OsStr::new(name))),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Makes an empty one.
pub(crate) fn create(path: &Utf8Path) -> io::Result<()> {
    let (parent, name) = parent_and_name(path)?;
    control(parent, SUBVOL_CREATE, &mut Volume::named(name)?)
}

/// Makes `to` what `from` is at this moment, blocks shared. Calls `fixed` once, as soon as nothing
/// that is done to `from` can change what `to` will be, or when it has failed: the kernel decides
/// that early, and most of the time goes into writing everybody's changes back.
pub(crate) fn snapshot(from: &Utf8Path, to: &Utf8Path, fixed: impl FnOnce()) -> io::Result<()> {
    let opened = || {
        let (parent, name) = parent_and_name(to)?;
        io::Result::Ok((parent, File::open(from)?, Volume::named(name)?))
    };
    let (parent, source, mut volume) = match opened() {
        Ok(opened) => opened,
        Err(error) => {
            fixed();
            return Err(error);
        }
    };
    volume.fd = i64::from(source.as_raw_fd());
    let newcomer = Newcomer::expected_in(&parent);
    std::thread::scope(|scope| {
        let make = || control(&parent, SNAP_CREATE, &mut volume);
        let making = match std::thread::Builder::new().spawn_scoped(scope, make) {
            Ok(making) => making,
            Err(error) => {
                fixed();
                return Err(error);
            }
        };
        while !making.is_finished() && !newcomer.as_ref().is_ok_and(Newcomer::is_there) {
            std::thread::sleep(LOOK);
        }
        fixed();
        making
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the snapshot's thread is gone")))
    })
}

/// Between two looks whether a snapshot's content is decided.
const LOOK: Duration = Duration::from_micros(100);

/// A subvolume to be, seen by the reference to it. The kernel adds that within the commit, after it
/// has copied the root of the source, and shows it before the commit is on the disk.
struct Newcomer<'a> {
    parent: &'a File,
    directory: u64,
    /// No older one has so high a number.
    least: u64,
}

impl<'a> Newcomer<'a> {
    fn expected_in(parent: &'a File) -> io::Result<Self> {
        let directory = parent.metadata()?.ino();
        let mut least = 0;
        loop {
            let (found, is_all) = children(parent, least)?;
            least = found.last().map_or(least, |child| child.id + 1);
            if is_all {
                break;
            }
        }
        Ok(Self {
            parent,
            directory,
            least,
        })
    }

    fn is_there(&self) -> bool {
        children(self.parent, self.least)
            .is_ok_and(|(found, _)| found.iter().any(|child| child.directory == self.directory))
    }
}

/// The subvolumes in that of a directory, by number; and whether these are all.
fn children(directory: &File, least: u64) -> io::Result<(Vec<Child>, bool)> {
    let none = Child {
        id: 0,
        directory: 0,
    };
    let mut children = Children {
        least,
        found: [none; 255],
        count: 0,
        unused: [0; 7],
    };
    let is_all = match control(directory, CHILDREN, &mut children) {
        Err(error) if error.raw_os_error() == Some(libc::EOVERFLOW) => false,
        other => other.map(|()| true)?,
    };
    let count = usize::from(children.count);
    Ok((children.found[..count].to_vec(), is_all))
}

/// Drops one, whatever it holds; the kernel frees its blocks later.
pub(crate) fn destroy(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    control(parent, SNAP_DESTROY, &mut Volume::named(name)?)
}

/// Turns accounting by subvolume on for the whole file system.
pub(crate) fn enable_quota(directory: &Utf8Path) -> io::Result<()> {
    let mut request = [1u64, 0];
    control(File::open(directory)?, QUOTA_CTL, &mut request)
}

/// Whether a file system accounts by subvolume, so that [`limit`] works on it.
pub(crate) fn has_quota(directory: &Utf8Path) -> bool {
    let mut info = FsInfo {
        max_id: 0,
        devices: 0,
        id: [0; 16],
        rest: [0; 124],
    };
    let Ok(file) = File::open(directory) else {
        return false;
    };
    if !possible(directory) || control(file, FS_INFO, &mut info).is_err() {
        return false;
    }
    let id = u128::from_be_bytes(info.id);
    let part = |shift: u32, digits: u32| (id >> shift) & ((1 << (4 * digits)) - 1);
    let id = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    );
    Utf8Path::new("/sys/fs/btrfs")
        .join(id)
        .join("qgroups")
        .is_dir()
}

/// Lets a subvolume hold at most this many bytes.
pub(crate) fn limit(path: &Utf8Path, bytes: u64) -> io::Result<()> {
    const REFERENCED: u64 = 1;
    let mut limit = QuotaLimit {
        // The one of the descriptor.
        group: 0,
        flags: REFERENCED,
        referenced: bytes,
        exclusive: 0,
        reserved: [0; 2],
    };
    control(File::open(path)?, QGROUP_LIMIT, &mut limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only where temporary files lie on btrfs: `cargo xtask test` runs it there.
    #[test]
    #[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
    fn what_is_done_once_a_snapshot_is_fixed_is_not_in_it() {
        let temporary = camino_tempfile::tempdir().unwrap();
        let place = temporary.path();
        if !possible(place) {
            eprintln!("skipped: temporary files are not on btrfs");
            return;
        }
        let source = place.join("source");
        create(&source).unwrap();
        for round in 0..40 {
            let text = format!("before {round}");
            fs_err::write(source.join("changed"), &text).unwrap();
            let layer = place.join(round.to_string());
            fs_err::create_dir(&layer).unwrap();
            let to = layer.join("disk");
            let mut calls = 0;
            snapshot(&source, &to, || {
                calls += 1;
                fs_err::write(source.join(format!("new {round}")), "after").unwrap();
                fs_err::write(source.join("changed"), "after").unwrap();
            })
            .unwrap();
            assert_eq!(calls, 1);
            assert_eq!(fs_err::read_to_string(to.join("changed")).unwrap(), text);
            assert!(!to.join(format!("new {round}")).exists());
            destroy(File::open(&layer).unwrap(), OsStr::new("disk")).unwrap();
        }
        destroy(File::open(place).unwrap(), OsStr::new("source")).unwrap();
    }

    #[test]
    fn a_snapshot_that_cannot_be_made_is_over_at_once() {
        let mut calls = 0;
        let made = snapshot("/nowhere/source".into(), "/nowhere/to".into(), || {
            calls += 1;
        });
        assert!(made.is_err());
        assert_eq!(calls, 1);
    }
}
