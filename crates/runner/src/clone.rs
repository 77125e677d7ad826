//! Fork, straight into an operation's cgroup, and the signals around it.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, write};
use rustix::process::Pid;

use crate::group::Group;

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `None` in the child, whose signals are all blocked and whose handlers are still ours.
///
/// # Safety
///
/// There must be no other thread, and the child must end without returning to the caller's callers.
#[expect(unsafe_code, reason = "clone has no safe form")]
pub(crate) unsafe fn fork(group: &Group) -> Result<Option<Pid>, Errno> {
    let blocked = BlockedSignals::new();
    let mut contained = true;
    let mut result = match group.directory() {
        // SAFETY: as promised by our caller.
        Some(directory) => unsafe { clone_into(directory) },
        None => Err(Errno::BADF),
    };
    if let Err(errno) = result
        && !matches!(errno, Errno::AGAIN | Errno::NOMEM)
    {
        // No cgroup, no permission to be born in it, or no clone3 here.
        contained = false;
        let procs = group.directory().and_then(|directory| {
            openat(
                directory,
                c"cgroup.procs",
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .ok()
        });
        // SAFETY: as promised by our caller.
        result = unsafe { clone_beside() };
        if let (Ok(None), Some(procs)) = (&result, &procs) {
            let _ = write(procs, b"0");
        }
    }
    match result {
        Ok(None) => {
            std::mem::forget(blocked);
            Ok(None)
        }
        Ok(Some(pid)) => {
            group.lead(pid, contained);
            Ok(Some(pid))
        }
        Err(errno) => Err(errno),
    }
}

/// # Safety
///
/// As [`fork`].
#[expect(unsafe_code, reason = "clone has no safe form")]
unsafe fn clone_into(cgroup: BorrowedFd<'_>) -> Result<Option<Pid>, Errno> {
    let arguments = libc::clone_args {
        flags: CLONE_INTO_CGROUP,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD.unsigned_abs().into(),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.as_raw_fd().unsigned_abs().into(),
    };
    // SAFETY: without CLONE_VM the child gets a copy of everything, so this is fork; the structure
    // is as long as we say.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    };
    cloned(pid)
}

/// # Safety
///
/// As [`fork`].
#[expect(unsafe_code, reason = "clone has no safe form")]
unsafe fn clone_beside() -> Result<Option<Pid>, Errno> {
    // SAFETY: no flags but the signal at exit: this is fork.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    cloned(pid)
}

fn cloned(pid: i64) -> Result<Option<Pid>, Errno> {
    match i32::try_from(pid) {
        Ok(pid) if pid >= 0 => Ok(Pid::from_raw(pid)),
        _ => Err(last_errno()),
    }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Keeps our handlers, which write to descriptors we share with the child, from running in it.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    #[expect(unsafe_code, reason = "signal masks have no safe form")]
    fn new() -> Self {
        // SAFETY: a signal set is plain data for which zeroes are valid; both pointers are to
        // locals.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before = all;
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    #[expect(unsafe_code, reason = "signal masks have no safe form")]
    fn drop(&mut self) {
        // SAFETY: the set is the one we were given.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

#[expect(unsafe_code, reason = "signal masks have no safe form")]
pub(crate) fn unblock_signals() {
    // SAFETY: an empty set is all zeroes.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Straight to the kernel, because libc would keep the two signals it thinks of as its own.
#[expect(unsafe_code, reason = "signal dispositions have no safe form")]
pub(crate) fn default_signals(but: &[i32]) {
    // Handler, flags, restorer, mask.
    let default = [0u64; 4];
    for signal in (1..=64).filter(|signal| !but.contains(signal)) {
        // SAFETY: the default disposition is all zeroes, in a buffer at least as long as the
        // kernel's structure. For KILL and STOP it fails without effect.
        unsafe {
            let none = ptr::null_mut::<u64>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                none,
                size_of::<u64>(),
            );
        }
    }
}
