//! A child that does nothing, started as a sandbox is.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

use super::scratch::left_by_the_dead;
use crate::claim::IDS_PER_SANDBOX;
use crate::sys;

const PREFIX: &str = "nacre-doctor-";
/// A cgroup of one sleeping process freezes at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Is killed, and its cgroup removed, when this is dropped.
#[derive(Debug)]
pub(super) struct Idle {
    pid: i32,
    pidfd: OwnedFd,
    cgroup: Cgroup,
}

#[derive(Debug)]
struct Cgroup(Utf8PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl Idle {
    pub(super) fn start(unified: &Utf8Path) -> io::Result<Self> {
        for left in left_by_the_dead(unified, PREFIX) {
            drop(Cgroup(left));
        }
        let place = unified.join(format!("{PREFIX}{}", std::process::id()));
        match std::fs::create_dir(&place) {
            // Of a doctor that was killed and had our number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let cgroup = Cgroup(place);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let (pid, pidfd) =
            sys::clone_idle(&open(cgroup.0.as_std_path(), directory, Mode::empty())?)?;
        Ok(Self { pid, pidfd, cgroup })
    }

    /// Maps ids from `first` on and gives the user namespace.
    pub(super) fn map_ids(&self, first: u32) -> io::Result<OwnedFd> {
        for file in ["uid_map", "gid_map"] {
            let map = open(
                format!("/proc/{}/{file}", self.pid),
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            rustix::io::write(map, format!("0 {first} {IDS_PER_SANDBOX}").as_bytes())?;
        }
        Ok(open(
            format!("/proc/{}/ns/user", self.pid),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    pub(super) fn signal(&self) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid).ok_or(io::ErrorKind::InvalidData)?;
        let second = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(pidfd_send_signal(second, Signal::CONT)?)
    }

    /// Freezes the cgroup, sees it frozen, kills it, and sees its process end.
    pub(super) fn freeze_and_kill(&self) -> io::Result<()> {
        let file = |name: &str| self.cgroup.0.join(name);
        write(&file("cgroup.freeze"), "1")?;
        let began = Instant::now();
        while !fs_err::read_to_string(file("cgroup.events"))?.contains("frozen 1") {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other(
                    "the cgroup did not freeze within five seconds",
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        write(&file("cgroup.kill"), "1")?;
        self.wait()
    }

    fn wait(&self) -> io::Result<()> {
        let leave = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::PidFd(self.pidfd.as_fd()), leave).map(|_| ())?)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It is our child and not yet waited for: the number is still its own.
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

/// Opened as it is: these files cannot be made.
fn write(path: &Utf8Path, text: &str) -> io::Result<()> {
    let file = open(
        path.as_std_path(),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(file, text.as_bytes())?;
    Ok(())
}
