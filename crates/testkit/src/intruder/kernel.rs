//! Calls into parts of the kernel that nobody inside needs. Each is made with arguments that do
//! nothing even where the call is allowed.

use std::time::Duration;

use super::child::in_child;
use super::facts::Facts;
use super::sys::{self, BAD_ADDRESS, Errno, NULL, sys};
use super::{Outcome, all, broke, denied, filtered, held};

pub(crate) fn load_module(_: &Facts) -> Outcome {
    let memory = match sys!(SYS_memfd_create, c"module", 0) {
        Ok(fd) => fd,
        Err(errno) => return broke(format!("could not be tried, no memfd: {errno}")),
    };
    all([
        (
            "finit_module".to_owned(),
            filtered(sys!(SYS_finit_module, memory, c"", 0)),
        ),
        (
            "init_module".to_owned(),
            filtered(sys!(SYS_init_module, BAD_ADDRESS, 0, c"")),
        ),
        (
            "delete_module".to_owned(),
            filtered(sys!(
                SYS_delete_module,
                c"nacre_no_such_module",
                libc::O_NONBLOCK
            )),
        ),
    ])
}

/// With magic numbers that no kernel takes.
pub(crate) fn reboot(_: &Facts) -> Outcome {
    filtered(sys!(SYS_reboot, 1, 2, 3, NULL))
}

pub(crate) fn kexec(_: &Facts) -> Outcome {
    all([
        (
            "kexec_load".to_owned(),
            filtered(sys!(SYS_kexec_load, 0, 0x7fff_ffff, NULL, 0xffff)),
        ),
        (
            "kexec_file_load".to_owned(),
            filtered(sys!(SYS_kexec_file_load, -1, -1, 0, NULL, 0xffff)),
        ),
    ])
}

pub(crate) fn bpf(_: &Facts) -> Outcome {
    filtered(sys!(SYS_bpf, 0xffff, &mut [0; 128], 128))
}

pub(crate) fn perf_events(_: &Facts) -> Outcome {
    filtered(sys!(SYS_perf_event_open, BAD_ADDRESS, 0, -1, -1, 0))
}

pub(crate) fn userfaultfd(_: &Facts) -> Outcome {
    // With user mode alone the kernel gives it to everybody.
    filtered(sys!(SYS_userfaultfd, libc::O_CLOEXEC | 1))
}

pub(crate) fn io_uring(_: &Facts) -> Outcome {
    all([
        (
            "setup".to_owned(),
            filtered(sys!(SYS_io_uring_setup, 1, &mut [0; 256])),
        ),
        (
            "enter".to_owned(),
            filtered(sys!(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0)),
        ),
        (
            "register".to_owned(),
            filtered(sys!(SYS_io_uring_register, -1, 0, NULL, 0)),
        ),
    ])
}

/// The kernel's keys are not kept apart by namespaces alone.
pub(crate) fn keys(_: &Facts) -> Outcome {
    const PROCESS_KEYRING: i32 = -2;
    const GET_KEYRING_ID: i32 = 0;
    all([
        (
            "add_key".to_owned(),
            filtered(sys!(
                SYS_add_key,
                c"user",
                c"nacre-intruder",
                b"x",
                1,
                PROCESS_KEYRING
            )),
        ),
        (
            "keyctl".to_owned(),
            filtered(sys!(SYS_keyctl, GET_KEYRING_ID, PROCESS_KEYRING, 0)),
        ),
        (
            "request_key".to_owned(),
            filtered(sys!(SYS_request_key, c"user", c"nacre-intruder", NULL, 0)),
        ),
    ])
}

pub(crate) fn swap(_: &Facts) -> Outcome {
    all([
        (
            "swapon".to_owned(),
            filtered(sys!(SYS_swapon, c"/nacre/no/such/file", 0)),
        ),
        (
            "swapoff".to_owned(),
            filtered(sys!(SYS_swapoff, c"/nacre/no/such/file")),
        ),
    ])
}

pub(crate) fn accounting(_: &Facts) -> Outcome {
    filtered(sys!(SYS_acct, c"/nacre/no/such/file"))
}

pub(crate) fn quotas(_: &Facts) -> Outcome {
    const QUOTA_ON: i64 = 0x80_0002;
    filtered(sys!(
        SYS_quotactl,
        QUOTA_ON << 8,
        c"/nacre/no/such/device",
        0,
        NULL
    ))
}

/// The right to use ports would be this process's alone, and it uses none.
#[cfg(target_arch = "x86_64")]
pub(crate) fn io_ports(_: &Facts) -> Outcome {
    all([
        ("iopl".to_owned(), filtered(sys!(SYS_iopl, 3))),
        ("ioperm".to_owned(), filtered(sys!(SYS_ioperm, 0x80, 1, 1))),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn io_ports(_: &Facts) -> Outcome {
    held("this architecture has no ports")
}

pub(crate) fn kernel_log(_: &Facts) -> Outcome {
    const READ_ALL: i32 = 3;
    let mut text = [0; 64];
    let call = filtered(sys!(SYS_syslog, READ_ALL, &mut text, 64));
    let device = denied(sys!(
        SYS_openat,
        libc::AT_FDCWD,
        c"/dev/kmsg",
        libc::O_RDONLY | libc::O_NONBLOCK
    ));
    all([
        ("syslog".to_owned(), call),
        ("/dev/kmsg".to_owned(), device),
    ])
}

/// Without values `settimeofday` asks for the permission and does nothing; `adjtimex` writes back
/// what it read; the clock itself is set only inside, and to what it shows.
pub(crate) fn clocks(facts: &Facts) -> Outcome {
    const SET_ESTIMATED_ERROR: u32 = 0x8;
    let mut timex = [0; 256];
    let adjusted = match sys!(SYS_adjtimex, &mut timex) {
        Ok(_) => {
            timex[..4].copy_from_slice(&SET_ESTIMATED_ERROR.to_ne_bytes());
            denied(sys!(SYS_adjtimex, &mut timex))
        }
        Err(errno) => held(errno.to_string()),
    };
    let mut now = [0; 16];
    let _ = sys!(SYS_clock_gettime, libc::CLOCK_REALTIME, &mut now);
    if !facts.inside {
        // More nanoseconds than a second has.
        now[8..].copy_from_slice(&2_000_000_000_i64.to_ne_bytes());
    }
    all([
        (
            "settimeofday".to_owned(),
            denied(sys!(SYS_settimeofday, NULL, NULL)),
        ),
        ("adjtimex".to_owned(), adjusted),
        (
            "clock_settime".to_owned(),
            filtered(sys!(SYS_clock_settime, libc::CLOCK_REALTIME, &now)),
        ),
    ])
}

/// Executable data and a mapped zero page help whoever attacks the kernel.
pub(crate) fn personality(_: &Facts) -> Outcome {
    const READ_IMPLIES_EXEC: i32 = 0x040_0000;
    const MMAP_PAGE_ZERO: i32 = 0x010_0000;
    const LINUX_32: i32 = 0x0008;
    all(
        [READ_IMPLIES_EXEC, MMAP_PAGE_ZERO, LINUX_32 | MMAP_PAGE_ZERO].map(|persona| {
            (
                format!("{persona:#x}"),
                filtered(sys!(SYS_personality, persona)),
            )
        }),
    )
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn local_descriptor_table(_: &Facts) -> Outcome {
    filtered(sys!(SYS_modify_ldt, 0, &mut [0; 16], 16))
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn local_descriptor_table(_: &Facts) -> Outcome {
    held("this architecture has no such table")
}

/// Call 20 of the 32-bit table is `getpid`, which hurts nobody and shows whether the table is open.
#[cfg(target_arch = "x86_64")]
pub(crate) fn calls_of_32_bits(_: &Facts) -> Outcome {
    const GETPID: i64 = 20;
    let outcome = in_child(Duration::from_secs(2), || {
        match sys::call_32_bit(GETPID, 0) {
            errno @ ..0 => held(format!("{}", Errno(i32::try_from(-errno).unwrap_or(0)))),
            pid => broke(format!("getpid of the 32-bit table answered {pid}")),
        }
    });
    // A kernel without the table answers with a fault.
    if !outcome.held && outcome.detail.starts_with("ended before") {
        held(outcome.detail)
    } else {
        outcome
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn calls_of_32_bits(_: &Facts) -> Outcome {
    held("this architecture is entered in one way")
}

/// Call 39 of the x32 table is `getpid`, and 16 is `ioctl` with another number: a filter that
/// compares numbers alone sees neither.
#[cfg(target_arch = "x86_64")]
pub(crate) fn calls_of_x32(_: &Facts) -> Outcome {
    const X32: i64 = 0x4000_0000;
    let add_key = X32 | libc::SYS_add_key;
    all([
        (
            "getpid".to_owned(),
            filtered(sys::call(X32 | libc::SYS_getpid, &[])),
        ),
        (
            "add_key".to_owned(),
            filtered(sys::call(
                add_key,
                &[c"user".into(), c"nacre-intruder".into(), b"x".into()],
            )),
        ),
    ])
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn calls_of_x32(_: &Facts) -> Outcome {
    held("this architecture has no second table")
}

/// A call that is newer than the filter must not be allowed because nobody thought of it.
pub(crate) fn calls_of_tomorrow(_: &Facts) -> Outcome {
    all([600, 1000, 4096].map(|number| (number.to_string(), filtered(sys::call(number, &[])))))
}

/// Typing into a terminal for somebody else; here into one of our own.
pub(crate) fn type_into_a_terminal(_: &Facts) -> Outcome {
    let Ok(own) =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY)
    else {
        return held("no terminal to be had");
    };
    let _ = rustix::pty::unlockpt(&own);
    let Ok(name) = rustix::pty::ptsname(&own, Vec::new()) else {
        return held("the terminal has no other end");
    };
    let _ = rustix::process::setsid();
    let end = match sys!(SYS_openat, libc::AT_FDCWD, name.as_c_str(), libc::O_RDWR) {
        Ok(end) => end,
        Err(errno) => return held(format!("its other end: {errno}")),
    };
    let ioctl = |request: u64| sys!(SYS_ioctl, end, request, b"x");
    all([
        ("TIOCSTI".to_owned(), denied(ioctl(libc::TIOCSTI))),
        ("TIOCLINUX".to_owned(), denied(ioctl(libc::TIOCLINUX))),
    ])
}

pub(crate) fn odd_calls(_: &Facts) -> Outcome {
    // Hanging up would be for a terminal, and this session has none.
    let _ = rustix::process::setsid();
    all([
        ("vhangup".to_owned(), denied(sys!(SYS_vhangup))),
        (
            "lookup_dcookie".to_owned(),
            denied(sys!(SYS_lookup_dcookie, 0, BAD_ADDRESS, 0)),
        ),
        (
            "nfsservctl".to_owned(),
            denied(sys!(SYS_nfsservctl, 0, BAD_ADDRESS, BAD_ADDRESS)),
        ),
        (
            "fanotify_init".to_owned(),
            filtered(sys!(SYS_fanotify_init, 0, 0)),
        ),
        (
            "move_pages of pid 1".to_owned(),
            denied(sys!(
                SYS_move_pages,
                1,
                1,
                BAD_ADDRESS,
                NULL,
                BAD_ADDRESS,
                0
            )),
        ),
        (
            "kcmp with pid 1".to_owned(),
            denied(sys!(SYS_kcmp, 1, 1, 0, 0, 0)),
        ),
    ])
}
