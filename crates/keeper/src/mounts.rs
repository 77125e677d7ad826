//! Mounts as descriptors: made detached, attached beneath a root that may be hostile.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree,
};
use wire::keeper::Launch;

use crate::sys;

pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(crate) const HARMLESS: u64 =
    libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;

/// A detached copy of the mount at `path`, with attributes and, if given, an id map.
pub(crate) fn clone_tree(
    path: &str,
    attributes: u64,
    users: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let tree = open_tree(
        CWD,
        path,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?;
    sys::mount_setattr(&tree, attributes, users)?;
    Ok(tree)
}

/// File systems without id-mapped mounts show the host's owners, which inside are nobody.
pub(crate) fn clone_for_ids(path: &str, attributes: u64, users: &OwnedFd) -> io::Result<OwnedFd> {
    match clone_tree(path, attributes, Some(users)) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            clone_tree(path, attributes, None)
        }
        other => other,
    }
}

/// A detached copy of one file or directory of a mount we hold.
pub(crate) fn clone_within(
    directory: impl AsFd,
    path: &str,
    attributes: u64,
) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(directory, path, flags)?;
    if attributes != 0 {
        sys::mount_setattr(&tree, attributes, None)?;
    }
    Ok(tree)
}

/// A new file system, detached. Options without a value are flags.
pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, Option<&str>)],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        match value {
            Some(value) => fsconfig_set_string(context.as_fd(), *key, *value)?,
            None => fsconfig_set_flag(context.as_fd(), *key)?,
        }
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        attributes,
    )?)
}

/// The sandbox's root: its upper over its layers, every one seen through the sandbox's id map.
///
/// Must be called with the file-system ids of the range's first id: as host root, which has no
/// mapping, the kernel would quietly give a read-only mount.
pub(crate) fn overlay(launch: &Launch, users: &OwnedFd) -> io::Result<OwnedFd> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |tree: &OwnedFd, path: &str| openat(tree, path, directory, Mode::empty());
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    fsconfig_set_string(context, "source", "nacre")?;
    // A detached mount is dissolved with its descriptor, and then the kernel does not take it.
    let mut trees = Vec::with_capacity(launch.layers.len());
    for layer in launch.layers.iter().chain(&launch.apart) {
        trees.push(clone_tree(layer, HARMLESS, Some(users))?);
    }
    if launch.apart.is_some() {
        trees.push(merged(&trees)?);
    }
    let lower = match (&launch.apart, trees.last()) {
        (Some(_), Some(merged)) => std::slice::from_ref(merged),
        _ => &trees,
    };
    for tree in lower {
        fsconfig_set_fd(context, "lowerdir+", open(tree, ".")?.as_fd())?;
    }
    let disk = clone_tree(&launch.disk, HARMLESS, Some(users))?;
    fsconfig_set_fd(context, "upperdir", open(&disk, "upper")?.as_fd())?;
    fsconfig_set_fd(context, "workdir", open(&disk, "work")?.as_fd())?;
    // Spelled out, because a kernel's defaults are its packager's choice.
    for (key, value) in [
        ("redirect_dir", "on"),
        ("index", "off"),
        ("metacopy", "off"),
        ("xino", "off"),
        ("nfs_export", "off"),
    ] {
        fsconfig_set_string(context, key, value)?;
    }
    fsconfig_create(context).map_err(|error| explain(context, error))?;
    let mount = fsmount(
        context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    let flags = rustix::fs::fstatvfs(&mount)?.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        // It says nothing of why it could not make its own directory there; a full disk is one.
        mkdirat(&disk, "work/probe", Mode::from(0o700))?;
        return Err(io::Error::other("the kernel gave a read-only root"));
    }
    Ok(mount)
}

/// Layers as one file system of its own, whose files the kernel does not take for those of a disk.
fn merged(layers: &[OwnedFd]) -> io::Result<OwnedFd> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    fsconfig_set_string(context, "source", "nacre")?;
    for layer in layers {
        let top = openat(layer, ".", directory, Mode::empty())?;
        fsconfig_set_fd(context, "lowerdir+", top.as_fd())?;
    }
    for (key, value) in [
        ("redirect_dir", "follow"),
        ("index", "off"),
        ("metacopy", "off"),
        ("xino", "off"),
        ("nfs_export", "off"),
    ] {
        fsconfig_set_string(context, key, value)?;
    }
    fsconfig_create(context).map_err(|error| explain(context, error))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// The kernel's own words, which it queues on the file-system context.
fn explain(context: impl AsFd, error: rustix::io::Errno) -> io::Error {
    let mut text = [0u8; 512];
    match rustix::io::read(context, &mut text) {
        Ok(length) => {
            let words = String::from_utf8_lossy(&text[..length]);
            io::Error::new(
                io::Error::from(error).kind(),
                format!("{} ({error})", words.trim()),
            )
        }
        Err(_) => error.into(),
    }
}

/// `/dev` of the sandbox: made by the keeper, because inside a user namespace nobody may.
pub(crate) fn devices(first_id: u32) -> io::Result<OwnedFd> {
    let id = first_id.to_string();
    let options = [
        ("size", Some("64k")),
        ("nr_inodes", Some("128")),
        ("mode", Some("755")),
        ("uid", Some(&*id)),
        ("gid", Some(&*id)),
    ];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = new_filesystem("tmpfs", &options, attributes)?;
    // Everyone may use these, whatever mask the keeper inherited.
    let mask = rustix::process::umask(Mode::empty());
    for (name, minor, major) in [
        ("null", 3, 1),
        ("zero", 5, 1),
        ("full", 7, 1),
        ("random", 8, 1),
        ("urandom", 9, 1),
        ("tty", 0, 5),
    ] {
        let device = rustix::fs::makedev(major, minor);
        rustix::fs::mknodat(
            &mount,
            name,
            rustix::fs::FileType::CharacterDevice,
            Mode::from(0o666),
            device,
        )?;
    }
    rustix::process::umask(mask);
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        rustix::fs::symlinkat(target, &mount, name)?;
    }
    for name in ["pts", "shm"] {
        mkdirat(&mount, name, Mode::from(0o755))?;
    }
    Ok(mount)
}

/// Attaches `mount` at `path` below `root`. The tree is hostile: no component may be a link, so
/// nothing lands anywhere but where we say. Missing directories are made.
pub(crate) fn attach(mount: &OwnedFd, root: &OwnedFd, path: &str) -> io::Result<()> {
    let target = match open_beneath(root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_directories(root, path)?;
            open_beneath(root, path)?
        }
        other => other?,
    };
    attach_at(mount, &target)
}

/// As [`attach`], but only over something that exists; a file for a file.
pub(crate) fn cover(mount: &OwnedFd, root: &OwnedFd, path: &str) -> io::Result<()> {
    match open_beneath(root, path) {
        Ok(target) => {
            let is_directory = |fd: &OwnedFd| {
                rustix::fs::fstat(fd).map(|s| s.st_mode & libc::S_IFMT == libc::S_IFDIR)
            };
            if is_directory(mount)? == is_directory(&target)? {
                attach_at(mount, &target)
            } else {
                Ok(())
            }
        }
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOENT | libc::ELOOP | libc::ENOTDIR)
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn attach_at(mount: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount.as_fd(), "", target.as_fd(), "", flags)?)
}

pub(crate) fn open_beneath(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(
        root,
        path,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        resolve,
    )?)
}

pub(crate) fn make_directories(root: &OwnedFd, path: &str) -> io::Result<()> {
    for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
        let (parent, name) = path[..end].rsplit_once('/').unwrap_or((".", &path[..end]));
        match mkdirat(open_beneath(root, parent)?, name, Mode::from(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
