//! The system calls that no safe wrapper covers. All `unsafe` of this crate is here.
#![expect(unsafe_code, reason = "unshare and the interface ioctl have no safe wrapper")]

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Moves the calling thread, and no other, into a new network namespace.
pub(crate) fn unshare_network() -> io::Result<()> {
    // SAFETY: this flag changes which namespace later sockets of this thread belong to; no memory
    // is involved.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings `lo` up in the calling thread's network namespace.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all zeroes is a valid ifreq: it is plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *slot = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which lives on our stack for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
