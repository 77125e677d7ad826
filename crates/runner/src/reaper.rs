//! Every process of the sandbox whose parent is gone is ours to reap; some of them are awaited.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(crate) struct Reaper {
    awaited: RefCell<BTreeMap<i32, oneshot::Sender<WaitStatus>>>,
}

impl Reaper {
    /// Call it right after the process was made, before anything is awaited.
    pub(crate) fn expect(&self, pid: Pid) -> oneshot::Receiver<WaitStatus> {
        let (sender, receiver) = oneshot::channel();
        self.awaited.borrow_mut().insert(pid.as_raw_pid(), sender);
        receiver
    }

    /// While this holds, the number still means the process it was given to.
    pub(crate) fn still_awaits(&self, pid: Pid) -> bool {
        self.awaited.borrow().contains_key(&pid.as_raw_pid())
    }

    /// Whether children remain.
    pub(crate) fn reap(&self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if let Some(waiting) = self.awaited.borrow_mut().remove(&pid.as_raw_pid()) {
                        let _ = waiting.send(status);
                    }
                }
                Ok(None) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
