//! Files of the host, and attributes that the host's kernel obeys.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Command;

use super::facts::{Facts, c_path};
use super::sys::{Errno, sys};
use super::{Outcome, all, broke, denied, held};

pub(crate) fn see_host_file(facts: &Facts) -> Outcome {
    let Some(canary) = &facts.canary_file else {
        return broke("not tried: no --canary-file");
    };
    match fs_err::symlink_metadata(canary) {
        Ok(_) => broke("it is there"),
        Err(error) => held(error.to_string()),
    }
}

/// Whoever can talk to one of these runs programs on the host.
pub(crate) fn host_sockets(_: &Facts) -> Outcome {
    let sockets = [
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/systemd/journal/socket",
        "/run/nacre/keeper",
        "/run/nacre/keeper.sock",
        "/var/lib/nacre",
    ];
    all(sockets.map(|path| {
        let outcome = match fs_err::symlink_metadata(path) {
            Ok(_) => broke("it is there"),
            Err(error) => held(error.to_string()),
        };
        (path.to_owned(), outcome)
    }))
}

pub(crate) fn see_layers(facts: &Facts) -> Outcome {
    let Some(layers) = &facts.layer_dir else {
        return broke("not tried: no --layer-dir");
    };
    let named = fs_err::read_to_string("/proc/self/mountinfo")
        .is_ok_and(|mounts| mounts.contains(&*layers.to_string_lossy()));
    match fs_err::symlink_metadata(layers) {
        Ok(_) => broke("it is there"),
        Err(error) => held(format!(
            "{error}; {}",
            if named {
                "mountinfo names it"
            } else {
                "mountinfo does not name it"
            }
        )),
    }
}

/// A file of our own to put attributes on, and its removal.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!(
            "/tmp/.nacre-intruder-{}-{name}",
            std::process::id()
        ));
        let _ = fs_err::write(&path, "");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.0);
    }
}

/// overlayfs and the security modules of the host believe what these say.
pub(crate) fn trusted_attributes(_: &Facts) -> Outcome {
    let scratch = Scratch::new("attributes");
    let path = c_path(scratch.0.clone());
    let names = [
        c"trusted.overlay.opaque",
        c"trusted.overlay.redirect",
        c"trusted.overlay.metacopy",
        c"trusted.nacre",
        c"security.nacre",
        c"security.ima",
    ];
    all(names.map(|name| {
        let set = sys!(SYS_setxattr, path.as_c_str(), name, b"y", 1, 0);
        (name.to_string_lossy().into_owned(), denied(set))
    }))
}

/// Capabilities on a file for root of another namespace. The number is the inside's, so the
/// host's root cannot even be named; what is beyond our map must not be either.
pub(crate) fn capabilities_for_host_root(_: &Facts) -> Outcome {
    let scratch = Scratch::new("rootid");
    let path = c_path(scratch.0.clone());
    all([65_536_u32, 100_000, u32::MAX - 1].map(|root| {
        let set = sys!(
            SYS_setxattr,
            path.as_c_str(),
            c"security.capability",
            &file_capabilities(root),
            24,
            0
        );
        (root.to_string(), denied(set))
    }))
}

/// A program with every capability on its file gets no more than the bounding set has.
pub(crate) fn program_with_capabilities(_: &Facts) -> Outcome {
    const SYS_ADMIN: u64 = 1 << 21;
    let scratch = Scratch::new("program");
    let prepared = std::env::current_exe()
        .and_then(|own| fs_err::copy(own, &scratch.0))
        .and_then(|_| fs_err::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o755)));
    if let Err(error) = prepared {
        return held(format!("no program to be had: {error}"));
    }
    let path = c_path(scratch.0.clone());
    let set = sys!(
        SYS_setxattr,
        path.as_c_str(),
        c"security.capability",
        &file_capabilities(0),
        24,
        0
    );
    let gained = match Command::new(&scratch.0).arg("--show-capabilities").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => return held(format!("attribute: {set:?}; it does not start: {error}")),
    };
    match u64::from_str_radix(&gained, 16) {
        Ok(capabilities) if capabilities & SYS_ADMIN == 0 => {
            held(format!("attribute: {set:?}; it has {gained}"))
        }
        _ => broke(format!("it has {gained}")),
    }
}

/// `vfs_ns_cap_data`: all permitted, all effective.
fn file_capabilities(root: u32) -> [u8; 24] {
    const REVISION_3: u32 = 0x0300_0000;
    const EFFECTIVE: u32 = 1;
    let words = [REVISION_3 | EFFECTIVE, u32::MAX, 0, u32::MAX >> 23, 0, root];
    let mut bytes = [0; 24];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Setuid works inside. Who it makes us is root of the map, which `identity/id-maps` checks.
pub(crate) fn setuid_program(_: &Facts) -> Outcome {
    let scratch = Scratch::new("setuid");
    let owned = sys!(SYS_chown, c_path(scratch.0.clone()).as_c_str(), 0, 0);
    let marked = fs_err::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o4755));
    match fs_err::read_to_string("/proc/self/uid_map") {
        Ok(map)
            if map
                .lines()
                .any(|line| line.split_whitespace().nth(1) == Some("0")) =>
        {
            broke(format!(
                "chown: {owned:?}, chmod: {marked:?}, and root inside is root outside"
            ))
        }
        _ => held(format!(
            "chown: {owned:?}, chmod: {:?}; root inside is nobody outside",
            marked.is_ok()
        )),
    }
}

/// Leaving a root by the way that `chroot` leaves open leads to our own root, not to the host's.
pub(crate) fn chroot_out(facts: &Facts) -> Outcome {
    let identity = |path: &str| {
        fs_err::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    let before = identity("/");
    let directory = PathBuf::from(format!("/tmp/.nacre-intruder-{}-root", std::process::id()));
    let _ = fs_err::create_dir(&directory);
    let top = sys!(
        SYS_openat,
        libc::AT_FDCWD,
        c"/",
        libc::O_RDONLY | libc::O_DIRECTORY
    );
    let entered = sys!(SYS_chroot, c_path(directory.clone()).as_c_str());
    let climbed = top.and_then(|top| {
        sys!(SYS_fchdir, top)?;
        for _ in 0..64 {
            sys!(SYS_chdir, c"..")?;
        }
        sys!(SYS_chroot, c".")
    });
    let _ = fs_err::remove_dir(&directory);
    let canary = facts
        .canary_file
        .as_deref()
        .is_some_and(|canary| fs_err::symlink_metadata(canary).is_ok());
    match (entered, identity("/") == before, canary) {
        (_, _, true) => broke("the host's file is there"),
        (Ok(_), false, _) => broke(format!("another root than before ({climbed:?})")),
        (entered, ..) => held(format!("{entered:?}, and it is the root that it was")),
    }
}

/// A handle names a file by number, past every path. The kernel must not open one for us.
pub(crate) fn open_by_handle(_: &Facts) -> Outcome {
    let root = sys!(
        SYS_openat,
        libc::AT_FDCWD,
        c"/",
        libc::O_RDONLY | libc::O_DIRECTORY
    );
    let mut handle = [0; 136];
    handle[..4].copy_from_slice(&128_u32.to_ne_bytes());
    let mut mount = [0; 4];
    let named = sys!(
        SYS_name_to_handle_at,
        libc::AT_FDCWD,
        c"/",
        &mut handle,
        &mut mount,
        0
    );
    if named.is_err() {
        // The root directory of most file systems, as ext4 names it.
        handle[..4].copy_from_slice(&8_u32.to_ne_bytes());
        handle[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        handle[8..12].copy_from_slice(&2_u32.to_ne_bytes());
    }
    let opened = sys!(
        SYS_open_by_handle_at,
        root.unwrap_or(-1),
        &mut handle,
        libc::O_RDONLY
    );
    match opened {
        Err(errno @ Errno(libc::EPERM | libc::ENOSYS)) => {
            held(format!("name: {named:?}; open: {errno}"))
        }
        other => broke(format!("name: {named:?}; open: {other:?}")),
    }
}
