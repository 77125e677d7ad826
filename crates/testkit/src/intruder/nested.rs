//! Everybody may make a user namespace, and is almighty in it. What does that gain?

use super::facts::Facts;
use super::mounts::mount_points;
use super::sys::{Errno, NULL, sys};
use super::{Outcome, all, broke, denied, held};

const USER: i32 = libc::CLONE_NEWUSER;

/// Becomes root of a new user namespace with what else is asked for.
fn become_root(with: i32) -> Result<(), Outcome> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    sys!(SYS_unshare, USER | with).map_err(|errno| held(format!("no namespace: {errno}")))?;
    // Without the maps we would be almighty and nobody; that is tried too, should they be refused.
    let _ = fs_err::write("/proc/self/setgroups", "deny");
    let _ = fs_err::write("/proc/self/uid_map", format!("0 {user} 1"));
    let _ = fs_err::write("/proc/self/gid_map", format!("0 {group} 1"));
    if with & libc::CLONE_NEWNS != 0 {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let _ = sys!(SYS_mount, c"none", c"/", NULL, private, NULL);
    }
    Ok(())
}

macro_rules! root_or_return {
    ($with:expr) => {
        if let Err(outcome) = become_root($with) {
            return outcome;
        }
    };
}

/// A new proc would show what is covered in ours.
pub(crate) fn mount_proc(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS | libc::CLONE_NEWPID);
    super::child::in_child(std::time::Duration::from_secs(5), || {
        denied(sys!(SYS_mount, c"proc", c"/tmp", c"proc", 0, NULL))
    })
}

pub(crate) fn mount_sysfs(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS | libc::CLONE_NEWNET);
    denied(sys!(SYS_mount, c"sysfs", c"/tmp", c"sysfs", 0, NULL))
}

pub(crate) fn mount_control_groups(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP);
    all([
        (c"cgroup2", NULL),
        (c"cgroup", c"memory".into()),
        (c"cgroup", c"none,name=nacre-intruder".into()),
    ]
    .map(|(kind, options)| {
        (
            kind.to_string_lossy().into_owned(),
            denied(sys!(SYS_mount, c"none", c"/tmp", kind, 0, options)),
        )
    }))
}

/// File systems whose bytes the kernel reads and trusts.
pub(crate) fn mount_disks(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS);
    all([
        c"ext4",
        c"xfs",
        c"btrfs",
        c"vfat",
        c"squashfs",
        c"erofs",
        c"debugfs",
        c"tracefs",
        c"securityfs",
        c"bpf",
    ]
    .map(|kind| {
        let name = kind.to_string_lossy().into_owned();
        let outcome = match sys!(SYS_mount, c"/dev/null", c"/tmp", kind, 0, NULL) {
            Err(Errno(libc::ENOTBLK)) => broke("only the device was wrong"),
            other => denied(other),
        };
        (name, outcome)
    }))
}

/// What was mounted read-only around us stays so.
pub(crate) fn remount_writable(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS);
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    let read_only = fs_err::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let read_only = read_only.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        options
            .split(',')
            .any(|option| option == "ro")
            .then(|| point.to_owned())
    });
    all(read_only.map(|point| {
        let path = super::facts::c_path(&point);
        (
            point,
            denied(sys!(SYS_mount, NULL, path.as_c_str(), NULL, flags, NULL)),
        )
    }))
}

/// What was mounted around us covers what it covers.
pub(crate) fn uncover(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS);
    let covers = mount_points()
        .into_iter()
        .filter(|point| point.starts_with("/proc/") || point.starts_with("/run/nacre"));
    all(covers.map(|point| {
        let path = super::facts::c_path(&point);
        (
            point,
            denied(sys!(SYS_umount2, path.as_c_str(), libc::MNT_DETACH)),
        )
    }))
}

/// A copy of `/proc` without the covers that are on it.
pub(crate) fn bind_below_covers(_: &Facts) -> Outcome {
    const OPEN_TREE_CLONE: i32 = 1;
    root_or_return!(libc::CLONE_NEWNS);
    let covered = mount_points()
        .into_iter()
        .any(|point| point.starts_with("/proc/"));
    if !covered {
        return broke("nothing is covered in /proc");
    }
    all([
        (
            "bind".to_owned(),
            denied(sys!(
                SYS_mount,
                c"/proc",
                c"/tmp",
                NULL,
                libc::MS_BIND,
                NULL
            )),
        ),
        (
            "open_tree".to_owned(),
            denied(sys!(
                SYS_open_tree,
                libc::AT_FDCWD,
                c"/proc",
                OPEN_TREE_CLONE
            )),
        ),
    ])
}

pub(crate) fn make_devices(_: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS);
    // On a file system of our own, if we get one.
    let mounted = sys!(SYS_mount, c"none", c"/tmp", c"tmpfs", 0, NULL);
    let path = c"/tmp/.nacre-intruder-nested";
    let made = sys!(
        SYS_mknodat,
        libc::AT_FDCWD,
        path,
        libc::S_IFCHR | 0o600,
        libc::makedev(1, 5)
    );
    let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, path, 0);
    all([(format!("tmpfs: {mounted:?}"), denied(made))])
}

/// The host's file, from above.
pub(crate) fn see_host_file(facts: &Facts) -> Outcome {
    root_or_return!(libc::CLONE_NEWNS);
    let outside = super::files::see_host_file(facts);
    let escaped = super::files::chroot_out(facts);
    all([
        ("the file".to_owned(), outside),
        ("by chroot".to_owned(), escaped),
    ])
}

/// The limit that the sandbox was given is the outer one, and only it may raise it.
pub(crate) fn raise_namespace_limit(_: &Facts) -> Outcome {
    root_or_return!(0);
    let path = "/proc/sys/user/max_user_namespaces";
    let written = fs_err::write(path, "100000");
    let count = super::budgets::count_user_namespaces(MOST + 40);
    let limit = fs_err::read_to_string(path).unwrap_or_default();
    let detail = format!(
        "writing: {:?}; reads {}; {count} made",
        written.map_err(|error| error.to_string()),
        limit.trim()
    );
    if count <= MOST {
        held(detail)
    } else {
        broke(detail)
    }
}

/// As many user namespaces as a sandbox may have.
pub(crate) const MOST: usize = 64;

pub(crate) fn count_namespaces(_: &Facts) -> Outcome {
    let count = super::budgets::count_user_namespaces(MOST + 40);
    if count <= MOST {
        held(format!("{count} and no more"))
    } else {
        broke(format!("{count}, and there were more"))
    }
}

/// A network namespace of our own has its own loopback and nothing else; packet filters and odd
/// protocols stay out of reach in it too.
pub(crate) fn network(_: &Facts) -> Outcome {
    const NETFILTER: i32 = 12;
    root_or_return!(libc::CLONE_NEWNET);
    let packet = denied(sys!(SYS_socket, libc::AF_PACKET, libc::SOCK_RAW, 0));
    let filter = denied(sys!(
        SYS_socket,
        libc::AF_NETLINK,
        libc::SOCK_RAW,
        NETFILTER
    ));
    let raw = sys!(SYS_socket, libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW);
    let interfaces = super::network::interfaces_beside_loopback();
    let alone = if interfaces.is_empty() {
        held(format!("alone; a raw socket: {raw:?}"))
    } else {
        broke(interfaces.join(", "))
    };
    all([
        ("loopback".to_owned(), alone),
        ("AF_PACKET".to_owned(), packet),
        ("NETLINK_NETFILTER".to_owned(), filter),
    ])
}

/// Almighty inside is powerless over what is outside.
pub(crate) fn power_over_host(_: &Facts) -> Outcome {
    root_or_return!(0);
    all([
        (
            "settimeofday".to_owned(),
            denied(sys!(SYS_settimeofday, NULL, NULL)),
        ),
        (
            "reboot".to_owned(),
            super::filtered(sys!(SYS_reboot, 1, 2, 3, NULL)),
        ),
        (
            "real time".to_owned(),
            denied(sys!(
                SYS_sched_setscheduler,
                0,
                libc::SCHED_FIFO,
                &1_i32.to_ne_bytes()
            )),
        ),
        (
            "sysrq".to_owned(),
            super::proc_and_sys::sysrq(&Facts::default()),
        ),
        (
            "kernel memory".to_owned(),
            super::proc_and_sys::kernel_memory(&Facts::default()),
        ),
        ("setns".to_owned(), {
            match sys!(
                SYS_openat,
                libc::AT_FDCWD,
                c"/proc/1/ns/mnt",
                libc::O_RDONLY
            ) {
                Ok(fd) => denied(sys!(SYS_setns, fd, libc::CLONE_NEWNS)),
                Err(errno) => held(errno.to_string()),
            }
        }),
    ])
}
