//! The child's half of a launch: from a fresh clone to the runner as PID 1.
//!
//! It runs with all capabilities of its own user namespace and none outside it, in a copy of the
//! host's mount tree that it leaves by `pivot_root`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::thread::{CapabilitySet, Gid, Uid};
use wire::keeper::Launch;

use crate::capabilities;
use crate::mounts::{self, READ_ONLY, attach, clone_within, cover, new_filesystem};
use crate::shown::Shown;
use crate::sys;

/// Compiled from `seccomp.txt` by the build script.
const SECCOMP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/seccomp.bpf"));

/// Nobody inside needs these, and some tell about the host.
const MASKED: [&str; 9] = [
    "kcore",
    "keys",
    "key-users",
    "timer_list",
    "sysrq-trigger",
    "latency_stats",
    "acpi",
    "scsi",
    "asound",
];
const READ_ONLY_PROC: [&str; 4] = ["sys", "bus", "fs", "irq"];

/// What the keeper made in the initial user namespace and hands over.
pub(crate) struct Mounts {
    pub(crate) root: OwnedFd,
    pub(crate) devices: OwnedFd,
    pub(crate) binds: Vec<OwnedFd>,
    pub(crate) shown: Shown,
}

/// Descriptors that the runner gets, in the order of `wire::guest`, and the runner itself.
pub(crate) struct Descriptors {
    pub(crate) config: OwnedFd,
    pub(crate) listen: OwnedFd,
    pub(crate) cgroup: OwnedFd,
    pub(crate) ready: OwnedFd,
    pub(crate) workplace: OwnedFd,
    pub(crate) runner: OwnedFd,
}

/// Where the host finds parts of a sandbox, by way of its first process.
pub(crate) struct Place {
    pub(crate) root: String,
    /// As that process sees it.
    pub(crate) doors: &'static str,
}

pub(crate) fn seen_from_outside(pid: i32) -> Place {
    Place {
        root: format!("/proc/{pid}/root"),
        doors: wire::guest::DOORS,
    }
}

/// Where [`Descriptors::runner`] ends up.
const RUNNER: i32 = 8;

/// Which step failed, and how.
pub(crate) type Failed = (&'static str, io::Error);

pub(crate) trait At<T> {
    fn at(self, stage: &'static str) -> Result<T, Failed>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, stage: &'static str) -> Result<T, Failed> {
        self.map_err(|error| (stage, error.into()))
    }
}

/// File systems that the child may make itself, because they belong to its own namespaces.
pub(crate) struct Own {
    proc: OwnedFd,
    terminals: OwnedFd,
    shared_memory: OwnedFd,
    run: OwnedFd,
    env: OwnedFd,
    empty: OwnedFd,
}

/// Takes on root of the new user namespace and its cgroups. The id maps are written by now.
pub(crate) fn settle(legacy_cgroups: &[OwnedFd]) -> Result<(), Failed> {
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).at("group id")?;
    rustix::thread::set_thread_groups(&[]).at("groups")?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).at("user id")?;
    for procs in legacy_cgroups {
        rustix::io::write(procs, b"0").at("entering the cgroups")?;
    }
    // Only now, so that the namespace's root is the sandbox's own cgroup.
    sys::unshare_cgroups().at("cgroup namespace")?;
    Ok(())
}

/// What every runtime wants of the new namespaces.
pub(crate) fn prepare_namespaces(launch: &Launch) -> Result<(), Failed> {
    rustix::system::sethostname(launch.hostname.as_bytes()).at("host name")?;
    limit_namespaces();
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .at("private mounts")
}

/// What can be done before the keeper's mounts are there; it makes them meanwhile.
pub(crate) fn make_own(launch: &Launch) -> Result<Own, Failed> {
    prepare_namespaces(launch)?;
    let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let no_exec = harmless | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = [
        ("newinstance", None),
        ("ptmxmode", Some("666")),
        ("mode", Some("620")),
        ("gid", Some("5")),
        ("max", Some("256")),
    ];
    let size = launch.shm_bytes.to_string();
    let empty = [
        ("size", Some("4k")),
        ("nr_inodes", Some("2")),
        ("mode", Some("555")),
    ];
    Ok(Own {
        // The kernel lets us make a proc only while a whole one is in sight, so before we leave.
        proc: new_filesystem("proc", &[], no_exec).at("proc")?,
        terminals: new_filesystem(
            "devpts",
            &terminals,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )
        .at("devpts")?,
        shared_memory: new_filesystem(
            "tmpfs",
            &[("size", Some(&size)), ("mode", Some("1777"))],
            no_exec,
        )
        .at("shm")?,
        run: new_filesystem(
            "tmpfs",
            &[("size", Some(&size)), ("mode", Some("755"))],
            harmless,
        )
        .at("run")?,
        env: new_filesystem(
            "tmpfs",
            &[("size", Some("1m")), ("mode", Some("711"))],
            no_exec,
        )
        .at("env")?,
        empty: new_filesystem(
            "tmpfs",
            &empty,
            MountAttrFlags::MOUNT_ATTR_RDONLY | harmless,
        )
        .at("masks")?,
    })
}

/// Builds the root, leaves the host's, and becomes the runner. Returns only on failure.
pub(crate) fn become_runner(
    launch: &Launch,
    own: &Own,
    mounts: &Mounts,
    descriptors: Descriptors,
) -> Failed {
    match prepare(launch, own, mounts, descriptors) {
        Ok(()) => ("starting the runner", sys::execute(RUNNER, c"nacre-runner")),
        Err(failed) => failed,
    }
}

fn prepare(
    launch: &Launch,
    own: &Own,
    mounts: &Mounts,
    descriptors: Descriptors,
) -> Result<(), Failed> {
    build_root(launch, own, mounts)?;
    enter_root(&mounts.root).at("entering the root")?;
    standard_streams().at("standard streams")?;
    let keep = [
        &descriptors.config,
        &descriptors.listen,
        &descriptors.cgroup,
        &descriptors.ready,
        &descriptors.workplace,
        &descriptors.runner,
    ];
    sys::arrange_descriptors(&keep).at("descriptors")?;
    rustix::process::umask(Mode::from(0o022));
    rustix::process::setsid().at("session")?;
    sys::ignore_signals(false);
    seal()?;
    // The owners' numbers now mean something else; closing them again would hit the wrong files.
    std::mem::forget(descriptors);
    Ok(())
}

/// Chromium and friends need nested user namespaces, nobody needs many. Without
/// `CAP_SYS_RESOURCE`, which the bounding set lacks, nobody inside can raise it again.
fn limit_namespaces() {
    // Best effort: an older kernel without the file has its own, higher limit.
    if let Ok(file) = open(
        "/proc/sys/user/max_user_namespaces",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        let _ = rustix::io::write(file, b"64");
    }
}

fn build_root(launch: &Launch, own: &Own, mounts: &Mounts) -> Result<(), Failed> {
    let root = &mounts.root;
    attach_anywhere(root)?;
    attach_binds(launch, mounts)?;
    attach(&own.proc, root, "proc").at("attaching proc")?;
    attach(&mounts.shown.sys, root, "sys").at("attaching sys")?;
    attach(&mounts.devices, root, "dev").at("attaching dev")?;
    attach(&own.terminals, root, "dev/pts").at("attaching devpts")?;
    attach(&own.shared_memory, root, "dev/shm").at("attaching shm")?;
    attach(&own.run, root, "run").at("attaching run")?;
    attach(&mounts.shown.doors, root, "run/nacre").at("attaching the doors")?;
    attach(&own.env, root, "run/nacre/env").at("attaching env")?;
    cover_identity(launch, mounts)?;
    mask(root, &own.empty).at("masking proc")
}

/// Any directory will do to hang a new root on: we leave this mount tree right after.
pub(crate) fn attach_anywhere(root: &OwnedFd) -> Result<(), Failed> {
    let anywhere = open(
        "/proc",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .at("proc")?;
    attach(root, &anywhere, ".").at("attaching the root")
}

pub(crate) fn attach_binds(launch: &Launch, mounts: &Mounts) -> Result<(), Failed> {
    for ((_, inside), mount) in launch.binds.iter().zip(&mounts.binds) {
        attach(mount, &mounts.root, inside.trim_start_matches('/')).at("host directories")?;
    }
    Ok(())
}

pub(crate) fn cover_identity(launch: &Launch, mounts: &Mounts) -> Result<(), Failed> {
    for ((inside, _), mount) in launch.identity.iter().zip(&mounts.shown.identity) {
        cover(mount, &mounts.root, inside.trim_start_matches('/')).at("identity")?;
    }
    Ok(())
}

fn mask(root: &OwnedFd, empty: &OwnedFd) -> io::Result<()> {
    for name in MASKED {
        let path = format!("proc/{name}");
        let target = match mounts::open_beneath(root, &path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_directory = rustix::fs::fstat(&target)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let cloth = if is_directory {
            clone_within(empty, ".", 0)?
        } else {
            clone_within(root, "dev/null", READ_ONLY)?
        };
        cover(&cloth, root, &path)?;
    }
    for name in READ_ONLY_PROC {
        let path = format!("proc/{name}");
        match clone_within(root, &path, READ_ONLY) {
            Ok(tree) => cover(&tree, root, &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `pivot_root` onto itself stacks the old root over the new; detaching it leaves only the new.
pub(crate) fn enter_root(root: &OwnedFd) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

pub(crate) fn standard_streams() -> io::Result<()> {
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// The wall: bounding set, then the filter. Executing as root afterwards gives exactly what the
/// bounding set allows.
fn seal() -> Result<(), Failed> {
    for bit in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if capabilities::is_allowed(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last one this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(("bounding set", error.into())),
        }
    }
    rustix::thread::clear_ambient_capability_set().at("ambient set")?;
    sys::install_seccomp(SECCOMP).at("seccomp")
}
