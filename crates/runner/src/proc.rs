//! Finding a command's processes without a cgroup: by session and by parent. A process that left
//! both is not found; sandboxes have cgroups, this is for when there is none.

use std::collections::BTreeSet;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::{Pid, Signal, kill_process};

/// Kills until a walk finds nobody new, because what is being killed can still fork.
pub(crate) fn kill_descendants(leader: Pid) {
    let mut killed = BTreeSet::new();
    for _ in 0..16 {
        let found = descendants(leader.as_raw_pid(), &processes());
        let new: Vec<i32> = found.difference(&killed).copied().collect();
        if new.is_empty() {
            return;
        }
        for pid in new.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        killed.extend(new);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

fn descendants(leader: i32, processes: &[Process]) -> BTreeSet<i32> {
    let mut family: BTreeSet<i32> = processes
        .iter()
        .filter(|p| p.session == leader || p.pid == leader)
        .map(|p| p.pid)
        .collect();
    loop {
        let before = family.len();
        let children = processes
            .iter()
            .filter(|p| family.contains(&p.parent))
            .map(|p| p.pid);
        let children: Vec<i32> = children.collect();
        family.extend(children);
        if family.len() == before {
            return family;
        }
    }
}

fn processes() -> Vec<Process> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = openat(CWD, c"/proc", flags, Mode::empty()) else {
        return Vec::new();
    };
    let Ok(entries) = Dir::read_from(&proc) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str().ok()?.parse::<i32>().ok()?;
            let path = format!("{pid}/stat");
            let file = openat(&proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
            let mut stat = [0u8; 1024];
            let length = rustix::io::read(file, &mut stat).ok()?;
            parse_stat(pid, &stat[..length])
        })
        .collect()
}

/// The name may hold anything, closing parentheses too; what follows the last one does not.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process {
        pid,
        parent,
        session,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_confuse() {
        let stat = b"7 (a) R 1 (b)) S 3 4 5 0 -1 0";
        assert_eq!(
            parse_stat(7, stat),
            Some(Process {
                pid: 7,
                parent: 3,
                session: 5
            })
        );
        assert_eq!(parse_stat(7, b"7 (short"), None);
        assert_eq!(parse_stat(7, b"7 (short) S"), None);
    }

    #[test]
    fn grandchildren_and_session_members_are_family() {
        let process = |pid, parent, session| Process {
            pid,
            parent,
            session,
        };
        let all = [
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 11),
            process(12, 11, 11),
            process(13, 1, 10),
            process(20, 1, 20),
        ];
        assert_eq!(descendants(10, &all), BTreeSet::from([10, 11, 12, 13]));
    }
}
