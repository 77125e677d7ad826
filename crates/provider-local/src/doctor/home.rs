//! Where everything will be kept.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Access, StatVfs, StatVfsMountFlags, access, statfs, statvfs};

use super::{Finding, Fix};
use crate::{Config, disk, image, subvolume};

const GIB: u64 = 1 << 30;
const LITTLE_SPACE: u64 = 5 * GIB;
/// A base alone has some ten thousand files.
const FEW_INODES: u64 = 100_000;

/// The findings, and the directory on the home's file system in which things can be tried.
pub(super) fn examine(config: &Config) -> (Option<Utf8PathBuf>, Vec<Finding>) {
    let (place, finding) = directory(&config.home);
    let Some(place) = place else {
        return (None, vec![finding]);
    };
    // A store in a file of its own, if it is mounted; nothing is mounted only to look at it.
    let place = image::mounted(&place).unwrap_or(place);
    let mut findings = vec![finding];
    match (statvfs(place.as_std_path()), statfs(place.as_std_path())) {
        (Ok(disk), Ok(kind)) => {
            let kind = filesystem(i128::from(kind.f_type));
            findings.extend(file_system(kind, &disk));
            findings.push(space(&disk));
        }
        (Err(error), _) | (_, Err(error)) => {
            findings.push(Finding::warning(
                "disk space",
                format!("cannot be read: {error}"),
                "look at the disk under the home",
            ));
        }
    }
    findings.push(driver(&place));
    (Some(place), findings)
}

fn driver(place: &Utf8Path) -> Finding {
    let found = if !subvolume::possible(place) {
        if disk::shares_blocks(place) {
            "reflinks: a snapshot shares blocks, file by file; disk limits are watched"
        } else {
            "plain directories: a snapshot copies what the sandbox wrote; `nacre storage init --btrfs SIZE` makes it a matter of milliseconds"
        }
    } else if subvolume::has_quota(place) {
        "btrfs: snapshots in one step, disk limits kept by the kernel"
    } else {
        "btrfs: snapshots in one step; disk limits are watched, `btrfs quota enable` lets the kernel keep them"
    };
    Finding::info("storage driver", found)
}

fn directory(home: &Utf8Path) -> (Option<Utf8PathBuf>, Finding) {
    const NAME: &str = "home";
    let missing = |found: String, advice: &str| (None, Finding::missing(NAME, found, advice));
    if !home.is_absolute() {
        return missing(
            format!("`{home}` is relative"),
            "set NACRE_HOME to an absolute path",
        );
    }
    let metadata = match std::fs::metadata(home) {
        Ok(metadata) if !metadata.is_dir() => {
            return missing(
                format!("{home} is no directory"),
                "set NACRE_HOME to a directory, or move that file away",
            );
        }
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            return missing(
                format!("{home}: {error}"),
                "set NACRE_HOME to a directory that can be reached",
            );
        }
    };
    let exists = |path: &&Utf8Path| path.is_dir();
    let Some(place) = home.ancestors().find(exists) else {
        return missing(
            format!("{home} cannot be reached"),
            "set NACRE_HOME to a directory that can be reached",
        );
    };
    match access(place.as_std_path(), Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => {}
        Err(rustix::io::Errno::ROFS) => {
            return missing(
                format!("{place} is on a read-only file system"),
                "set NACRE_HOME to a directory that can be written",
            );
        }
        Err(error) => {
            return missing(
                format!("{place} cannot be written: {error}"),
                "run nacre as root, or set NACRE_HOME to a directory of yours",
            );
        }
    }
    let finding = match metadata {
        None => Finding::info(
            NAME,
            format!("{home} does not exist yet; the first command that needs it makes it"),
        )
        .fixed_by(Fix::Directory(home.to_owned())),
        Some(metadata) if metadata.mode() & 0o077 != 0 => Finding::warning(
            NAME,
            format!(
                "{home} is open to others ({:04o})",
                metadata.mode() & 0o7777
            ),
            "shut it with `chmod 700`: layers hold set-uid files that a sandbox's root wrote",
        )
        .fixed_by(Fix::Directory(home.to_owned())),
        Some(_) => Finding::ok(NAME, format!("{home}, ours alone")),
    };
    (Some(place.to_owned()), finding)
}

fn file_system(kind: Option<&str>, disk: &StatVfs) -> Vec<Finding> {
    const NAME: &str = "file system";
    let shown = kind.unwrap_or("of an unknown kind");
    let mut findings = vec![match kind {
        Some("tmpfs") => Finding::warning(
            NAME,
            "tmpfs: all of it goes with the next restart",
            "set NACRE_HOME to a directory on a disk",
        ),
        Some("nfs" | "overlayfs" | "fuse") => Finding::warning(
            NAME,
            format!("{shown}, which cannot hold the layers of a sandbox everywhere"),
            "set NACRE_HOME to a directory on ext4, xfs or btrfs if a sandbox does not start",
        ),
        _ => Finding::ok(NAME, shown),
    }];
    if disk.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        findings.push(Finding::missing(
            "programs in the home",
            "the file system is mounted noexec",
            "mount it without noexec: the keeper and the runner are started from there",
        ));
    }
    findings
}

fn space(disk: &StatVfs) -> Finding {
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Some file systems make inodes as they are asked for, and say so with a zero.
    let inodes = (disk.f_files > 0).then_some(disk.f_favail);
    space_of(free, inodes)
}

fn space_of(free: u64, inodes: Option<u64>) -> Finding {
    const NAME: &str = "disk space";
    let found = format!("{}.{} GiB free", free / GIB, free % GIB * 10 / GIB);
    if free < LITTLE_SPACE {
        return Finding::warning(
            NAME,
            found,
            "make room, or try `nacre storage gc`: a base and a few sandboxes take 5 GiB",
        );
    }
    match inodes {
        Some(inodes) if inodes < FEW_INODES => Finding::warning(
            NAME,
            format!("{found}, but only for {inodes} files"),
            "make room for more files: a root file system alone has tens of thousands",
        ),
        _ => Finding::ok(NAME, found),
    }
}

/// By the magic number that the kernel gives.
fn filesystem(magic: i128) -> Option<&'static str> {
    // 32-bit kernels give it sign-extended.
    Some(match magic & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0x6969 => "nfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0x6573_5546 => "fuse",
        0xca45_1a4e => "bcachefs",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingStatus;

    #[test]
    fn a_nearly_full_disk_is_a_warning() {
        assert_eq!(
            space_of(LITTLE_SPACE - 1, None).status,
            FindingStatus::Warning
        );
        assert_eq!(space_of(LITTLE_SPACE, None).status, FindingStatus::Ok);
        assert_eq!(space_of(LITTLE_SPACE + GIB / 2, None).found, "5.5 GiB free");
    }

    #[test]
    fn a_disk_without_room_for_files_is_a_warning() {
        assert_eq!(
            space_of(100 * GIB, Some(99_999)).status,
            FindingStatus::Warning
        );
        assert_eq!(space_of(100 * GIB, Some(100_000)).status, FindingStatus::Ok);
    }

    #[test]
    fn a_home_that_cannot_be_one_is_missing() {
        for (home, says) in [
            ("relative/path", "relative"),
            ("/etc/passwd", "no directory"),
            ("/etc/passwd/x", "ENOTDIR"),
        ] {
            let (place, finding) = directory(Utf8Path::new(home));
            assert_eq!(
                (place, finding.status),
                (None, FindingStatus::Missing),
                "{home}"
            );
            assert!(finding.advice.is_some());
            assert!(
                finding.found.contains(says) || finding.found.contains("Not a directory"),
                "{}",
                finding.found
            );
        }
    }

    #[test]
    fn a_home_that_is_not_there_yet_is_tried_where_it_will_be() {
        let (place, finding) = directory(Utf8Path::new("/tmp/nacre-not-there/at/all"));
        assert_eq!(place.as_deref(), Some(Utf8Path::new("/tmp")));
        assert_eq!(
            finding.fix,
            Some(Fix::Directory("/tmp/nacre-not-there/at/all".into()))
        );
    }

    #[test]
    fn file_systems_are_known_by_their_number() {
        assert_eq!(filesystem(0xef53), Some("ext4"));
        assert_eq!(
            filesystem(i128::from(0x9123_683e_u32.cast_signed())),
            Some("btrfs")
        );
        assert_eq!(filesystem(1), None);
    }
}
