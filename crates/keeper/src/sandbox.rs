//! What a keeper knows of its sandbox.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, inotify, unlinkat};
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};
use wire::keeper::{Ended, Exit, Launch, Running};

use crate::cgroup;

pub(crate) struct Handle {
    pub(crate) order: Launch,
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
    pub(crate) unmounted: Unmounted,
}

impl Handle {
    /// Writes `keeper.json`, by which the sandbox is found again when we are gone.
    pub(crate) fn record(&self) -> io::Result<()> {
        let running = Running {
            keeper: rustix::process::getpid().as_raw_nonzero().get(),
            pid: self.pid,
            started: process_start(self.pid)?,
            host_boot: fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
        };
        self.write(
            "keeper.json",
            &serde_json::to_vec(&running).map_err(io::Error::other)?,
        )
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (new, place) = (
            format!("{}/.{name}", self.order.dir),
            format!("{}/{name}", self.order.dir),
        );
        fs_err::write(&new, content)?;
        fs_err::rename(new, place)
    }

    /// Kills everything and waits until the root file system is gone, not only detached.
    pub(crate) fn end(&mut self, reason: Option<&str>) -> io::Result<Ended> {
        let processes = cgroup::kill(&self.order.cgroups)?;
        model::failpoint::hit("keeper.killed");
        let started = Instant::now();
        self.buried(reason)?;
        model::failpoint::hit("keeper.unmounted");
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        Ok(Ended {
            processes_us: micros(processes),
            unmount_us: micros(started.elapsed()),
        })
    }

    /// PID 1 is dead or dying: collects it, waits for the unmount, removes the cgroups.
    pub(crate) fn buried(&mut self, reason: Option<&str>) -> io::Result<()> {
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
            .ok()
            .flatten();
        let killed_by_limit = reason.is_none() && out_of_memory(&self.order);
        let exit = Exit {
            code: status.as_ref().and_then(WaitIdStatus::exit_status),
            signal: status.as_ref().and_then(WaitIdStatus::terminating_signal),
            reason: reason
                .map(str::to_owned)
                .or(killed_by_limit.then(|| "out_of_memory".to_owned())),
        };
        self.unmounted.wait()?;
        // The directory may be on its way out already; then nobody asks any more.
        let _ = self.write(
            "exit.json",
            &serde_json::to_vec(&exit).map_err(io::Error::other)?,
        );
        cgroup::remove(&self.order.cgroups);
        Ok(())
    }
}

fn out_of_memory(order: &Launch) -> bool {
    let killed = |text: String| {
        text.lines().any(|line| {
            line.strip_prefix("oom_kill ")
                .is_some_and(|count| count.trim() != "0")
        })
    };
    [&order.cgroups.unified]
        .into_iter()
        .chain(&order.cgroups.legacy)
        .any(|directory| {
            ["memory.events", "memory.oom_control"]
                .iter()
                .filter_map(|file| fs_err::read_to_string(format!("{directory}/{file}")).ok())
                .any(killed)
        })
}

/// Tells when a file system is gone. A mount namespace that dies lets go of its mounts, but a file
/// that is still open somewhere (in flight over a socket, say) keeps the file system; only its
/// shutdown is final, and inotify reports exactly that.
pub(crate) struct Unmounted {
    events: OwnedFd,
    seen: Cell<bool>,
}

const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(10);

impl Unmounted {
    pub(crate) fn watch(root: &str) -> io::Result<Self> {
        let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(
            &events,
            root,
            inotify::WatchFlags::DELETE_SELF | inotify::WatchFlags::ONLYDIR,
        )?;
        Ok(Self {
            events,
            seen: Cell::new(false),
        })
    }

    fn wait(&self) -> io::Result<()> {
        if self.seen.get() {
            return Ok(());
        }
        let deadline = Instant::now() + UNMOUNT_TIMEOUT;
        let mut space = [std::mem::MaybeUninit::uninit(); 1024];
        loop {
            let mut reader = inotify::Reader::new(&self.events, &mut space);
            while let Ok(event) = reader.next() {
                if event.events().contains(inotify::ReadFlags::UNMOUNT) {
                    self.seen.set(true);
                    return Ok(());
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::other(
                    "the disk is still in use ten seconds after the last process ended",
                ));
            }
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            poll(
                &mut [PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN)],
                Some(&left),
            )?;
        }
    }
}

/// A listening socket in a directory, whatever stood there before; by descriptor, because paths of
/// sockets are limited to 107 bytes.
pub(crate) fn socket_in(directory: &OwnedFd, name: &str, mode: u32) -> io::Result<UnixListener> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may hold anything, so count from its end.
pub(crate) fn process_start(pid: i32) -> io::Result<u64> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat"))?;
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(19))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
