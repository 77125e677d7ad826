//! How much processor time a service has used, from `/proc`.

use std::collections::BTreeMap;
use std::time::Duration;

use fs_err as fs;

use super::Name;

/// The kernel's unit in `/proc`, whatever its own tick is.
const TICKS_PER_SECOND: u64 = 100;
/// Deeper trees are cut there.
const MAX_ANCESTORS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    session: i32,
    /// Its own and that of the children it waited for.
    ticks: u64,
}

pub(super) fn processor_time(leaders: &[(Name, i32)]) -> BTreeMap<Name, Duration> {
    if leaders.is_empty() {
        return BTreeMap::new();
    }
    let processes = processes();
    leaders
        .iter()
        .map(|(name, leader)| (name.clone(), total(&processes, *leader)))
        .collect()
}

fn processes() -> BTreeMap<i32, Process> {
    let Ok(directory) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    directory
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parse(&stat)?))
        })
        .collect()
}

/// The name in brackets may hold anything, brackets too.
fn parse(stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
    })
}

fn total(processes: &BTreeMap<i32, Process>, leader: i32) -> Duration {
    let ticks: u64 = processes
        .iter()
        .filter(|(pid, process)| {
            **pid == leader || process.session == leader || descends(processes, process, leader)
        })
        .map(|(_, process)| process.ticks)
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
}

fn descends(processes: &BTreeMap<i32, Process>, process: &Process, leader: i32) -> bool {
    let mut parent = process.parent;
    for _ in 0..MAX_ANCESTORS {
        if parent == leader {
            return true;
        }
        match processes.get(&parent) {
            Some(process) => parent = process.parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_program_is_called() {
        let stat = b"42 (a) R 1 (x) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99";
        let process = parse(stat).unwrap();
        assert_eq!(
            (process.parent, process.session, process.ticks),
            (7, 42, 100)
        );
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn children_in_other_sessions_count() {
        let process = |parent, session, ticks| Process {
            parent,
            session,
            ticks,
        };
        let all = BTreeMap::from([
            (10, process(1, 10, 1)),
            (11, process(10, 10, 2)),
            (12, process(11, 12, 4)),
            (20, process(1, 20, 8)),
        ]);
        assert_eq!(total(&all, 10), Duration::from_millis(70));
    }
}
