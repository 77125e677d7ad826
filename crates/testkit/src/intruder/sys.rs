//! System calls as an attacker makes them: by number, past every library that would be polite.
//! All `unsafe` of the intruder is here.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::marker::PhantomData;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("arguments of system calls are taken to be 64 bits wide");

/// An argument of a system call: a number, or the address of something borrowed until the call
/// has returned.
#[derive(Debug)]
pub(crate) struct Arg<'a> {
    value: i64,
    borrowed: PhantomData<&'a mut [u8]>,
}

pub(crate) const NULL: Arg<'static> = Arg {
    value: 0,
    borrowed: PhantomData,
};

/// An address that is nobody's: a call that is let through answers `EFAULT`, one that is filtered
/// does not get that far.
pub(crate) const BAD_ADDRESS: Arg<'static> = Arg {
    value: 1,
    borrowed: PhantomData,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.0))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Self(errno.raw_os_error())
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(0))
    }
}

/// `sys!(SYS_mount, c"none", c"/tmp", c"tmpfs", 0, NULL)`.
macro_rules! sys {
    ($number:ident $(, $argument:expr)* $(,)?) => {
        $crate::intruder::sys::call(libc::$number, &[$($crate::intruder::sys::Arg::from($argument)),*])
    };
}
pub(crate) use sys;

/// Makes the call. What it is given are numbers and borrowed buffers; the calls named in this
/// program neither unmap nor replace memory of the caller.
#[expect(unsafe_code, reason = "most of what an attacker calls has no wrapper")]
pub(crate) fn call(number: libc::c_long, arguments: &[Arg<'_>]) -> Result<i64, Errno> {
    let at = |index: usize| arguments.get(index).map_or(0, |argument| argument.value);
    // SAFETY: addresses come from borrows that outlive the call, with lengths taken from the same
    // buffers, or point nowhere on purpose, which the kernel answers with EFAULT.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if result == -1 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

/// `None` in the child.
#[expect(
    unsafe_code,
    reason = "no safe fork exists, for a reason that threads give"
)]
pub(crate) fn fork() -> Result<Option<rustix::process::Pid>, Errno> {
    // SAFETY: this program has one thread, so the child's heap and locks are in order.
    match unsafe { libc::fork() } {
        -1 => Err(Errno::last()),
        pid => Ok(rustix::process::Pid::from_raw(pid)),
    }
}

/// Ends this process without running anything that the parent will run too.
#[expect(unsafe_code, reason = "std has no exit without handlers")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: it does not return, and nothing is left to be dropped that another process shares.
    unsafe { libc::_exit(code) }
}

/// A system call of the 32-bit table, which a filter that forgets the architecture lets through.
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "there is no other way to enter the 32-bit table"
)]
pub(crate) fn call_32_bit(number: i64, argument: i64) -> i64 {
    let result: i64;
    // SAFETY: the numbers used take no address. r8 to r11 are clobbered by some kernels; rbx, which
    // the compiler keeps for itself, is put back.
    unsafe {
        std::arch::asm!(
            "xchg {argument}, rbx",
            "int 0x80",
            "xchg {argument}, rbx",
            argument = inout(reg) argument => _,
            inlateout("rax") number => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self {
            value,
            borrowed: PhantomData,
        }
    }
}

impl From<i32> for Arg<'_> {
    fn from(value: i32) -> Self {
        Self::from(i64::from(value))
    }
}

impl From<u32> for Arg<'_> {
    fn from(value: u32) -> Self {
        Self::from(i64::from(value))
    }
}

impl From<u64> for Arg<'_> {
    fn from(value: u64) -> Self {
        Self::from(value.cast_signed())
    }
}

impl From<usize> for Arg<'_> {
    fn from(value: usize) -> Self {
        Self::from(i64::from_ne_bytes(value.to_ne_bytes()))
    }
}

impl<'a> From<&'a CStr> for Arg<'a> {
    fn from(text: &'a CStr) -> Self {
        Self::from(text.as_ptr().expose_provenance())
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Arg<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(bytes.as_ptr().expose_provenance())
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for Arg<'a> {
    fn from(bytes: &'a mut [u8; N]) -> Self {
        Self::from(bytes.as_mut_ptr().expose_provenance())
    }
}
