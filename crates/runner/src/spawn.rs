//! Cloning: a child that becomes a command, or one that goes on as a helper of ours.
//!
//! The clone is made straight into the operation's cgroup, so there is no moment in which a process
//! is outside it. Between clone and exec the child only makes system calls on memory prepared
//! before, and reports what failed over a pipe that exec closes.

use std::ffi::{CStr, CString, c_char};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::io::{Errno, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid, umask};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::clone::{default_signals, fork, last_errno, unblock_signals};
use crate::command::{Command, Cwd, UnderPressure};
use crate::group::Group;
use crate::identity::Identity;
use crate::stdio::Ends;

const OOM_SCORE_ADJ: &[u8] = b"500";

/// What the child was doing when it failed. One byte on the pipe, the error number after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Not fatal: [`raise_oom_score`] once it has become the command.
    OomScore = 1,
    Session = 2,
    Stdio = 3,
    Identity = 4,
    Cwd = 5,
    Exec = 6,
    /// The program is there, what it asks to be run by is not.
    Interpreter = 7,
}

pub(crate) const REPORT: usize = 5;

pub(crate) fn parse_report(report: [u8; REPORT]) -> Option<(Stage, Errno)> {
    let stage = match report[0] {
        1 => Stage::OomScore,
        2 => Stage::Session,
        3 => Stage::Stdio,
        4 => Stage::Identity,
        5 => Stage::Cwd,
        6 => Stage::Exec,
        7 => Stage::Interpreter,
        _ => return None,
    };
    let number = i32::from_le_bytes([report[1], report[2], report[3], report[4]]);
    Some((stage, Errno::from_raw_os_error(number)))
}

/// Starts a command. The descriptor ends once the program runs; anything read from it is a report.
#[expect(unsafe_code, reason = "clone has no safe form")]
pub(crate) fn command(
    command: &Command,
    identity: &Identity,
    ends: &Ends<'_>,
    descriptors: Rlimit,
    group: &Group,
) -> Result<(Pid, OwnedFd), Errno> {
    let (reports, reporter) = pipe_with(PipeFlags::CLOEXEC)?;
    let child = Child {
        command,
        argv: pointers(&command.argv),
        env: pointers(&command.env),
        identity,
        ends,
        descriptors,
        reporter,
    };
    // SAFETY: the child's branch never returns, and until it execs it only makes system calls on
    // what `child` holds.
    match unsafe { fork(group) }? {
        None => child.run(),
        Some(pid) => Ok((pid, reports)),
    }
}

/// Runs `work` in a child that has become someone else and holds no descriptor but the connection
/// and the standard ones.
#[expect(unsafe_code, reason = "clone has no safe form")]
pub(crate) fn helper(
    identity: &Identity,
    connection: BorrowedFd<'_>,
    group: &Group,
    work: impl FnOnce(BorrowedFd<'_>, Result<(), Errno>),
) -> Result<Pid, Errno> {
    // SAFETY: the child's branch never returns or unwinds out of here. It may allocate, because
    // no other thread existed that could have held the allocator's lock.
    if let Some(pid) = unsafe { fork(group) }? {
        return Ok(pid);
    }
    let guard = ExitOnDrop;
    default_signals(&[libc::SIGPIPE]);
    close_all_but(connection);
    let _ = setsid();
    let _ = raise_own_oom_score();
    let became = identity.assume();
    unblock_signals();
    work(connection, became);
    drop(guard);
    unreachable!("dropping the guard exits");
}

/// For a process that has become a command. Best effort: it may have ended.
pub(crate) fn raise_oom_score(pid: Pid) {
    let path = format!("/proc/{}/oom_score_adj", pid.as_raw_pid());
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let _ = file.and_then(|file| write(file, OOM_SCORE_ADJ));
}

/// Fails where our binary is unreadable to the sandbox: then the kernel gives our `/proc` entries,
/// and those of our clones, to the host's root.
fn raise_own_oom_score() -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = open(c"/proc/self/oom_score_adj", flags, Mode::empty())?;
    write(file, OOM_SCORE_ADJ).map(drop)
}

struct Child<'a> {
    command: &'a Command,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    identity: &'a Identity,
    ends: &'a Ends<'a>,
    descriptors: Rlimit,
    reporter: OwnedFd,
}

impl Child<'_> {
    fn run(&self) -> ! {
        let Err((stage, errno)) = self.become_command();
        self.report(stage, errno);
        exit(127)
    }

    fn report(&self, stage: Stage, errno: Errno) {
        let [a, b, c, d] = errno.raw_os_error().to_le_bytes();
        let _ = write(&self.reporter, &[stage as u8, a, b, c, d]);
    }

    fn become_command(&self) -> Result<std::convert::Infallible, (Stage, Errno)> {
        let during = |stage| move |errno| (stage, errno);
        default_signals(&[]);
        setsid().map_err(during(Stage::Session))?;
        let [stdin, stdout, stderr] = self.ends.each();
        dup2_stdin(stdin).map_err(during(Stage::Stdio))?;
        dup2_stdout(stdout).map_err(during(Stage::Stdio))?;
        dup2_stderr(stderr).map_err(during(Stage::Stdio))?;
        if matches!(self.ends, Ends::Terminal(_)) {
            ioctl_tiocsctty(stdin).map_err(during(Stage::Session))?;
        }
        if self.command.under_pressure == UnderPressure::GoesBeforeUs
            && let Err(errno) = raise_own_oom_score()
        {
            self.report(Stage::OomScore, errno);
        }
        umask(Mode::from_raw_mode(0o022));
        let _ = setrlimit(Resource::Nofile, self.descriptors);
        self.identity.assume().map_err(during(Stage::Identity))?;
        match &self.command.cwd {
            Cwd::Asked(cwd) => chdir(cwd.as_c_str()).map_err(during(Stage::Cwd))?,
            Cwd::Home(home) => chdir(home.as_c_str())
                .or_else(|_| chdir(c"/"))
                .map_err(during(Stage::Cwd))?,
        }
        close_on_exec_from_3();
        unblock_signals();
        Err(self.exec())
    }

    /// Tries each place, and says of the failures the one that tells most.
    fn exec(&self) -> (Stage, Errno) {
        let mut told = (Stage::Exec, Errno::NOENT);
        for candidate in &self.command.candidates {
            match execve(candidate, &self.argv, &self.env) {
                Errno::NOENT if access(candidate.as_c_str(), Access::EXISTS).is_ok() => {
                    return (Stage::Interpreter, Errno::NOENT);
                }
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => told = (Stage::Exec, Errno::ACCESS),
                other => return (Stage::Exec, other),
            }
        }
        told
    }
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([ptr::null()])
        .collect()
}

#[expect(unsafe_code, reason = "execve takes raw pointers")]
fn execve(program: &CStr, argv: &[*const c_char], env: &[*const c_char]) -> Errno {
    // SAFETY: both arrays end in a null pointer (`pointers` adds it) and point into strings that
    // `Child` borrows.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    last_errno()
}

/// Ours are all close-on-exec already; this is for the one somebody forgets.
#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_on_exec_from_3() {
    // SAFETY: closes nothing now.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

/// A helper that kept a copy of another operation's connection would keep it from ending.
#[expect(unsafe_code, reason = "rustix has no close_range")]
fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = kept.as_fd().as_raw_fd();
    // SAFETY: the owners of what is closed are never dropped in a helper: it exits.
    unsafe {
        if kept > 3 {
            libc::syscall(libc::SYS_close_range, 3, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
    }
}

/// Ends a helper, also when it panics: unwinding further would run the runner's code twice.
struct ExitOnDrop;

impl Drop for ExitOnDrop {
    fn drop(&mut self) {
        exit(0)
    }
}

#[expect(
    unsafe_code,
    reason = "leaving without running the runner's exit handlers"
)]
fn exit(code: i32) -> ! {
    // SAFETY: takes no memory and does not return.
    unsafe { libc::_exit(code) }
}
