//! What the kernel counts per user. We take all we can get and say how far we came; the test on
//! the host checks that others still get theirs. With `--hold` it stays taken for that long.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::facts::{Facts, c_path};
use super::sys::{self, Errno, NULL, sys};
use super::{Outcome, broke, held};

/// Outside a sandbox a little is enough to see that nothing stops us.
const A_LITTLE: usize = 100;

/// Held when a limit ended it. `take` gets how many there are already.
fn exhaust(
    facts: &Facts,
    most: usize,
    mut take: impl FnMut(usize) -> Result<i64, Errno>,
) -> (usize, Outcome) {
    let most = if facts.inside { most } else { A_LITTLE };
    for count in 0..most {
        if let Err(errno) = take(count) {
            return (count, held(format!("{count}, then: {errno}")));
        }
    }
    (most, broke(format!("{most}, and no end")))
}

fn allow_many_descriptors() {
    let mut limit = [0; 16];
    if sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, NULL, &mut limit).is_ok() {
        limit.copy_within(8.., 0);
        let _ = sys!(SYS_prlimit64, 0, libc::RLIMIT_NOFILE, &limit, NULL);
    }
}

pub(crate) fn inotify_instances(facts: &Facts) -> Outcome {
    allow_many_descriptors();
    exhaust(facts, 1 << 20, |_| sys!(SYS_inotify_init1, libc::O_CLOEXEC)).1
}

pub(crate) fn inotify_watches(facts: &Facts) -> Outcome {
    let Ok(instance) = sys!(SYS_inotify_init1, libc::O_CLOEXEC) else {
        return held("no instance to be had");
    };
    // Each watch needs a file of its own; those of /usr are many and ours to look at.
    let mut pending = vec![std::path::PathBuf::from("/usr")];
    let mut files = std::iter::from_fn(move || {
        let path = pending.pop()?;
        if path.is_dir() && !path.is_symlink() {
            pending.extend(
                fs_err::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
        Some(path)
    });
    let (count, outcome) = exhaust(facts, 20_000, |_| match files.next() {
        Some(path) => sys!(
            SYS_inotify_add_watch,
            instance,
            c_path(path).as_c_str(),
            libc::IN_ATTRIB | libc::IN_DONT_FOLLOW
        ),
        None => Err(Errno(libc::ENOENT)),
    });
    // Watches are small and counted per user; how many is a number, not a hole.
    held(format!("{count} ({})", outcome.detail))
}

pub(crate) fn pending_signals(facts: &Facts) -> Outcome {
    const QUEUED: i32 = -1;
    let signal = libc::SIGRTMIN() + 1;
    let mask = (1_u64 << (signal - 1)).to_ne_bytes();
    let _ = sys!(SYS_rt_sigprocmask, libc::SIG_BLOCK, &mask, NULL, 8);
    let mut information = [0; 128];
    information[..4].copy_from_slice(&signal.to_ne_bytes());
    information[8..12].copy_from_slice(&QUEUED.to_ne_bytes());
    exhaust(facts, 1 << 20, |_| {
        sys!(
            SYS_rt_sigqueueinfo,
            std::process::id(),
            signal,
            &information
        )
    })
    .1
}

pub(crate) fn message_queues(facts: &Facts) -> Outcome {
    let name = |count: usize| c_path(format!("nacre-intruder-{count}"));
    let (count, outcome) = exhaust(facts, 4096, |count| {
        sys!(
            SYS_mq_open,
            name(count).as_c_str(),
            libc::O_CREAT | libc::O_RDWR,
            0o600,
            NULL
        )
    });
    // What a sandbox leaves goes with it; what is left outside stays.
    if !(facts.hold && facts.inside) {
        for taken in 0..count {
            let _ = sys!(SYS_mq_unlink, name(taken).as_c_str());
        }
    }
    outcome
}

pub(crate) fn terminals(facts: &Facts) -> Outcome {
    allow_many_descriptors();
    let how = libc::O_RDWR | libc::O_NOCTTY;
    exhaust(facts, 8192, |_| {
        sys!(SYS_openat, libc::AT_FDCWD, c"/dev/ptmx", how)
    })
    .1
}

pub(crate) fn user_namespaces(facts: &Facts) -> Outcome {
    let most = if facts.inside { 1024 } else { A_LITTLE };
    let children = hold_user_namespaces(most);
    let count = children.len();
    if !facts.hold {
        end(&children);
    }
    if count < most {
        held(format!("{count} and no more"))
    } else {
        broke(format!("{count}, and no end"))
    }
}

/// How many can be had at once, up to `most`.
pub(crate) fn count_user_namespaces(most: usize) -> usize {
    let children = hold_user_namespaces(most);
    end(&children);
    children.len()
}

/// Children that sit in a user namespace each.
fn hold_user_namespaces(most: usize) -> Vec<Pid> {
    let mut children = Vec::new();
    while children.len() < most {
        let Ok((read, write)) = rustix::pipe::pipe() else {
            break;
        };
        match sys::fork() {
            Ok(None) => {
                let made = sys!(SYS_unshare, libc::CLONE_NEWUSER).is_ok();
                let _ = rustix::io::write(&write, &[u8::from(made)]);
                drop(write);
                if made {
                    sleep_until_killed();
                }
                sys::exit_now(0);
            }
            Ok(Some(pid)) => {
                drop(write);
                let mut answer = [0];
                if matches!(rustix::io::read(&read, &mut answer), Ok(1)) && answer == [1] {
                    children.push(pid);
                } else {
                    let _ = waitpid(Some(pid), WaitOptions::empty());
                    break;
                }
            }
            Err(_) => break,
        }
    }
    children
}

pub(crate) fn sleep_until_killed() -> ! {
    loop {
        std::thread::park();
    }
}

fn end(children: &[Pid]) {
    for pid in children {
        let _ = kill_process(*pid, Signal::KILL);
    }
    for pid in children {
        let _ = waitpid(Some(*pid), WaitOptions::empty());
    }
}

pub(crate) fn locked_memory(_: &Facts) -> Outcome {
    const SIZE: usize = 256 << 20;
    const ON_FAULT: i32 = 1;
    let mut limit = [0; 16];
    let _ = sys!(SYS_prlimit64, 0, libc::RLIMIT_MEMLOCK, NULL, &mut limit);
    let mut hard = [0; 8];
    hard.copy_from_slice(&limit[8..]);
    let hard = u64::from_ne_bytes(hard);
    let memory: Vec<u8> = Vec::with_capacity(SIZE);
    // Reserved and never touched, so that nothing is really locked.
    let locked = sys!(
        SYS_mlock2,
        memory.as_ptr().expose_provenance(),
        SIZE,
        ON_FAULT
    );
    match locked {
        Ok(_) if hard < 256 << 20 => broke(format!("256 MiB above a limit of {hard}")),
        other => held(format!("{other:?} under a limit of {hard}")),
    }
}

/// Children that do nothing, until there are no more to be had.
pub(crate) fn processes(_: &Facts) -> Outcome {
    const MOST: usize = 5_000;
    let mut children = Vec::new();
    let refused = loop {
        if children.len() == MOST {
            break None;
        }
        match sys::fork() {
            Ok(None) => sleep_until_killed(),
            Ok(Some(pid)) => children.push(pid),
            Err(errno) => break Some(errno),
        }
    };
    end(&children);
    match refused {
        Some(errno) => held(format!("{}, then: {errno}", children.len())),
        None => broke(format!("{MOST}, and no end")),
    }
}
