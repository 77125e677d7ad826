//! Finding a command's processes without a cgroup, as in gVisor: by session, by parent and by a mark
//! in their environment. A process that left all three is not found.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use rustix::process::{Pid, Signal, getpid, kill_process};

/// What forks faster than it is stopped is left to the limits.
const ROUNDS: usize = 64;
/// More than a command line and an environment together may have.
const MAX_ENVIRONMENT: usize = 4 << 20;

/// Stops until a walk finds nobody new, because what runs can still fork, and then kills: a parent
/// that dies first would take with it how its children are found.
pub(crate) fn kill_descendants(leader: Pid, mark: Option<&CStr>) {
    let mut stopped = BTreeSet::new();
    for _ in 0..ROUNDS {
        let found = descendants(leader.as_raw_pid(), &processes(mark));
        let new: Vec<i32> = found.difference(&stopped).copied().collect();
        if new.is_empty() {
            break;
        }
        signal(&new, Signal::STOP);
        stopped.extend(new);
    }
    signal(&stopped.into_iter().collect::<Vec<_>>(), Signal::KILL);
}

fn signal(pids: &[i32], signal: Signal) {
    let ourselves = getpid().as_raw_pid();
    let others = pids.iter().filter(|pid| **pid != ourselves && **pid > 1);
    for pid in others.filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    marked: bool,
}

fn descendants(leader: i32, processes: &[Process]) -> BTreeSet<i32> {
    let mut family: BTreeSet<i32> = processes
        .iter()
        .filter(|p| p.session == leader || p.pid == leader || p.marked)
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

fn processes(mark: Option<&CStr>) -> Vec<Process> {
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
            let stat = read(&proc, &format!("{pid}/stat"))?;
            let process = parse_stat(pid, &stat)?;
            let marked = mark.is_some_and(|mark| {
                read(&proc, &format!("{pid}/environ"))
                    .is_some_and(|environment| is_marked(&environment, mark))
            });
            Some(Process { marked, ..process })
        })
        .collect()
}

fn read(proc: &OwnedFd, path: &str) -> Option<Vec<u8>> {
    let file = openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut content = Vec::new();
    std::fs::File::from(file)
        .take(MAX_ENVIRONMENT as u64)
        .read_to_end(&mut content)
        .ok()?;
    Some(content)
}

fn is_marked(environment: &[u8], mark: &CStr) -> bool {
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark.to_bytes())
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
        marked: false,
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
                session: 5,
                marked: false,
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
            marked: false,
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

    #[test]
    fn a_daemon_is_family_by_its_mark() {
        let process = |pid, marked| Process {
            pid,
            parent: 1,
            session: pid,
            marked,
        };
        let all = [process(10, true), process(20, true), process(30, false)];
        assert_eq!(descendants(10, &all), BTreeSet::from([10, 20]));
        let mark = c"NACRE_COMMAND=boot.1.7";
        assert!(is_marked(b"A=b\0NACRE_COMMAND=boot.1.7\0C=d\0", mark));
        assert!(!is_marked(
            b"NACRE_COMMAND=boot.1.70\0X=NACRE_COMMAND=boot.1.7\0",
            mark
        ));
    }
}
