//! What one operation started, kept together so that it can be ended together: a cgroup `e<N>`
//! below the sandbox's own, or, where there is none (in gVisor), a session and a mark in the
//! environment.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process_group};
use wire::guest::Failed;

use crate::{failure, proc};

/// Directories of groups that outlived their operation, awaiting the end of their last process.
const MAX_LEFT_OVER: usize = 4096;
/// How many of them one round of reaping looks at.
const PER_ROUND: usize = 32;

#[derive(Debug)]
pub(crate) struct Groups {
    cgroup: Option<OwnedFd>,
    /// No other runner's marks begin like this.
    mark: String,
    next: Cell<u64>,
    left_over: RefCell<VecDeque<u64>>,
}

/// Dropping it kills its processes, unless they were let live.
#[derive(Debug)]
pub(crate) struct Group {
    groups: Rc<Groups>,
    cgroup: Option<(u64, OwnedFd)>,
    /// A variable in the environment of all it starts, where there is no cgroup to find them by.
    mark: Option<CString>,
    leader: Cell<Option<Pid>>,
    /// Whether the leader was born inside the cgroup, so that nothing of it can be elsewhere.
    contained: Cell<bool>,
    live: Cell<bool>,
}

impl Groups {
    pub(crate) fn new(cgroup: Option<OwnedFd>, boot: &str) -> Self {
        Self {
            cgroup,
            mark: format!("NACRE_COMMAND={boot}.{}", getpid().as_raw_nonzero()),
            next: Cell::new(0),
            left_over: RefCell::default(),
        }
    }

    pub(crate) fn make(self: &Rc<Self>) -> Result<Group, Failed> {
        let cgroup = match &self.cgroup {
            None => None,
            Some(parent) => match self.make_cgroup(parent.as_fd()) {
                Ok(made) => Some(made),
                Err(errno @ (Errno::AGAIN | Errno::NOSPC | Errno::NOMEM | Errno::MFILE)) => {
                    return Err(failure::cannot("make a cgroup for it", errno));
                }
                Err(_) => None,
            },
        };
        let mark = if cgroup.is_some() {
            None
        } else {
            let number = self.next.replace(self.next.get() + 1);
            CString::new(format!("{}.{number}", self.mark)).ok()
        };
        Ok(Group {
            groups: Rc::clone(self),
            cgroup,
            mark,
            leader: Cell::new(None),
            contained: Cell::new(false),
            live: Cell::new(false),
        })
    }

    fn make_cgroup(&self, parent: BorrowedFd<'_>) -> rustix::io::Result<(u64, OwnedFd)> {
        loop {
            let number = self.next.replace(self.next.get() + 1);
            let name = name(number);
            match mkdirat(parent, &name, Mode::from_raw_mode(0o755)) {
                Err(Errno::EXIST) => continue,
                other => other?,
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat(parent, &name, flags, Mode::empty()) {
                Ok(directory) => return Ok((number, directory)),
                Err(error) => {
                    let _ = unlinkat(parent, &name, AtFlags::REMOVEDIR);
                    return Err(error);
                }
            }
        }
    }

    /// Removes some of the directories whose last process has ended meanwhile.
    pub(crate) fn tidy(&self) {
        let mut left_over = self.left_over.borrow_mut();
        for _ in 0..left_over.len().min(PER_ROUND) {
            let Some(number) = left_over.pop_front() else {
                return;
            };
            if !self.remove(number) {
                left_over.push_back(number);
            }
        }
    }

    fn remove(&self, number: u64) -> bool {
        let Some(parent) = &self.cgroup else {
            return true;
        };
        !matches!(
            unlinkat(parent, name(number), AtFlags::REMOVEDIR),
            Err(Errno::BUSY)
        )
    }

    fn retire(&self, number: u64) {
        if self.remove(number) {
            return;
        }
        let mut left_over = self.left_over.borrow_mut();
        if left_over.len() >= MAX_LEFT_OVER {
            left_over.pop_front();
        }
        left_over.push_back(number);
    }
}

fn name(number: u64) -> String {
    format!("e{number}")
}

impl Group {
    pub(crate) fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.cgroup.as_ref().map(|(_, directory)| directory.as_fd())
    }

    pub(crate) fn mark(&self) -> Option<&CString> {
        self.mark.as_ref()
    }

    pub(crate) fn lead(&self, leader: Pid, contained: bool) {
        self.leader.set(Some(leader));
        self.contained.set(contained);
    }

    /// What still runs may go on after the operation.
    pub(crate) fn let_live(&self) {
        self.live.set(true);
    }

    pub(crate) fn kill(&self) {
        let killed = self.directory().is_some_and(|directory| {
            openat(
                directory,
                c"cgroup.kill",
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .and_then(|file| rustix::io::write(file, b"1"))
            .is_ok()
        });
        if killed && self.contained.get() {
            return;
        }
        if let Some(leader) = self.leader.get() {
            // Stopped, not killed: while it lives, its children are known by their parent.
            let _ = kill_process_group(leader, Signal::STOP);
            proc::kill_descendants(leader, self.mark.as_deref());
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.live.get() && self.leader.get().is_some() {
            self.kill();
        }
        if let Some((number, _)) = self.cgroup.take() {
            self.groups.retire(number);
        }
    }
}
