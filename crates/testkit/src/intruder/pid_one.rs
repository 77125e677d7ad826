//! The runner is PID 1. Whoever reads it or speaks for it is the sandbox's owner. The workplace
//! beside it holds the same secrets: with `--process` the attempts aim at that.
//!
//! All of this needs `--inside`: elsewhere PID 1 is somebody else's.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::facts::{Facts, c_path};
use super::sys::{Errno, sys};
use super::{Outcome, all, broke, denied, held};

/// A file of the process that is aimed at.
fn file(facts: &Facts, name: &str) -> String {
    format!("/proc/{}/{name}", facts.process())
}

fn readable(path: &str) -> Outcome {
    use std::io::Read as _;
    let mut first = [0; 16];
    match fs_err::File::open(path).and_then(|mut file| file.read(&mut first)) {
        Ok(0) => held("it is empty"),
        // Never what it says: that may be a secret.
        Ok(length) => broke(format!("{length} bytes of it")),
        Err(error) => held(error.to_string()),
    }
}

pub(crate) fn read_environment(facts: &Facts) -> Outcome {
    readable(&file(facts, "environ"))
}

pub(crate) fn read_program(facts: &Facts) -> Outcome {
    readable(&file(facts, "exe"))
}

pub(crate) fn overwrite_program(facts: &Facts) -> Outcome {
    let program = c_path(file(facts, "exe"));
    match sys!(
        SYS_openat,
        libc::AT_FDCWD,
        program.as_c_str(),
        libc::O_WRONLY
    ) {
        Err(Errno(libc::ETXTBSY)) => broke("only its running is in the way"),
        other => denied(other),
    }
}

pub(crate) fn read_memory(facts: &Facts) -> Outcome {
    let open = |how: i32| {
        let memory = c_path(file(facts, "mem"));
        denied(sys!(SYS_openat, libc::AT_FDCWD, memory.as_c_str(), how))
    };
    let texts = ["maps", "smaps", "auxv", "stack", "syscall"]
        .map(|name| (name.to_owned(), readable(&file(facts, name))));
    all(texts.into_iter().chain([
        ("mem".to_owned(), open(libc::O_RDONLY)),
        ("mem, to write".to_owned(), open(libc::O_RDWR)),
        ("map_files".to_owned(), listable(&file(facts, "map_files"))),
    ]))
}

fn listable(path: &str) -> Outcome {
    match fs_err::read_dir(path).map(|entries| entries.flatten().count()) {
        Ok(0) => held("it is empty"),
        Ok(count) => broke(format!("{count} entries")),
        Err(error) => held(error.to_string()),
    }
}

pub(crate) fn process_vm(facts: &Facts) -> Outcome {
    let pid = facts.process();
    let mut buffer = [0; 8];
    let mut local = [0; 16];
    local[..8].copy_from_slice(&buffer.as_mut_ptr().expose_provenance().to_ne_bytes());
    local[8..].copy_from_slice(&8_u64.to_ne_bytes());
    // An address that nobody has: EFAULT would say that we were allowed to look.
    let mut remote = local;
    remote[..8].copy_from_slice(&0x1000_u64.to_ne_bytes());
    let refused = |result: Result<i64, Errno>| match result {
        Err(Errno(libc::EFAULT)) => broke("only the address was wrong"),
        other => denied(other),
    };
    all([
        (
            "readv".to_owned(),
            refused(sys!(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0)),
        ),
        (
            "writev".to_owned(),
            refused(sys!(SYS_process_vm_writev, pid, &local, 1, &remote, 1, 0)),
        ),
    ])
}

pub(crate) fn trace(facts: &Facts) -> Outcome {
    let pid = facts.process();
    let detach = |result: Result<i64, Errno>| {
        if result.is_ok() {
            let _ = sys!(SYS_ptrace, libc::PTRACE_DETACH, pid, 0, 0);
        }
        denied(result)
    };
    all([
        (
            "seize".to_owned(),
            detach(sys!(SYS_ptrace, libc::PTRACE_SEIZE, pid, 0, 0)),
        ),
        (
            "attach".to_owned(),
            detach(sys!(SYS_ptrace, libc::PTRACE_ATTACH, pid, 0, 0)),
        ),
    ])
}

pub(crate) fn steal_descriptor(facts: &Facts) -> Outcome {
    let pidfd = match sys!(SYS_pidfd_open, facts.process(), 0) {
        Ok(pidfd) => pidfd,
        Err(errno) => return held(format!("no pidfd: {errno}")),
    };
    all([0, 3, 4, 5].map(|fd| {
        let outcome = match sys!(SYS_pidfd_getfd, pidfd, fd, 0) {
            Err(Errno(libc::EBADF)) => broke("only the number was wrong"),
            other => denied(other),
        };
        (fd.to_string(), outcome)
    }))
}

pub(crate) fn descriptors(facts: &Facts) -> Outcome {
    all(["fd", "fdinfo"].map(|name| (name.to_owned(), listable(&file(facts, name)))))
}

/// A different root than ours would be a way to the host's.
pub(crate) fn root_and_directory(facts: &Facts) -> Outcome {
    let ours = fs_err::metadata("/")
        .map(|root| (root.dev(), root.ino()))
        .ok();
    let mut outcomes = Vec::new();
    for link in ["root/", "cwd/"].map(|name| file(facts, name)) {
        let outcome = match fs_err::metadata(&link) {
            Err(error) => held(error.to_string()),
            Ok(found) if ours == Some((found.dev(), found.ino())) => held("it is our own root"),
            Ok(_) => broke("it leads somewhere else"),
        };
        outcomes.push((link.clone(), outcome));
        if let Some(canary) = &facts.canary_file {
            let path = format!("{link}{}", canary.display());
            outcomes.push((
                path.clone(),
                match fs_err::symlink_metadata(&path) {
                    Ok(_) => broke("the host's file"),
                    Err(error) => held(error.to_string()),
                },
            ));
        }
    }
    all(outcomes)
}

/// The kernel shields a namespace's PID 1 from its own descendants, but for signals that it handles.
pub(crate) fn kill(_: &Facts) -> Outcome {
    let signals = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
    ];
    let plainly = signals.map(|signal| {
        let sent = sys!(SYS_kill, 1, signal);
        (format!("signal {signal}"), goes_on_after(sent))
    });
    // What the kernel says of a sender outside the namespace, said by one inside.
    let forged = sys!(SYS_rt_sigqueueinfo, 1, libc::SIGTERM, &from_nobody());
    let forged = ("a signal from nobody".to_owned(), goes_on_after(forged));
    all(plainly.into_iter().chain([forged]))
}

fn goes_on_after(sent: Result<i64, Errno>) -> Outcome {
    // Nothing tells that a signal had no effect; this long, one that has is seen.
    std::thread::sleep(Duration::from_millis(50));
    let stat = fs_err::read_to_string("/proc/1/stat").unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    match state {
        Some('R' | 'S' | 'D' | 'I') => held(format!("{sent:?}, and it goes on")),
        other => broke(format!("{sent:?}, and its state is {other:?}")),
    }
}

/// A `siginfo_t` of `sigqueue`, whose sender is 0.
fn from_nobody() -> [u8; 128] {
    let mut info = [0; 128];
    info[..4].copy_from_slice(&libc::SIGTERM.to_ne_bytes());
    info[8..12].copy_from_slice(&libc::SI_QUEUE.to_ne_bytes());
    info
}

/// Joining the namespaces of PID 1, which are ours; through it, one that is not.
pub(crate) fn join_namespaces(facts: &Facts) -> Outcome {
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];
    let mut outcomes = Vec::new();
    for kind in kinds {
        let path = file(facts, &format!("ns/{kind}"));
        let ours = fs_err::read_link(format!("/proc/self/ns/{kind}")).ok();
        let outcome = match sys!(
            SYS_openat,
            libc::AT_FDCWD,
            c_path(&path).as_c_str(),
            libc::O_RDONLY
        ) {
            Err(errno) => held(errno.to_string()),
            Ok(_) if ours.is_some() && fs_err::read_link(&path).ok() == ours => {
                held("it is our own")
            }
            Ok(fd) => denied(sys!(SYS_setns, fd, 0)),
        };
        outcomes.push((path, outcome));
    }
    if let Ok(pidfd) = sys!(SYS_pidfd_open, facts.process(), 0) {
        let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
        outcomes.push(("by pidfd".to_owned(), denied(sys!(SYS_setns, pidfd, flags))));
    }
    all(outcomes)
}

/// Making it the first to be killed when memory is short would end the sandbox.
pub(crate) fn out_of_memory_score(facts: &Facts) -> Outcome {
    let path = file(facts, "oom_score_adj");
    match fs_err::read_to_string(&path).and_then(|score| fs_err::write(&path, score)) {
        Ok(()) => broke("it can be written"),
        Err(error) => held(error.to_string()),
    }
}
