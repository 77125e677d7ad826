//! Counting what sandboxes might leave behind.

use std::collections::BTreeSet;
use std::path::PathBuf;

use camino::{Utf8Path, Utf8PathBuf};

use super::machine::{kibibytes, text};
use crate::error::CommandError;

/// Where this home's things are in the kernel.
#[derive(Debug)]
pub(super) struct Census {
    home: Utf8PathBuf,
    /// The name of the home's directory in every cgroup hierarchy.
    group: String,
}

/// A process of the home's, as `/proc` shows it.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) zombie: bool,
}

const IN_HOME: [&str; 7] = [
    "sandboxes",
    "layers",
    "trash",
    "ranges",
    "names",
    "keys",
    "intents",
];

impl Census {
    /// `pid`: the first process of one of the home's sandboxes, to see its cgroup by.
    pub(super) fn new(home: &Utf8Path, pid: i32) -> Option<Self> {
        let cgroups = text(&format!("/proc/{pid}/cgroup"));
        let group = cgroups
            .lines()
            .filter_map(|line| line.splitn(3, ':').nth(2))
            .find_map(|path| path.split('/').find(|part| part.starts_with("nacre-")))?;
        Some(Self {
            home: home.to_owned(),
            group: group.to_owned(),
        })
    }

    /// Every counter and its value, always in the same order.
    pub(super) fn take(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = IN_HOME
            .iter()
            .map(|name| (format!("home: {name}"), entries(&self.home.join(name))))
            .collect();
        let processes = processes(&self.home);
        let zombies = processes.iter().filter(|process| process.zombie).count();
        let mounts = text("/proc/self/mountinfo");
        let ours = mounts
            .lines()
            .filter(|line| line.contains(self.home.as_str()));
        all.extend([
            ("mounts of the home".to_owned(), count(ours.count())),
            ("processes of ours".to_owned(), count(processes.len())),
            ("zombies of ours".to_owned(), count(zombies)),
            ("cgroups of the home".to_owned(), self.cgroups()),
            ("machine: mounts".to_owned(), count(mounts.lines().count())),
            (
                "machine: network namespaces in use".to_owned(),
                network_namespaces(),
            ),
            // Apart, because these stay while a page in the cache is charged to them.
            (
                "machine: memory cgroups".to_owned(),
                machine_cgroups(|controller| controller == "memory"),
            ),
            (
                "machine: other cgroups".to_owned(),
                machine_cgroups(|controller| controller != "memory"),
            ),
        ]);
        if let Some(objects) = slab(&text("/proc/slabinfo"), "net_namespace") {
            all.push(("machine: slab net_namespace".to_owned(), objects));
        }
        all
    }

    /// Directories named for this home, and below them, in every hierarchy.
    fn cgroups(&self) -> u64 {
        cgroup_mounts()
            .iter()
            .map(|mount| {
                let group = mount.join(&self.group);
                if group.is_dir() {
                    1 + directories(&group)
                } else {
                    0
                }
            })
            .sum()
    }
}

/// Where cgroup hierarchies are mounted, of both versions.
pub(super) fn cgroup_mounts() -> Vec<Utf8PathBuf> {
    text("/proc/self/mountinfo")
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let place = left.split(' ').nth(4)?;
            matches!(right.split(' ').next()?, "cgroup" | "cgroup2").then(|| place.into())
        })
        .collect()
}

/// What runs a program that the home holds, and whatever else is our child.
pub(super) fn processes(home: &Utf8Path) -> Vec<Process> {
    let us = rustix::process::getpid().as_raw_nonzero().get();
    pids()
        .into_iter()
        .filter_map(|pid| {
            let (state, parent) = state_and_parent(&text(&format!("/proc/{pid}/stat")))?;
            let ours = parent == us || program(home, pid).is_some();
            ours.then_some(Process {
                pid,
                zombie: state == 'Z',
            })
        })
        .collect()
}

pub(super) fn is_keeper(home: &Utf8Path, pid: i32) -> bool {
    program(home, pid).is_some_and(|program| program.ends_with("nacre-keeper"))
}

/// What the process runs, if the home holds it.
fn program(home: &Utf8Path, pid: i32) -> Option<PathBuf> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    program.starts_with(home.as_std_path()).then_some(program)
}

/// The resident set of a process, and its share of it. One that cannot be read would make the sum
/// too small without a word.
pub(super) fn sizes(pid: i32) -> Result<(u64, u64), CommandError> {
    let rollup = text(&format!("/proc/{pid}/smaps_rollup"));
    kibibytes(&rollup, "Rss")
        .zip(kibibytes(&rollup, "Pss"))
        .ok_or_else(|| CommandError::failed(format!("cannot read how much memory {pid} has")))
}

/// Who started it, or took it over.
pub(super) fn parent(pid: i32) -> Option<i32> {
    let (_, parent) = state_and_parent(&text(&format!("/proc/{pid}/stat")))?;
    Some(parent)
}

pub(super) fn children(of: i32) -> Vec<i32> {
    let mut all = pids();
    all.retain(|pid| parent(*pid) == Some(of));
    all
}

fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// From `/proc/PID/stat`, whose second field is a name in parentheses that may hold anything.
fn state_and_parent(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn network_namespaces() -> u64 {
    let all: BTreeSet<std::path::PathBuf> = pids()
        .into_iter()
        .filter_map(|pid| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok())
        .collect();
    count(all.len())
}

/// By `/proc/cgroups`; controllers that share a hierarchy each say its number.
fn machine_cgroups(wanted: impl Fn(&str) -> bool) -> u64 {
    text("/proc/cgroups")
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let controller = fields.next().filter(|name| !name.starts_with('#'))?;
            let count = fields.nth(1)?.parse::<u64>().ok()?;
            wanted(controller).then_some(count)
        })
        .sum()
}

/// Objects in use of a kernel cache; none where the kernel does not say.
fn slab(slabinfo: &str, name: &str) -> Option<u64> {
    let line = slabinfo
        .lines()
        .find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn entries(directory: &Utf8Path) -> u64 {
    std::fs::read_dir(directory).map_or(0, |entries| count(entries.count()))
}

fn directories(directory: &Utf8Path) -> u64 {
    let Ok(entries) = directory.read_dir_utf8() else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| 1 + directories(entry.path()))
        .sum()
}

fn count(number: usize) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_has_parentheses_is_read_right() {
        let stat = "42 (a) Z 7 (b) S 17 42 0 0 -1 4194560";
        assert_eq!(state_and_parent(stat), Some(('S', 17)));
    }

    #[test]
    fn a_slab_is_found_by_its_whole_name() {
        let info = "net_namespace_x 9 9 1\nnet_namespace         21     28   4288    7    8\n";
        assert_eq!(slab(info, "net_namespace"), Some(21));
        assert_eq!(slab(info, "net"), None);
    }
}
