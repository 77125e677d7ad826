//! Being asked to end. Whoever holds the sandbox may ask; root inside may signal PID 1 too, and is
//! not heard: the sandbox is not its to end.

use std::io;
use std::mem::offset_of;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr;

use rustix::process::getpid;

use crate::stream::Stream;

/// SIGTERM, with who sent it.
#[derive(Debug)]
pub(crate) struct Terminate(Stream);

const REPORT: usize = size_of::<libc::signalfd_siginfo>();

impl Terminate {
    /// From here on the signal is blocked. What we start has its mask emptied.
    #[expect(unsafe_code, reason = "rustix has neither signal masks nor signalfd")]
    pub(crate) fn listen() -> io::Result<Self> {
        // SAFETY: a signal set is plain data for which zeroes are valid, and the pointers are to a
        // local; the descriptor is new, and nobody else's.
        let signals = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Stream::reader(signals).map(Self)
    }

    pub(crate) async fn asked(&self) {
        let mut report = [0; REPORT];
        loop {
            match self.0.read(&mut report).await {
                Ok(REPORT) if !getpid().is_init() || is_from_outside(&report) => return,
                Ok(_) => {}
                // Nobody can ask any more; ending for that would be worse.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

/// The kernel gives a sender that the receiver's namespace does not have the number 0. A sender
/// may write its own number, but then not this code.
fn is_from_outside(report: &[u8; REPORT]) -> bool {
    const CODE: usize = offset_of!(libc::signalfd_siginfo, ssi_code);
    const PID: usize = offset_of!(libc::signalfd_siginfo, ssi_pid);
    let is = |at: usize, value: i32| report[at..].starts_with(&value.to_ne_bytes());
    is(CODE, libc::SI_USER) && is(PID, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: i32, pid: u32) -> [u8; REPORT] {
        let mut report = [0; REPORT];
        report[8..12].copy_from_slice(&code.to_ne_bytes());
        report[12..16].copy_from_slice(&pid.to_ne_bytes());
        report
    }

    #[test]
    fn only_a_sender_outside_the_namespace_is_heard() {
        assert!(is_from_outside(&report(libc::SI_USER, 0)));
        assert!(!is_from_outside(&report(libc::SI_USER, 7)));
    }

    #[test]
    fn a_sender_that_says_it_is_nobody_is_not_heard() {
        assert!(!is_from_outside(&report(libc::SI_QUEUE, 0)));
        assert!(!is_from_outside(&report(libc::SI_TKILL, 0)));
    }
}
