//! Processes of the host, as `/proc` and the cgroups show them.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::PATIENCE;

/// A process by its number and its start, so that a number used again is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    started: u64,
}

impl Process {
    pub(super) fn find(pid: i32) -> Option<Self> {
        let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in the second field may hold anything, so count from its end.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        // A zombie does nothing any more; whether its parent collects it is not ours to say.
        (!matches!(state, "Z" | "X")).then_some(Self { pid, started })
    }

    pub(super) fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    pub(super) fn signal(self, signal: Signal) {
        if self.is_alive() {
            let _ = kill_process(Pid::from_raw(self.pid).unwrap(), signal);
        }
    }

    /// Whether one of its threads sleeps in this place of the kernel.
    pub(super) fn waits_in(self, place: &str) -> bool {
        let threads = fs_err::read_dir(format!("/proc/{}/task", self.pid));
        threads.into_iter().flatten().flatten().any(|thread| {
            fs_err::read_to_string(thread.path().join("wchan"))
                .is_ok_and(|waits| waits.contains(place))
        })
    }

    /// Every namespace that it is in or holds open.
    pub(super) fn namespaces(self) -> Vec<String> {
        let links = |directory: &str| -> Vec<String> {
            let entries = fs_err::read_dir(format!("/proc/{}/{directory}", self.pid));
            entries
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| {
                    fs_err::read_link(entry.path())
                        .ok()?
                        .into_os_string()
                        .into_string()
                        .ok()
                })
                .collect()
        };
        let is_one = |link: &String| {
            ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup", "time"]
                .iter()
                .any(|kind| {
                    link.strip_prefix(kind)
                        .is_some_and(|rest| rest.starts_with(":["))
                })
        };
        [links("ns"), links("fd")]
            .concat()
            .into_iter()
            .filter(is_one)
            .collect()
    }

    /// As `kill -9`, and waits until it is gone.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
        within("a killed process is gone", PATIENCE, || !self.is_alive());
    }
}

/// Every process whose program lies below a directory: a home's keepers and runners.
pub(super) fn running_from(directory: &str) -> Vec<Process> {
    running(|pid| {
        fs_err::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|program| program.starts_with(directory))
    })
}

/// Every process that computes digests in the background, in this home.
pub(super) fn digesting(home: &str) -> Vec<Process> {
    running(|pid| {
        let says = |file, text: &str| {
            fs_err::read(format!("/proc/{pid}/{file}"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
        };
        says("cmdline", "digests") && says("environ", home)
    })
}

fn running(wanted: impl Fn(i32) -> bool) -> Vec<Process> {
    let Ok(entries) = fs_err::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok())
        .filter(|pid| wanted(*pid))
        .filter_map(Process::find)
        .collect()
}

/// Where the cgroup hierarchies are mounted, the unified one first.
pub(super) fn hierarchies() -> Vec<String> {
    let mounts = fs_err::read_to_string("/proc/self/mounts").unwrap();
    let of = |kind: &str| {
        mounts
            .lines()
            .filter(|line| line.split(' ').nth(2) == Some(kind))
            .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
            .collect::<Vec<_>>()
    };
    [of("cgroup2"), of("cgroup")].concat()
}

pub(super) fn within(what: &str, limit: Duration, check: impl FnMut() -> bool) {
    assert!(comes_true(limit, check), "not within {limit:?}: {what}");
}

pub(super) fn comes_true(limit: Duration, mut check: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !check() {
        if begun.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Waits for a child; one that does not end in time is killed, and `None`.
pub(super) fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if begun.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
