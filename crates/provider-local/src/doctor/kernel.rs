//! What a sandbox asks of the kernel, each tried as the keeper does it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_string, fsmount, fsopen,
    mount_change, move_mount, open_tree,
};

use super::idle::Idle;
use super::scratch::Scratch;
use super::{Finding, Fix, ranges};
use crate::cgroup::{Controller, Layout};
use crate::netns::Pool;
use crate::{Config, sys};

const NEWER: &str = "run a newer kernel, or one that its packager built with this";
const CONFINED: &str =
    "run nacre outside whatever confines it, such as a container: it is not allowed to do this";

pub(super) fn version() -> Finding {
    let uname = rustix::system::uname();
    Finding::info(
        "kernel",
        format!(
            "{} {}",
            uname.release().to_string_lossy(),
            uname.machine().to_string_lossy()
        ),
    )
}

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    match Layout::detect() {
        Ok(layout) => {
            findings.push(cgroups(&layout));
            findings.extend(processes(config, &layout));
        }
        Err(error) => findings.push(no_cgroups(
            &error.to_string(),
            Utf8Path::new("/sys/fs/cgroup/memory").is_dir(),
        )),
    }
    let network = Pool::new().take().map(|_| ());
    findings.push(tried(
        "network namespaces",
        "one made, its loopback up",
        network,
        NEWER,
    ));
    findings.push(tried(
        "seccomp filters",
        "one put in force",
        on_a_thread(sys::install_empty_filter),
        NEWER,
    ));
    findings.push(tried(
        "new mount calls",
        "a mount made, attached and gone",
        on_a_thread(attach_a_mount),
        NEWER,
    ));
    findings.push(match fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(_) => Finding::ok("overlayfs", "there"),
        Err(Errno::NODEV) => Finding::missing(
            "overlayfs",
            "not in this kernel",
            "load it with `modprobe overlay`",
        )
        .fixed_by(Fix::Module("overlay")),
        Err(error) => tried("overlayfs", "", Err(error.into()), NEWER),
    });
    findings
}

/// What depends on the file system that the home is on.
pub(super) fn examine_with(config: &Config, scratch: &Scratch) -> Vec<Finding> {
    let by_descriptor = match overlay(scratch.path()) {
        Ok(()) => Finding::ok(
            "overlay layers by descriptor",
            "one mounted and written to, on the home's file system",
        ),
        Err(Overlay::Descriptors(error)) => Finding::missing(
            "overlay layers by descriptor",
            format!("not in this kernel ({error})"),
            "run Linux 6.13 or newer: older ones take layers by path only",
        ),
        Err(Overlay::Mount(error)) => {
            let advice = "set NACRE_HOME to a directory on ext4, xfs or btrfs, which can hold a sandbox's disk";
            tried("overlay layers by descriptor", "", Err(error), advice)
        }
    };
    // A child to take the map from is to be had only where there is a cgroup for it.
    let mapped = match Layout::detect().map(|layout| Idle::start(&layout.unified)) {
        Ok(Ok(idle)) => {
            let result = idle
                .map_ids(ranges::free(config))
                .and_then(|users| map_ids(&users, scratch.path()));
            let advice =
                "set NACRE_HOME to a directory on ext4, xfs or btrfs, whose ids can be mapped";
            tried(
                "id-mapped mounts",
                "one made, on the home's file system",
                result,
                advice,
            )
        }
        _ => Finding::info("id-mapped mounts", "not tried: something above is missing"),
    };
    vec![by_descriptor, mapped]
}

fn tried(name: &'static str, good: &str, result: io::Result<()>, advice: &str) -> Finding {
    match result {
        Ok(()) => Finding::ok(name, good),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Finding::missing(name, error.to_string(), CONFINED)
        }
        Err(error) => Finding::missing(name, error.to_string(), advice),
    }
}

/// For what changes the calling thread for good.
fn on_a_thread(work: fn() -> io::Result<()>) -> io::Result<()> {
    std::thread::spawn(work)
        .join()
        .map_err(|_| io::Error::other("it panicked"))?
}

fn cgroups(layout: &Layout) -> Finding {
    const NAME: &str = "cgroups";
    let controllers = [
        ("memory", &layout.memory),
        ("pids", &layout.pids),
        ("cpu", &layout.cpu),
    ];
    let at = |wanted: fn(&Controller) -> bool| -> Vec<&str> {
        controllers
            .iter()
            .filter(|(_, controller)| wanted(controller))
            .map(|(name, _)| *name)
            .collect()
    };
    let legacy = at(|c| matches!(c, Controller::Legacy(_)));
    let absent = at(|c| *c == Controller::Absent);
    let found = if legacy.is_empty() {
        format!("v2 at {}", layout.unified)
    } else {
        format!(
            "hybrid: v2 at {}, {} on v1",
            layout.unified,
            legacy.join(", ")
        )
    };
    if absent.is_empty() {
        return Finding::ok(NAME, found);
    }
    let found = format!("{found}; no {}", absent.join(", "));
    let advice = "boot with the controller (for memory: `cgroup_enable=memory` on the kernel's command line)";
    if absent.contains(&"pids") {
        // Every sandbox has a limit of processes.
        Finding::missing(NAME, found, advice)
    } else {
        Finding::warning(
            NAME,
            found,
            format!("{advice}; until then that cannot be limited"),
        )
    }
}

/// With v1 in its usual place the second hierarchy goes beside it.
fn no_cgroups(error: &str, has_v1: bool) -> Finding {
    let place = if has_v1 {
        "/sys/fs/cgroup/unified"
    } else {
        "/sys/fs/cgroup"
    };
    Finding::missing(
        "cgroups",
        error,
        format!("mount it with `mount -t cgroup2 none {place}`, and at each boot"),
    )
    .fixed_by(Fix::Mount("cgroup2", place.into()))
}

fn processes(config: &Config, layout: &Layout) -> Vec<Finding> {
    const START: &str = "clone3 into a cgroup";
    let idle = match Idle::start(&layout.unified) {
        Ok(idle) => idle,
        Err(error) => {
            let advice = match error.raw_os_error() {
                Some(libc::ENOSPC | libc::EUSERS) => "raise user.max_user_namespaces with sysctl",
                _ => NEWER,
            };
            return vec![tried(START, "", Err(error), advice)];
        }
    };
    let users = idle.map_ids(ranges::free(config)).map(|_| ());
    vec![
        Finding::ok(START, "a child started in one, in namespaces of its own"),
        tried("user namespaces", "one made, its ids mapped", users, NEWER),
        tried("pidfds", "one opened and signalled", idle.signal(), NEWER),
        tried(
            "freeze and kill",
            "a cgroup frozen, then killed",
            idle.freeze_and_kill(),
            NEWER,
        ),
    ]
}

/// In a mount namespace that ends with the thread.
fn attach_a_mount() -> io::Result<()> {
    sys::unshare_mounts()?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "size", "64k")?;
    fsconfig_create(context.as_fd())?;
    let mount = fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    let copy = open_tree(
        &mount,
        ".",
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?;
    for tree in [mount, copy] {
        move_mount(
            tree.as_fd(),
            "",
            CWD,
            "/proc",
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?;
    }
    Ok(())
}

#[derive(Debug)]
enum Overlay {
    Descriptors(io::Error),
    Mount(io::Error),
}

/// An overlay whose layers are given by descriptor, mounted nowhere, and a file in it.
fn overlay(scratch: &Utf8Path) -> Result<(), Overlay> {
    let mount = |error: Errno| Overlay::Mount(error.into());
    let place = scratch.join("overlay");
    for name in ["lower", "upper", "work"] {
        fs_err::create_dir_all(place.join(name)).map_err(Overlay::Mount)?;
    }
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(mount)?;
    let context = context.as_fd();
    for (key, name) in [
        ("lowerdir+", "lower"),
        ("upperdir", "upper"),
        ("workdir", "work"),
    ] {
        let directory = open_directory(&place.join(name)).map_err(mount)?;
        fsconfig_set_fd(context, key, directory.as_fd())
            .map_err(|error| Overlay::Descriptors(error.into()))?;
    }
    for (key, value) in [
        ("redirect_dir", "on"),
        ("index", "off"),
        ("metacopy", "off"),
    ] {
        fsconfig_set_string(context, key, value).map_err(mount)?;
    }
    fsconfig_create(context).map_err(|error| Overlay::Mount(in_its_own_words(context, error)))?;
    let merged = fsmount(
        context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NODEV,
    )
    .map_err(mount)?;
    let flags = rustix::fs::fstatvfs(&merged).map_err(mount)?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Err(Overlay::Mount(io::Error::other(
            "the kernel gave a read-only mount",
        )));
    }
    let new = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(&merged, "file", new, Mode::from(0o600)).map_err(mount)?;
    Ok(())
}

/// The kernel queues what it has to say on the file-system context.
fn in_its_own_words(context: impl std::os::fd::AsFd, error: Errno) -> io::Error {
    let mut text = [0u8; 512];
    match rustix::io::read(context, &mut text) {
        Ok(length) => io::Error::other(format!(
            "{} ({error})",
            String::from_utf8_lossy(&text[..length]).trim()
        )),
        Err(_) => error.into(),
    }
}

fn map_ids(users: &OwnedFd, place: &Utf8Path) -> io::Result<()> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    sys::map_mount_ids(&open_tree(CWD, place.as_std_path(), clone)?, users)
}

fn open_directory(path: &Utf8Path) -> rustix::io::Result<OwnedFd> {
    open(
        path.as_std_path(),
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingStatus;

    fn layout(memory: Controller, pids: Controller) -> Layout {
        Layout {
            unified: "/sys/fs/cgroup/unified".into(),
            memory,
            pids,
            cpu: Controller::Unified,
        }
    }

    #[test]
    fn a_hybrid_layout_says_what_is_where() {
        let v1 = || Controller::Legacy("/sys/fs/cgroup/x".into());
        let finding = cgroups(&layout(v1(), v1()));
        assert_eq!(finding.status, FindingStatus::Ok);
        assert_eq!(
            finding.found,
            "hybrid: v2 at /sys/fs/cgroup/unified, memory, pids on v1"
        );
    }

    #[test]
    fn without_the_memory_controller_there_is_less_and_without_pids_nothing() {
        let less = cgroups(&layout(Controller::Absent, Controller::Unified));
        assert_eq!(less.status, FindingStatus::Warning);
        let nothing = cgroups(&layout(Controller::Unified, Controller::Absent));
        assert_eq!(nothing.status, FindingStatus::Missing);
    }

    #[test]
    fn a_missing_hierarchy_is_mounted_where_this_machine_would_have_it() {
        let beside = no_cgroups("none", true).fix;
        assert_eq!(
            beside,
            Some(Fix::Mount("cgroup2", "/sys/fs/cgroup/unified".into()))
        );
        let alone = no_cgroups("none", false).fix;
        assert_eq!(alone, Some(Fix::Mount("cgroup2", "/sys/fs/cgroup".into())));
    }
}
