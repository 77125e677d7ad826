//! Processes and descriptors of the host.

use std::os::unix::fs::MetadataExt as _;

use super::facts::Facts;
use super::sys::sys;
use super::{Outcome, all, broke, held};

fn process_ids() -> Vec<i32> {
    let entries = fs_err::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub(crate) fn see_host_process(facts: &Facts) -> Outcome {
    let ids = process_ids();
    if let Some(word) = &facts.canary_cmdline {
        // Our own command line says the word too.
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let parent = std::os::unix::process::parent_id().cast_signed();
        let shows = |pid: &&i32| {
            let line = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(word.as_str()) && !is_intruder(&line)
        };
        return match ids
            .iter()
            .filter(|pid| **pid != own && **pid != parent)
            .find(shows)
        {
            Some(pid) => broke(format!("process {pid} is the host's")),
            None => held(format!("{} processes, none the host's", ids.len())),
        };
    }
    match facts.canary_pid {
        Some(pid) if ids.contains(&pid) => {
            broke(format!("there is a process {pid}; is it the host's?"))
        }
        Some(pid) => held(format!("no process {pid}")),
        None => broke("not tried: no --canary-pid or --canary-cmdline"),
    }
}

fn is_intruder(command_line: &[u8]) -> bool {
    String::from_utf8_lossy(command_line).contains("--canary-cmdline")
}

pub(crate) fn signal_host_process(facts: &Facts) -> Outcome {
    let Some(pid) = facts.canary_pid else {
        return broke("not tried: no --canary-pid");
    };
    match sys!(SYS_kill, pid, 0) {
        Ok(_) if process_ids().contains(&pid) && facts.inside && facts.canary_cmdline.is_some() => {
            held("a process of our own has that number")
        }
        Ok(_) => broke("it can be signalled"),
        Err(errno) => held(errno.to_string()),
    }
}

/// Kernel threads have no parent and PID 2 is theirs; only the host's process list has them.
pub(crate) fn see_kernel_threads(_: &Facts) -> Outcome {
    let stat = fs_err::read_to_string("/proc/2/stat").unwrap_or_default();
    if stat.contains("(kthreadd)") {
        broke("kthreadd is process 2")
    } else {
        held("process 2 is no kernel thread")
    }
}

pub(crate) fn inherited_descriptors(facts: &Facts) -> Outcome {
    if facts.inherited.is_empty() {
        held("only the standard three")
    } else {
        broke(facts.inherited.join(", "))
    }
}

/// A directory of the host as working directory, or as a standard stream, is a way out.
pub(crate) fn inherited_directory(_: &Facts) -> Outcome {
    let root = fs_err::metadata("/")
        .map(|root| (root.dev(), root.ino()))
        .ok();
    let climbed = fs_err::metadata("../".repeat(64))
        .map(|top| (top.dev(), top.ino()))
        .ok();
    let streams = (0..3).map(|fd| {
        let path = format!("/proc/self/fd/{fd}");
        let outcome = match fs_err::metadata(&path) {
            Ok(found) if found.is_dir() => broke("it is a directory"),
            _ => held("it is no directory"),
        };
        (path, outcome)
    });
    let directory = match (std::env::current_dir(), climbed == root) {
        (Ok(path), true) if path.is_absolute() && !path.starts_with("(unreachable)") => {
            held(path.display().to_string())
        }
        other => broke(format!("{other:?}")),
    };
    all(std::iter::once(("working directory".to_owned(), directory)).chain(streams))
}

/// The host's file system through any process that we can see.
pub(crate) fn files_of_processes(facts: &Facts) -> Outcome {
    let Some(canary) = &facts.canary_file else {
        return broke("not tried: no --canary-file");
    };
    let ids = process_ids();
    for pid in &ids {
        // Whoever is not inside must not look into processes that are none of its business.
        if !facts.inside && *pid != std::process::id().cast_signed() {
            continue;
        }
        for link in ["root", "cwd"] {
            let path = format!("/proc/{pid}/{link}/{}", canary.display());
            if fs_err::symlink_metadata(&path).is_ok() {
                return broke(path);
            }
        }
        for entry in fs_err::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry
                .path()
                .join("..")
                .join(canary.strip_prefix("/").unwrap_or(canary));
            if fs_err::symlink_metadata(&path).is_ok() {
                return broke(path.display().to_string());
            }
        }
    }
    held(format!("through none of {} processes", ids.len()))
}

pub(crate) fn host_name(facts: &Facts) -> Outcome {
    let Some(name) = &facts.canary_name else {
        return broke("not tried: no --canary-name");
    };
    let kernel = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let files = ["/etc/hostname", "/etc/hosts", "/proc/sys/kernel/hostname"];
    let of_files = files.map(|path| {
        (
            path.to_owned(),
            fs_err::read_to_string(path).unwrap_or_default(),
        )
    });
    let of_environment = std::env::vars_os().map(|(key, value)| {
        (
            format!("${}", key.to_string_lossy()),
            value.to_string_lossy().into_owned(),
        )
    });
    let found = std::iter::once(("uname".to_owned(), kernel))
        .chain(of_files)
        .chain(of_environment);
    all(found.map(|(place, text)| {
        let named = text
            .split(|c: char| c.is_whitespace() || c == '=')
            .any(|word| word == name);
        (
            place,
            if named {
                broke("names the host")
            } else {
                held("does not name the host")
            },
        )
    }))
}

pub(crate) fn set_host_name(_: &Facts) -> Outcome {
    let own = rustix::system::uname().nodename().to_owned();
    let length = own.count_bytes();
    super::denied(sys!(SYS_sethostname, own.as_c_str(), length))
}
