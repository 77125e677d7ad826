//! Freeze, thaw and kill through the v2 hierarchy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::keeper::Cgroups;

/// The v2 freezer waits for every task to reach a safe point; a task stuck in the kernel, say on a
/// dead network file system, can keep it waiting.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(5);
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_NAP: Duration = Duration::from_millis(20);

pub(crate) fn write(path: &str, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(value.as_bytes())
}

/// Freezes, and thaws again if that does not come about in time. The processor quota is lifted
/// meanwhile: a throttled task reaches its safe point only in the next period.
pub(crate) fn freeze(cgroups: &Cgroups) -> io::Result<Duration> {
    let started = Instant::now();
    let quota = cgroups.quota.as_ref();
    if let Some(quota) = quota {
        write(&quota.file, &quota.lifted)?;
    }
    let result = write(&format!("{}/cgroup.freeze", cgroups.unified), "1")
        .and_then(|()| wait_for(cgroups, "frozen 1", FREEZE_TIMEOUT));
    let restored = restore_quota(cgroups);
    match restored.and(result) {
        Ok(true) => Ok(started.elapsed()),
        Ok(false) => {
            thaw(cgroups)?;
            Err(io::Error::other(
                "a process would not stand still; it was left running",
            ))
        }
        Err(error) => {
            let _ = thaw(cgroups);
            Err(error)
        }
    }
}

/// Puts the processor quota in force.
pub(crate) fn restore_quota(cgroups: &Cgroups) -> io::Result<()> {
    match &cgroups.quota {
        Some(quota) => write(&quota.file, &quota.limited),
        None => Ok(()),
    }
}

pub(crate) fn thaw(cgroups: &Cgroups) -> io::Result<()> {
    write(&format!("{}/cgroup.freeze", cgroups.unified), "0")
}

pub(crate) fn is_frozen(cgroups: &Cgroups) -> bool {
    events(cgroups).is_ok_and(|text| text.contains("frozen 1"))
}

/// Kills everything, frozen or not, and waits until nothing is left.
pub(crate) fn kill(cgroups: &Cgroups) -> io::Result<Duration> {
    let started = Instant::now();
    write(&format!("{}/cgroup.kill", cgroups.unified), "1")?;
    // A frozen task dies all the same, but its exit work runs only once it is thawed.
    thaw(cgroups)?;
    if wait_for(cgroups, "populated 0", KILL_TIMEOUT)? {
        Ok(started.elapsed())
    } else {
        Err(io::Error::other(
            "a process would not die within ten seconds",
        ))
    }
}

/// Removes the sandbox's directories, nested ones first. Nothing may be left in them.
pub(crate) fn remove(cgroups: &Cgroups) {
    for directory in [&cgroups.unified].into_iter().chain(&cgroups.legacy) {
        if let Ok(children) = fs::read_dir(directory) {
            for child in children.flatten() {
                let _ = fs::remove_dir(child.path());
            }
        }
        let _ = fs::remove_dir(directory);
    }
}

/// The processes of a group and of those below it, as this machine counts them.
pub(crate) fn processes(group: &str) -> impl Iterator<Item = String> {
    let mut groups = vec![group.to_owned()];
    std::iter::from_fn(move || {
        let group = groups.pop()?;
        let below = fs_err::read_dir(&group).into_iter().flatten().flatten();
        groups.extend(below.filter_map(|entry| {
            let is_group = entry.file_type().is_ok_and(|kind| kind.is_dir());
            is_group.then(|| entry.path().to_string_lossy().into_owned())
        }));
        let processes = fs_err::read_to_string(format!("{group}/cgroup.procs"));
        let processes = processes.unwrap_or_default();
        Some(processes.lines().map(str::to_owned).collect::<Vec<_>>())
    })
    .flatten()
}

fn events(cgroups: &Cgroups) -> io::Result<String> {
    let mut text = String::new();
    File::open(format!("{}/cgroup.events", cgroups.unified))?.read_to_string(&mut text)?;
    Ok(text)
}

/// The kernel signals a change of `cgroup.events` as an exceptional condition on the file.
fn wait_for(cgroups: &Cgroups, wanted: &str, timeout: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    let mut file = File::open(format!("{}/cgroup.events", cgroups.unified))?;
    let mut text = String::new();
    loop {
        text.clear();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        match read {
            // A recovering nacre may remove the directory under us: then nothing is left in it.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                return Ok(wanted == "populated 0");
            }
            other => other?,
        };
        if text.contains(wanted) {
            return Ok(true);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // The kernel limits how often it notifies, and drops what is pending when the group goes.
        let slice = Timespec::try_from(left.min(LONGEST_NAP)).map_err(io::Error::other)?;
        poll(
            &mut [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI)],
            Some(&slice),
        )?;
    }
}
