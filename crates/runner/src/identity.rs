//! Becoming a user, for good. Called only in a cloned child.

use rustix::fs::{Gid, Uid};
use rustix::io::Result;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::users::User;

#[derive(Debug)]
pub(crate) struct Identity {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Identity {
    pub(crate) fn new(user: &User) -> Self {
        Self {
            uid: Uid::from_raw(user.uid),
            gid: Gid::from_raw(user.gid),
            groups: user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect(),
        }
    }

    /// Plain system calls without allocation, so it may run between clone and exec. "Thread" is
    /// rustix's word for skipping libc's broadcast to other threads, of which there are none.
    pub(crate) fn assume(&self) -> Result<()> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)
    }
}
