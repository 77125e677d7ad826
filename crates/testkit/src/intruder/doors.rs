//! What is the host's inside a sandbox: the doors, the runner, a borrowed `/usr`.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::facts::{Facts, c_path};
use super::sys::{Errno, sys};
use super::{Outcome, all, broke, denied, held};

const DOORS: &str = "/run/nacre";
/// The one directory below the doors that is the sandbox's own.
pub(crate) const ENV: &str = "/run/nacre/env";

/// Above the root there is the root; what is mounted read-only cannot be linked or moved out of.
pub(crate) fn links_and_renames(_: &Facts) -> Outcome {
    let link = c"/tmp/.nacre-intruder-link";
    let linked = ["/proc/1/exe", "/run/nacre/env"].map(|target| {
        let target = c_path(target);
        let flags = libc::AT_SYMLINK_FOLLOW;
        let made = sys!(
            SYS_linkat,
            libc::AT_FDCWD,
            target.as_c_str(),
            libc::AT_FDCWD,
            link,
            flags
        );
        let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, link, 0);
        (
            format!("link to {}", target.to_string_lossy()),
            denied(made),
        )
    });
    let identity = |path: &str| {
        fs_err::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    let above = if identity("/../..") == identity("/") {
        held("the root")
    } else {
        broke("something else")
    };
    all(linked
        .into_iter()
        .chain([("above the root".to_owned(), above)]))
}

/// Entries of the doors' directory, but for the one that is ours.
fn doors() -> Vec<PathBuf> {
    let entries = fs_err::read_dir(DOORS).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path != Path::new(ENV))
        .collect()
}

pub(crate) fn change_doors(_: &Facts) -> Outcome {
    if !Path::new(DOORS).is_dir() {
        return broke("not tried: there is no /run/nacre");
    }
    let current = fs_err::metadata(DOORS).map_or(0o755, |found| found.mode() & 0o7777);
    let new = c"/run/nacre/.nacre-intruder";
    let made = sys!(
        SYS_openat,
        libc::AT_FDCWD,
        new,
        libc::O_CREAT | libc::O_WRONLY,
        0o600
    );
    let directory = sys!(
        SYS_mkdirat,
        libc::AT_FDCWD,
        c"/run/nacre/.nacre-intruder-d",
        0o700
    );
    let socket = std::os::unix::net::UnixListener::bind("/run/nacre/.nacre-intruder-s");
    for path in [new, c"/run/nacre/.nacre-intruder-s"] {
        let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, path, 0);
    }
    let _ = sys!(
        SYS_unlinkat,
        libc::AT_FDCWD,
        c"/run/nacre/.nacre-intruder-d",
        libc::AT_REMOVEDIR
    );
    let mut outcomes = vec![
        ("a new file".to_owned(), denied(made)),
        ("a new directory".to_owned(), denied(directory)),
        (
            "a new socket".to_owned(),
            denied(socket.map(|_| 0).map_err(Errno::from)),
        ),
        (
            "its mode".to_owned(),
            denied(sys!(SYS_chmod, c"/run/nacre", current)),
        ),
    ];
    for door in doors() {
        let (from, to) = (
            c_path(door.clone()),
            c_path(format!("{}.moved", door.display())),
        );
        let moved = sys!(SYS_rename, from.as_c_str(), to.as_c_str());
        if moved.is_ok() {
            let _ = sys!(SYS_rename, to.as_c_str(), from.as_c_str());
        }
        outcomes.push((format!("moving {}", door.display()), denied(moved)));
    }
    all(outcomes)
}

/// PID 1 is a program of the host: no name leads to it, and what the kernel keeps of it is closed.
pub(crate) fn runner_program(_: &Facts) -> Outcome {
    let files = doors().into_iter().filter_map(|path| {
        fs_err::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file())
            .then(|| (path.display().to_string(), broke("a file of the host's")))
    });
    let opened = [("read", libc::O_RDONLY), ("write", libc::O_WRONLY)].map(|(what, how)| {
        let opened = sys!(SYS_openat, libc::AT_FDCWD, c"/proc/1/exe", how);
        (format!("{what} /proc/1/exe"), denied(opened))
    });
    let named = match fs_err::read_link("/proc/1/exe") {
        Ok(name) => broke(name.display().to_string()),
        Err(error) => held(error.to_string()),
    };
    all(files
        .chain(opened)
        .chain([("the name of /proc/1/exe".to_owned(), named)]))
}

/// What the host lends read-only stays as it is.
pub(crate) fn write_to_usr(_: &Facts) -> Outcome {
    let read_only = fs_err::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| {
        mounts.lines().any(|line| {
            let mut fields = line.split(' ').skip(4);
            fields.next() == Some("/usr")
                && fields
                    .next()
                    .is_some_and(|options| options.split(',').any(|o| o == "ro"))
        })
    });
    if !read_only && Path::new(DOORS).is_dir() {
        return held("/usr is the sandbox's own here");
    }
    let path = c"/usr/.nacre-intruder";
    let made = sys!(
        SYS_openat,
        libc::AT_FDCWD,
        path,
        libc::O_CREAT | libc::O_WRONLY,
        0o600
    );
    let _ = sys!(SYS_unlinkat, libc::AT_FDCWD, path, 0);
    denied(made)
}
