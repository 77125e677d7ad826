//! Whoever listens on a port that one of ours needs: left over from before, or somebody's mistake.
//! Ours could not start, so they have to go.

use std::time::Duration;

use fs_err as fs;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use tokio::time::sleep;

use crate::ports;

const LOOK: Duration = Duration::from_millis(20);
/// A killed process lets go of its port within a moment.
const MOST_LOOKS: u32 = 100;

/// Returns when nobody listens there any more. Whoever cannot be made to go is left, and then ours
/// says why it does not start.
pub(crate) async fn evict(port: u16) {
    for look in 0..MOST_LOOKS {
        let sockets = ports::sockets_on(port);
        if sockets.is_empty() {
            return;
        }
        if look == 0 {
            for holder in holders(&sockets) {
                tracing::warn!(
                    port,
                    pid = holder.as_raw_pid(),
                    "somebody holds a port of ours"
                );
                let _ = end(holder, &sockets);
            }
        }
        sleep(LOOK).await;
    }
    tracing::error!(port, "a port of ours stays taken");
}

fn holders(sockets: &[u64]) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| !pid.is_init() && *pid != getpid())
        .filter(|pid| holds(*pid, sockets))
        .collect()
}

fn holds(process: Pid, sockets: &[u64]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", process.as_raw_pid()));
    let mut open = descriptors.into_iter().flatten().flatten();
    open.any(|descriptor| {
        let target = fs::read_link(descriptor.path()).unwrap_or_default();
        let name = target
            .to_str()
            .and_then(|name| name.strip_prefix("socket:["));
        let number = name.and_then(|name| name.strip_suffix(']')?.parse().ok());
        number.is_some_and(|number| sockets.contains(&number))
    })
}

/// By a handle, and after another look: its number may be another's by now.
fn end(holder: Pid, sockets: &[u64]) -> Result<(), Errno> {
    let handle = pidfd_open(holder, PidfdFlags::empty())?;
    if holds(holder, sockets) {
        pidfd_send_signal(handle, Signal::KILL)?;
    }
    Ok(())
}
