//! The system calls that no safe wrapper covers. All `unsafe` of this crate is here.
#![expect(
    unsafe_code,
    reason = "clone3, mount_setattr with an id map, seccomp and execve have no safe wrapper"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd as _, OwnedFd};

/// Which of the two processes we are after [`clone_sandbox`].
pub(crate) enum Side {
    Keeper { pid: i32, pidfd: OwnedFd },
    Inside,
}

/// Clones this process into new user, mount, pid, ipc and uts namespaces, straight into `cgroup`.
///
/// Sound because the keeper has one thread: the child has a whole copy of a consistent process.
pub(crate) fn clone_sandbox(cgroup: &OwnedFd) -> io::Result<Side> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_PIDFD;
    let args = libc::clone_args {
        flags: u64::from(flags.cast_unsigned()) | 0x2_0000_0000, // CLONE_INTO_CGROUP
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: u64::from(cgroup.as_raw_fd().cast_unsigned()),
    };
    // SAFETY: `args` is a valid clone_args of the size given, `pidfd` outlives the call, and
    // without CLONE_VM the child works on its own copy of memory.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Inside),
        pid => {
            // SAFETY: the kernel stored a new descriptor there, and nobody else owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(pid).map_err(io::Error::other)?;
            Ok(Side::Keeper { pid, pidfd })
        }
    }
}

/// Sets attributes of a mount, and its id map if `users` is given.
pub(crate) fn mount_setattr(mount: impl AsFd, set: u64, users: Option<&OwnedFd>) -> io::Result<()> {
    change_mount(
        mount,
        &libc::mount_attr {
            attr_set: if users.is_some() {
                set | libc::MOUNT_ATTR_IDMAP
            } else {
                set
            },
            attr_clr: 0,
            propagation: 0,
            userns_fd: users.map_or(0, |fd| u64::from(fd.as_raw_fd().cast_unsigned())),
        },
    )
}

/// Takes "read-only" off a mount.
pub(crate) fn make_writable(mount: impl AsFd) -> io::Result<()> {
    change_mount(
        mount,
        &libc::mount_attr {
            attr_set: 0,
            attr_clr: libc::MOUNT_ATTR_RDONLY,
            propagation: 0,
            userns_fd: 0,
        },
    )
}

fn change_mount(mount: impl AsFd, attributes: &libc::mount_attr) -> io::Result<()> {
    // SAFETY: the path is a static empty string and `attributes` is valid for its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Puts the checked-in filter in force for this thread and all it becomes. Needs `CAP_SYS_ADMIN` in
/// the user namespace, since "no new privileges" must stay off for sudo to work inside.
pub(crate) fn install_seccomp(program: &[u8]) -> io::Result<()> {
    let instructions: Vec<libc::sock_filter> = program
        .chunks_exact(8)
        .map(|i| libc::sock_filter {
            code: u16::from_le_bytes([i[0], i[1]]),
            jt: i[2],
            jf: i[3],
            k: u32::from_le_bytes([i[4], i[5], i[6], i[7]]),
        })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
        filter: instructions.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to `instructions`, which outlive the call; the kernel copies them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A cgroup namespace whose root is the cgroup we are in.
pub(crate) fn unshare_cgroups() -> io::Result<()> {
    // SAFETY: this flag changes only what later reads of cgroup paths show; no memory is involved.
    let result = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Root and working directory of this thread become its own, as entering a mount namespace needs.
pub(crate) fn unshare_working_directory() -> io::Result<()> {
    // SAFETY: the thread gets a copy of what it shared; no memory is involved.
    let result = unsafe { libc::unshare(libc::CLONE_FS) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Becomes the program at a descriptor, which is closed by it; returns only when that failed.
pub(crate) fn execute(program: i32, argument: &CStr) -> io::Error {
    let argv = [argument.as_ptr(), std::ptr::null()];
    let environment: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: sets a flag of a descriptor; then the strings are NUL-terminated and the arrays
    // null-terminated, and all outlive the call.
    unsafe {
        libc::fcntl(program, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::syscall(
            libc::SYS_execveat,
            program,
            c"".as_ptr(),
            argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Becomes the program at a path, with an empty environment; returns only when that failed.
pub(crate) fn become_program(program: &CStr, arguments: &[CString]) -> io::Error {
    let argv: Vec<*const libc::c_char> = arguments
        .iter()
        .map(|argument| argument.as_ptr())
        .chain([std::ptr::null()])
        .collect();
    let environment: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: the strings are NUL-terminated and the arrays null-terminated, and all outlive the
    // call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Puts descriptors at the numbers 3, 4, … in order, and closes every other but 0, 1 and 2.
pub(crate) fn arrange_descriptors(wanted: &[&OwnedFd]) -> io::Result<()> {
    let first_free = 3 + i32::try_from(wanted.len()).map_err(io::Error::other)?;
    // First out of the way of the targets, then into place: a target may be another's source.
    let mut moved = Vec::with_capacity(wanted.len());
    for fd in wanted {
        // SAFETY: duplicates a descriptor we hold to a free number of at least 64.
        let copy =
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 64.max(first_free)) };
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        moved.push(copy);
    }
    for (target, source) in (3..).zip(moved) {
        // SAFETY: whatever is at `target` is ours and not used again: we execute next.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: closes descriptors that nobody uses again; owners of the closed ones are never
    // dropped, since we execute or exit next.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first_free, u32::MAX, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ends at once: no destructors, which would act on the keeper's half of the world.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Default disposition for the signals that the keeper ignores, as a new program expects.
pub(crate) fn ignore_signals(ignore: bool) {
    let action = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
    for signal in [
        libc::SIGPIPE,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        // SAFETY: sets a disposition that runs no handler.
        unsafe { libc::signal(signal, action) };
    }
}
