//! Every attempt runs in a process of its own, with a time limit: it may be killed by the filter,
//! it may hang, and whatever it changes about itself ends with it.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, setpgid, waitpid};

use super::sys::{self, Errno};
use super::{Outcome, broke, held};

/// Runs it in a child. A child that the filter killed was held.
pub(crate) fn in_child(limit: Duration, body: impl FnOnce() -> Outcome) -> Outcome {
    match start(body, || {}) {
        Ok(child) => child.outcome(limit),
        Err(errno) => broke(format!("could not be tried, no child: {errno}")),
    }
}

/// A child that has been started and will tell how it ended.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    report: OwnedFd,
}

/// `afterwards` runs in the child once the outcome is told.
pub(crate) fn start(
    body: impl FnOnce() -> Outcome,
    afterwards: impl FnOnce(),
) -> Result<Child, Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(pid) = sys::fork()? else {
        drop(read);
        let _ = setpgid(None, None);
        let outcome = body();
        let mut report = std::fs::File::from(write);
        let first = if outcome.held { "1" } else { "0" };
        let _ = report.write_all(format!("{first}{}\0", outcome.detail).as_bytes());
        drop(report);
        afterwards();
        sys::exit_now(0);
    };
    // Both sides do it, so that it is done whoever runs first.
    let _ = setpgid(Some(pid), Some(pid));
    Ok(Child { pid, report: read })
}

impl Child {
    pub(crate) fn outcome(self, limit: Duration) -> Outcome {
        let (outcome, pid) = self.told(limit);
        let _ = kill_process_group(pid, Signal::KILL);
        let ended = waitpid(Some(pid), WaitOptions::empty());
        outcome.unwrap_or_else(|why| match ended {
            Ok(Some((_, status))) if status.terminating_signal() == Some(libc::SIGSYS) => {
                held("killed by the filter")
            }
            Ok(Some((_, status))) => broke(format!("{why} ({status:?})")),
            _ => broke(why),
        })
    }

    /// As `outcome`, but the child is left alive; the caller ends it.
    pub(crate) fn outcome_and_pid(self, limit: Duration) -> (Outcome, Pid) {
        let (outcome, pid) = self.told(limit);
        (outcome.unwrap_or_else(broke), pid)
    }

    fn told(self, limit: Duration) -> (Result<Outcome, String>, Pid) {
        let deadline = Instant::now() + limit;
        let mut file = std::fs::File::from(self.report);
        let mut text = Vec::new();
        // The zero at the end, not the end of the pipe: grandchildren may hold that open.
        while text.last() != Some(&0) {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
            let mut ready = [PollFd::new(&file, PollFlags::IN)];
            match poll(&mut ready, Some(&timeout)) {
                Ok(0) => return (Err(format!("did not end within {limit:?}")), self.pid),
                Err(rustix::io::Errno::INTR) => continue,
                _ => {}
            }
            let mut chunk = [0; 4096];
            match file.read(&mut chunk) {
                Ok(length @ 1..) => text.extend_from_slice(&chunk[..length]),
                _ => break,
            }
        }
        let text = String::from_utf8_lossy(&text);
        let outcome = match text.trim_end_matches('\0').split_at_checked(1) {
            Some((first, detail)) => Ok(Outcome {
                held: first == "1",
                detail: detail.to_owned(),
            }),
            None => Err("ended before it could tell".to_owned()),
        };
        (outcome, self.pid)
    }
}
