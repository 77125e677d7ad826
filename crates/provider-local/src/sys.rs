//! The system calls that no safe wrapper covers. All `unsafe` of this crate is here.
#![expect(
    unsafe_code,
    reason = "unshare, clone3, mount_setattr, seccomp and the interface ioctl have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Moves the calling thread, and no other, into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: this flag changes which namespace later sockets of this thread belong to; no memory
    // is involved.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Brings `lo` up in the calling thread's network namespace.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all zeroes is a valid ifreq: it is plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *slot = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which lives on our stack for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Moves the calling thread, and no other, into a mount namespace of its own.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: this flag changes which mounts this thread sees; no memory is involved.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Puts a filter that allows everything in force for the calling thread.
pub(crate) fn install_empty_filter() -> io::Result<()> {
    let mut allow = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut allow,
    };
    // SAFETY: `program` points to one instruction, which outlives the call; the kernel copies it.
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

/// A child that does nothing, in namespaces of its own and straight in `cgroup`, as a sandbox
/// starts. It goes when it is killed, or with the calling thread.
pub(crate) fn clone_idle(cgroup: &OwnedFd) -> io::Result<(i32, OwnedFd)> {
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
    // SAFETY: `args` is a valid clone_args of the size given and `pidfd` outlives the call. The
    // child has its own copy of memory and, as other threads may hold locks in it, only makes
    // system calls.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const args,
            size_of::<libc::clone_args>(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => loop {
            // SAFETY: both only make a system call, and the child never returns from here.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        },
        pid => {
            // SAFETY: the kernel stored a new descriptor there, and nobody else owns it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok((i32::try_from(pid).map_err(io::Error::other)?, pidfd))
        }
    }
}

/// Gives a detached mount the id map of a user namespace.
pub(crate) fn map_mount_ids(mount: &OwnedFd, users: &OwnedFd) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: u64::from(users.as_raw_fd().cast_unsigned()),
    };
    // SAFETY: the path is a static empty string and `attributes` is valid for its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
