//! The second runtime, gVisor. The child goes the same way as in the native one up to the end: it
//! is in its own namespaces, cgroups and id range, and gets the same mounts; then it becomes `runsc
//! run` in a small root of its own, which starts gVisor's kernel and file server around the runner.
//!
//! ```text
//! place (in memory; the host's tree is left behind)
//! ├── root/        the overlay, host directories and identity laid over it   → /
//! ├── doors/       read-only; nacre is the runner, boot can be written to    → /run/nacre
//! ├── bundle/ state/ proc/ dev/ runsc
//! ```
//!
//! Why it is this way: docs/decisions/0007.

mod bundle;
pub(crate) mod place;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, MemfdFlags, Mode, SealFlags, memfd_create, mkdirat, unlinkat};
use rustix::io::Errno;
use wire::guest::{Config, DOORS};
use wire::keeper::{Launch, Runtime};

use crate::inside::Failed;
use crate::mounts::{HARMLESS, READ_ONLY, clone_for_ids, clone_tree};

/// Where the child puts descriptors for runsc to pass on.
const CONFIG: i32 = 3;
const READY: i32 = 4;

/// The directory in which the runner makes its socket, here and inside. It is gone once it has.
pub(crate) const BOOT: &str = "boot";
const SOCKET: &str = "guest.sock";
/// gVisor puts a memory file system over a `/tmp` that it finds empty, and what is written there
/// would be in no snapshot.
const TMP_IS_NOT_EMPTY: &str = "tmp/.nacre-boot";
/// It takes a fifth of a second; longer than this, it hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is kept of its complaints.
const COMPLAINTS: u64 = 8 << 10;

pub(crate) fn is_used(order: &Launch) -> bool {
    matches!(order.runtime, Runtime::Runsc { .. })
}

/// What the runner is told beyond what the order says.
pub(crate) fn configure(config: &Config) -> Config {
    Config {
        listen: Some(format!("{DOORS}/{BOOT}/{SOCKET}")),
        scaffold: vec![format!("/{TMP_IS_NOT_EMPTY}")],
        ..config.clone()
    }
}

/// What the child needs in this runtime alone.
pub(crate) struct Mounts {
    boot: OwnedFd,
    runner: OwnedFd,
    program: OwnedFd,
}

impl Mounts {
    /// Nothing for the native runtime.
    pub(crate) fn make(order: &Launch, users: &OwnedFd) -> io::Result<Option<Self>> {
        let Runtime::Runsc { program } = &order.runtime else {
            return Ok(None);
        };
        let boot = format!("{}/{BOOT}", order.dir);
        let program_only = READ_ONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        Ok(Some(Self {
            boot: clone_tree(&boot, HARMLESS, Some(users))?,
            runner: clone_tree(&order.runner, program_only, Some(users))?,
            program: clone_for_ids(program, program_only, users)?,
        }))
    }

    /// In the order in which the child takes them.
    pub(crate) fn fds(&self) -> [&OwnedFd; 3] {
        [&self.boot, &self.runner, &self.program]
    }
}

/// The directory for the runner's socket, empty. Made as host root, which is root inside by way of
/// the id map.
pub(crate) fn make_boot(directory: &OwnedFd) -> io::Result<()> {
    match mkdirat(directory, BOOT, Mode::from(0o700)) {
        Ok(()) => Ok(()),
        // An earlier start got no further.
        Err(Errno::EXIST) => {
            match unlinkat(directory, format!("{BOOT}/{SOCKET}"), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// A place for complaints that nobody inside can make larger.
pub(crate) fn complaints() -> io::Result<OwnedFd> {
    let file = memfd_create(
        "complaints",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    rustix::fs::ftruncate(&file, COMPLAINTS)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file)
}

/// Waits for the runner's word that it listens.
pub(crate) fn await_ready(ready: &OwnedFd, complaints: &OwnedFd) -> Result<(), Failed> {
    let stage = "waiting for the runner";
    let patience = Timespec::try_from(PATIENCE).map_err(|e| (stage, io::Error::other(e)))?;
    let mut fds = [PollFd::from_borrowed_fd(ready.as_fd(), PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&patience))).map_err(|e| (stage, e.into()))?;
    if fds[0].revents().is_empty() {
        return Err((stage, io::ErrorKind::TimedOut.into()));
    }
    let mut byte = [0u8; 1];
    match rustix::io::retry_on_intr(|| rustix::io::read(ready, &mut byte)) {
        Ok(1) => Ok(()),
        Ok(_) => Err((stage, io::Error::other(said(complaints)))),
        Err(error) => Err((stage, error.into())),
    }
}

fn said(complaints: &OwnedFd) -> String {
    let mut bytes = vec![0; 1 << 10];
    let length = rustix::io::pread(complaints, &mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..length]);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    if text.is_empty() {
        "runsc ended before the runner was ready".to_owned()
    } else {
        format!("runsc ended before the runner was ready: {text}")
    }
}

/// Takes the runner's socket out of the sandbox's reach: from here on nobody inside can put another
/// in its place. It is bound already, and where its file is does not matter to it.
pub(crate) fn take_socket(directory: &OwnedFd) -> io::Result<()> {
    let made = format!("{BOOT}/{SOCKET}");
    rustix::fs::renameat(directory, &*made, directory, SOCKET)?;
    rustix::fs::chmodat(directory, SOCKET, 0o600.into(), AtFlags::empty())?;
    Ok(unlinkat(directory, BOOT, AtFlags::REMOVEDIR)?)
}
