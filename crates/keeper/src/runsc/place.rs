//! The child's last steps: builds the small root that runsc runs in, and becomes it.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, chmodat, mkdirat, openat};
use rustix::mount::MountAttrFlags;
use wire::keeper::Launch;

use super::{BOOT, TMP_IS_NOT_EMPTY, bundle};
use crate::inside::{self, At as _, Failed, Place};
use crate::mounts::{attach, cover, make_directories, new_filesystem};
use crate::sys;

pub(super) const ROOT: &str = "root";
pub(super) const DOORS: &str = "doors";
pub(super) const BUNDLE: &str = "bundle";
pub(super) const STATE: &str = "state";
const PROGRAM: &str = "runsc";

pub(crate) fn seen_from_outside(pid: i32) -> Place {
    Place {
        root: format!("/proc/{pid}/root/{ROOT}"),
        doors: "/doors",
    }
}

/// File systems that the child may make itself.
pub(crate) struct Own {
    place: OwnedFd,
    proc: OwnedFd,
    run: OwnedFd,
}

/// Descriptors that runsc passes on, and where it complains.
pub(crate) struct Descriptors {
    pub(crate) config: OwnedFd,
    pub(crate) ready: OwnedFd,
    pub(crate) complaints: OwnedFd,
}

pub(crate) fn make_own(launch: &Launch) -> Result<Own, Failed> {
    inside::prepare_namespaces(launch)?;
    let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let small = [("size", Some("16m")), ("mode", Some("755"))];
    Ok(Own {
        place: new_filesystem("tmpfs", &small, harmless).at("place")?,
        proc: new_filesystem("proc", &[], harmless | MountAttrFlags::MOUNT_ATTR_NOEXEC)
            .at("proc")?,
        run: new_filesystem("tmpfs", &small, harmless).at("run")?,
    })
}

/// Builds the place, leaves the host's tree, and becomes runsc. Returns only on failure.
pub(crate) fn become_runsc(
    launch: &Launch,
    own: &Own,
    common: &inside::Mounts,
    special: &[OwnedFd],
    descriptors: Descriptors,
) -> Failed {
    match prepare(launch, own, common, special, descriptors) {
        Ok((program, arguments)) => ("starting runsc", sys::become_program(&program, &arguments)),
        Err(failed) => failed,
    }
}

fn prepare(
    launch: &Launch,
    own: &Own,
    common: &inside::Mounts,
    special: &[OwnedFd],
    descriptors: Descriptors,
) -> Result<(CString, Vec<CString>), Failed> {
    let program = CString::new(format!("/{PROGRAM}")).map_err(io::Error::other);
    let arguments = bundle::arguments(launch)
        .into_iter()
        .map(CString::new)
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other);
    build(launch, own, common, special)?;
    inside::enter_root(&own.place).at("entering the place")?;
    inside::standard_streams().at("standard streams")?;
    rustix::stdio::dup2_stderr(&descriptors.complaints).at("standard streams")?;
    sys::arrange_descriptors(&[&descriptors.config, &descriptors.ready]).at("descriptors")?;
    rustix::process::umask(Mode::from(0o022));
    rustix::process::setsid().at("session")?;
    sys::ignore_signals(false);
    // The owners' numbers now mean something else; closing them again would hit the wrong files.
    std::mem::forget(descriptors);
    Ok((program.at("arguments")?, arguments.at("arguments")?))
}

fn build(
    launch: &Launch,
    own: &Own,
    common: &inside::Mounts,
    special: &[OwnedFd],
) -> Result<(), Failed> {
    let [boot, runner, program] = special else {
        return Err(("mounts of the keeper", io::ErrorKind::UnexpectedEof.into()));
    };
    let place = &own.place;
    inside::attach_anywhere(place)?;
    for name in [ROOT, DOORS, BUNDLE, STATE, "proc", "dev", "tmp"] {
        mkdirat(place, name, Mode::from(0o755)).at("place")?;
    }
    write(place, PROGRAM, b"").at("place")?;
    let specification = serde_json::to_vec(&bundle::specification(launch))
        .map_err(io::Error::other)
        .at("bundle")?;
    write(place, &format!("{BUNDLE}/config.json"), &specification).at("bundle")?;

    attach(&common.root, place, ROOT).at("attaching the root")?;
    inside::attach_binds(launch, common)?;
    // gVisor has its own at /run; this is what runsc makes the doors' directory in, so that it is
    // not on the disk.
    attach(&own.run, &common.root, "run").at("attaching run")?;
    mkdirat(&own.run, "nacre", Mode::from(0o755)).at("attaching run")?;
    inside::cover_identity(launch, common)?;
    keep_tmp(&common.root);

    attach(&own.proc, place, "proc").at("attaching proc")?;
    attach(&common.devices, place, "dev").at("attaching dev")?;
    attach(&common.shown.doors, place, DOORS).at("attaching the doors")?;
    attach(boot, place, &format!("{DOORS}/{BOOT}")).at("attaching the doors")?;
    cover(runner, place, &format!("{DOORS}/nacre")).at("the runner")?;
    cover(program, place, PROGRAM).at("runsc")
}

/// Best effort: where `/tmp` is a link or a file, gVisor does not cover it either.
fn keep_tmp(root: &OwnedFd) {
    if mkdirat(root, "tmp", Mode::from(0o755)).is_ok() {
        let _ = chmodat(root, "tmp", Mode::from(0o1777), AtFlags::empty());
    }
    let _ = make_directories(root, TMP_IS_NOT_EMPTY);
}

fn write(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from(0o644))?;
    io::Write::write_all(&mut std::fs::File::from(file), content)
}
