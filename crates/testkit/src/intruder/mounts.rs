//! Mounting, unmounting and moving what is mounted. Outside a sandbox all of it happens in a
//! mount namespace of our own.

use std::path::Path;

use super::facts::Facts;
use super::sys::{NULL, sys};
use super::{Outcome, all, broke, denied, filtered, held};

/// What every sandbox has. Below `/proc`, `/dev`, `/sys` and `/run/nacre` there is more.
const EXPECTED: [&str; 9] = [
    "/",
    "/usr",
    "/tmp",
    "/run",
    "/run/nacre",
    "/run/nacre/env",
    "/proc",
    "/dev",
    "/sys",
];
const EXPECTED_BELOW: [&str; 3] = ["/proc/", "/dev/", "/sys/"];

pub(crate) fn mount_points() -> Vec<String> {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4).map(str::to_owned))
        .collect()
}

pub(crate) fn host_mounts(facts: &Facts) -> Outcome {
    let unexpected: Vec<String> = mount_points()
        .into_iter()
        .filter(|point| {
            !EXPECTED.contains(&point.as_str())
                && !EXPECTED_BELOW
                    .iter()
                    .any(|prefix| point.starts_with(prefix))
                && !facts
                    .expected_mounts
                    .iter()
                    .any(|expected| expected == Path::new(point))
        })
        .collect();
    if unexpected.is_empty() {
        held("only what a sandbox has")
    } else {
        broke(unexpected.join(", "))
    }
}

/// The list of mounts tells where each comes from: from memory or from the sandbox's own disk, and
/// never from a place of the host, but for the `/usr` that a host lends under that name.
pub(crate) fn host_places(_: &Facts) -> Outcome {
    let mounts = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    all(mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = place.split(' ').collect();
        let (root, point) = (*fields.get(3)?, *fields.get(4)?);
        let kind: Vec<&str> = kind.split(' ').collect();
        let own = ["tmpfs", "proc", "devpts"].contains(kind.first()?);
        let overlay = kind.first() == Some(&"overlay")
            && kind.get(2)?.split(',').all(|option| {
                !["lowerdir", "upperdir", "workdir"]
                    .iter()
                    .any(|name| option.starts_with(name))
                    || ["lowerdir+=/", "upperdir=/upper", "workdir=/work"].contains(&option)
            });
        let lent = root == "/usr" && point == "/usr";
        let outcome = if own || (overlay && root == "/") || lent {
            held("no place of the host")
        } else {
            broke(line)
        };
        Some((point.to_owned(), outcome))
    }))
}

/// Outside, a success must not reach the host's mounts. Inside, making the namespace is refused
/// like everything else, and that is as well.
fn keep_private(facts: &Facts) -> Result<(), Outcome> {
    if facts.inside {
        return Ok(());
    }
    let private = libc::MS_REC | libc::MS_PRIVATE;
    sys!(SYS_unshare, libc::CLONE_NEWNS)
        .and_then(|_| sys!(SYS_mount, c"none", c"/", NULL, private, NULL))
        .map(|_| ())
        .map_err(|errno| held(format!("no mount namespace to be had: {errno}")))
}

macro_rules! private_or_return {
    ($facts:expr) => {
        if let Err(outcome) = keep_private($facts) {
            return outcome;
        }
    };
}

pub(crate) fn mount_new(facts: &Facts) -> Outcome {
    private_or_return!(facts);
    all([
        c"tmpfs", c"proc", c"sysfs", c"devpts", c"mqueue", c"cgroup2", c"overlay", c"ext4", c"fuse",
    ]
    .map(|kind| {
        (
            kind.to_string_lossy().into_owned(),
            filtered(sys!(SYS_mount, c"none", c"/tmp", kind, 0, NULL)),
        )
    }))
}

pub(crate) fn bind_over_etc(facts: &Facts) -> Outcome {
    private_or_return!(facts);
    filtered(sys!(SYS_mount, c"/tmp", c"/etc", NULL, libc::MS_BIND, NULL))
}

pub(crate) fn remount_writable(facts: &Facts) -> Outcome {
    private_or_return!(facts);
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    all([c"/usr", c"/proc/sys", c"/sys", c"/run/nacre"].map(|path| {
        (
            path.to_string_lossy().into_owned(),
            filtered(sys!(SYS_mount, NULL, path, NULL, flags, NULL)),
        )
    }))
}

/// Taking off what covers something.
pub(crate) fn unmount(facts: &Facts) -> Outcome {
    private_or_return!(facts);
    let paths = [
        c"/run/nacre",
        c"/run/nacre/env",
        c"/proc",
        c"/proc/kcore",
        c"/proc/sys",
        c"/sys",
        c"/dev/shm",
        c"/usr",
    ];
    all(paths.map(|path| {
        (
            path.to_string_lossy().into_owned(),
            filtered(sys!(SYS_umount2, path, libc::MNT_DETACH)),
        )
    }))
}

/// The newer calls that do the same.
pub(crate) fn mount_by_descriptor(facts: &Facts) -> Outcome {
    const OPEN_TREE_CLONE: i32 = 1;
    const MOVE_FROM_EMPTY: i32 = 4;
    const READ_ONLY: u64 = 1;
    private_or_return!(facts);
    let mut clear_read_only = [0; 32];
    clear_read_only[8..16].copy_from_slice(&READ_ONLY.to_ne_bytes());
    all([
        ("fsopen".to_owned(), filtered(sys!(SYS_fsopen, c"tmpfs", 0))),
        (
            "fspick".to_owned(),
            filtered(sys!(SYS_fspick, libc::AT_FDCWD, c"/", 0)),
        ),
        (
            "fsconfig".to_owned(),
            filtered(sys!(SYS_fsconfig, -1, 6, NULL, NULL, 0)),
        ),
        ("fsmount".to_owned(), filtered(sys!(SYS_fsmount, -1, 0, 0))),
        (
            "open_tree".to_owned(),
            filtered(sys!(
                SYS_open_tree,
                libc::AT_FDCWD,
                c"/usr",
                OPEN_TREE_CLONE
            )),
        ),
        (
            "move_mount".to_owned(),
            filtered(sys!(
                SYS_move_mount,
                -1,
                c"",
                libc::AT_FDCWD,
                c"/tmp",
                MOVE_FROM_EMPTY
            )),
        ),
        (
            "mount_setattr".to_owned(),
            filtered(sys!(
                SYS_mount_setattr,
                libc::AT_FDCWD,
                c"/run/nacre",
                0,
                &clear_read_only,
                32
            )),
        ),
    ])
}

pub(crate) fn pivot_root(facts: &Facts) -> Outcome {
    private_or_return!(facts);
    // A root that is no mount point: a kernel that looks at it says EINVAL.
    filtered(sys!(SYS_pivot_root, c"/tmp", c"/tmp"))
}

/// A namespace of any kind without a user namespace around it takes `CAP_SYS_ADMIN`.
pub(crate) fn new_namespaces(_: &Facts) -> Outcome {
    let kinds = [
        ("mount", libc::CLONE_NEWNS),
        ("pid", libc::CLONE_NEWPID),
        ("net", libc::CLONE_NEWNET),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("time", 0x80),
    ];
    all(kinds.map(|(name, flag)| (name.to_owned(), denied(sys!(SYS_unshare, flag)))))
}
