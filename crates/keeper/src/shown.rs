//! What the host shows a sandbox and no disk holds: one small file system in memory, in parts.
//!
//! ```text
//! identity/N   laid over /etc/hostname and its kind, one mount each
//! sys/         read-only at /sys
//! doors/       read-only at /run/nacre; its sockets are the doors, files/ holds the order's files,
//!              bin/ the program that people inside call nacre
//! ```
//!
//! Only the keeper holds a mount of it that can be written to. Nothing of it is a file of the host,
//! so the sandbox's list of mounts names no place outside.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, mkdirat, open, openat, openat2};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::thread::{Gid, LinkNameSpaceType, Uid, move_into_link_name_space};
use wire::keeper::{FILES, INSIDE, Launch};

use crate::mounts::{HARMLESS, READ_ONLY, clone_within, new_filesystem};
use crate::{runsc, sys};

/// The few files of `/sys` that programs ask for the machine's shape.
const SYS: [&str; 5] = [
    "devices/system/cpu/online",
    "devices/system/cpu/possible",
    "devices/system/cpu/present",
    "devices/system/node/online",
    "kernel/mm/transparent_hugepage/enabled",
];
const SYS_DIRECTORIES: [&str; 9] = [
    "devices",
    "devices/system",
    "devices/system/cpu",
    "devices/system/node",
    "fs",
    "fs/cgroup",
    "kernel",
    "kernel/mm",
    "kernel/mm/transparent_hugepage",
];
/// More than any of them holds.
const SYS_FILE: usize = 1 << 10;

/// For everything but the order's files, and what a file takes beyond its content.
const OWN_KIB: usize = 128;
const PAGE_KIB: usize = 4;

pub(crate) struct Shown {
    pub(crate) identity: Vec<OwnedFd>,
    pub(crate) sys: OwnedFd,
    pub(crate) doors: OwnedFd,
}

/// Makes it. The first descriptor is the directory of doors as the keeper alone may write to it.
pub(crate) fn make(order: &Launch) -> io::Result<(OwnedFd, Shown)> {
    let id = order.first_id.to_string();
    let files: usize = order.files.iter().map(|(_, content)| content.len()).sum();
    let inside = order.inside.as_deref().map(program).transpose()?;
    let inside_size = inside.as_ref().map_or(0, Vec::len);
    let size = format!(
        "{}k",
        OWN_KIB + (files + inside_size).div_ceil(1 << 10) + order.files.len() * PAGE_KIB
    );
    let options = [
        ("size", Some(&*size)),
        ("nr_inodes", Some("256")),
        ("mode", Some("755")),
        ("uid", Some(&*id)),
        ("gid", Some(&*id)),
    ];
    let memory = new_filesystem("tmpfs", &options, MountAttrFlags::empty())?;
    for name in ["identity", "sys", "doors", "doors/env"] {
        mkdirat(&memory, name, Mode::from(0o755))?;
    }
    if runsc::is_used(order) {
        // What is attached there: the runner, and the directory for its socket.
        write(&memory, "doors/nacre", b"")?;
        mkdirat(&memory, format!("doors/{}", runsc::BOOT), Mode::from(0o755))?;
    }
    if let Some(program) = inside {
        mkdirat(&memory, "doors/bin", Mode::from(0o755))?;
        let name = format!("doors/{INSIDE}");
        write(&memory, &name, &program)?;
        rustix::fs::chmodat(&memory, &name, Mode::from(0o755), AtFlags::empty())?;
    }
    if !order.files.is_empty() {
        mkdirat(&memory, format!("doors/{FILES}"), Mode::from(0o755))?;
    }
    for (name, content) in &order.files {
        write(
            &memory,
            &format!("doors/{FILES}/{name}"),
            content.as_bytes(),
        )?;
    }
    let mut identity = Vec::with_capacity(order.identity.len());
    for (number, (_, content)) in order.identity.iter().enumerate() {
        let name = format!("identity/{number}");
        write(&memory, &name, content.as_bytes())?;
        identity.push(clone_within(&memory, &name, READ_ONLY | HARMLESS)?);
    }
    for name in SYS_DIRECTORIES {
        mkdirat(&memory, format!("sys/{name}"), Mode::from(0o755))?;
    }
    for name in SYS {
        let mut content = [0u8; SYS_FILE];
        // A machine without the file is a sandbox without it.
        let length = open(
            format!("/sys/{name}"),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .and_then(|file| rustix::io::read(file, &mut content));
        if let Ok(length) = length {
            write(&memory, &format!("sys/{name}"), &content[..length])?;
        }
    }
    // The host's, so that the one who owns everything else inside does not own it.
    rustix::fs::chownat(
        &memory,
        "doors",
        Some(Uid::ROOT),
        Some(Gid::ROOT),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    let shown = Shown {
        identity,
        sys: clone_within(&memory, "sys", READ_ONLY | HARMLESS)?,
        doors: clone_within(
            &memory,
            "doors",
            READ_ONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        )?,
    };
    Ok((clone_within(&memory, "doors", HARMLESS)?, shown))
}

fn program(path: &str) -> io::Result<Vec<u8>> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut content = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(file), &mut content)?;
    Ok(content)
}

fn write(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::from(0o644))?;
    rustix::fs::fchmod(&file, Mode::from(0o644))?;
    let mut left = content;
    while !left.is_empty() {
        let written = rustix::io::write(&file, left)?;
        left = &left[written..];
    }
    Ok(())
}

/// The directory of doors of a sandbox whose keeper is gone, to be written to again.
///
/// Its mounts can be cloned only from within its mount namespace, which a thread of our own enters:
/// what belongs to the process stays where it is.
pub(crate) fn find_doors(pid: i32, place: &'static str) -> io::Result<OwnedFd> {
    let namespace = open(
        format!("/proc/{pid}/ns/mnt"),
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    std::thread::scope(|scope| {
        scope
            .spawn(move || doors_within(&namespace, place))
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the search for the doors failed")))
    })
}

fn doors_within(namespace: &OwnedFd, place: &str) -> io::Result<OwnedFd> {
    sys::unshare_working_directory()?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    let doors = openat2(
        CWD,
        place,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )?;
    // Nobody inside can make a directory that belongs to the host's root.
    if rustix::fs::fstat(&doors)?.st_uid != 0 {
        return Err(io::Error::other("the doors are not the host's"));
    }
    let tree = open_tree(
        &doors,
        "",
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH,
    )?;
    sys::make_writable(&tree)?;
    Ok(tree)
}
