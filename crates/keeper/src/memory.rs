//! Ends what the kernel leaves standing: a sandbox whose processes fill its memory limit, where
//! the pages of their own programs are dropped and read back without end. Each round frees a little,
//! so that the kernel sees progress and ends nothing; nothing inside runs any more.
//!
//! ```text
//!          a second later         the limit is near            a look finds thrashing, thrice
//!  Unwatched ───────────► Calm ───────────────────────► Close ──────────────────────► the largest
//!                           ▲                             │                           process ends
//!                           └──── a look finds room ──────┘
//! ```

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use wire::keeper::Cgroups;

use crate::cgroup;

/// What lives no longer than this is not watched: beginning to, on a v1 hierarchy, keeps the group
/// from being removed for as long as the kernel takes for it.
const UNWATCHED: Duration = Duration::from_secs(1);
/// Between looks while there is thrashing, and while there is none.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(2);
const STRIKES: u32 = 3;
/// This often in a second is all that is left of the files' pages read back.
const ROUNDS: u64 = 8;
/// This often in a second is a page waited for.
const WAITS: u64 = 50;
/// Who gets more than this part of a processor for their own work gets somewhere.
const PART_OF_WORK: u32 = 20;
/// Files that have more than this part of the limit are not what it lacks.
const PART_OF_FILES: u64 = 16;
const PAGE: u64 = 4096;

pub(crate) struct Watch {
    group: Group,
    /// None while it is not watched.
    alarm: Option<Alarm>,
    state: State,
}

/// The directory of the memory controller, and the limit there.
struct Group {
    directory: String,
    limit: u64,
    is_unified: bool,
    /// The directory on the v2 hierarchy, which knows the processes and their time in any case.
    unified: String,
}

enum State {
    Unwatched {
        until: Instant,
    },
    Calm,
    Close {
        next: Instant,
        last: Reading,
        strikes: u32,
    },
}

/// Becomes ready when the limit is near.
enum Alarm {
    /// `memory.events`, which the kernel marks when the limit is met.
    Events(File),
    /// A threshold on a v1 hierarchy.
    Threshold(OwnedFd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    at: Instant,
    /// Pages of files that are there.
    files: u64,
    /// Pages of files that were dropped too early, ever.
    read_back: u64,
    /// How often a process stood still for a page of its program or of a file that it maps, ever.
    waits: u64,
    /// Time that the processes had for their own work, ever.
    worked: Duration,
}

impl Watch {
    /// Nothing without a limit.
    pub(crate) fn new(cgroups: &Cgroups) -> Option<Self> {
        Some(Self {
            group: Group::of(cgroups)?,
            alarm: None,
            state: State::Unwatched {
                until: Instant::now() + UNWATCHED,
            },
        })
    }

    pub(crate) fn poll_for<'fd>(&'fd self, fds: &mut Vec<PollFd<'fd>>) {
        if let (State::Calm, Some(alarm)) = (&self.state, &self.alarm) {
            let (fd, flags) = alarm.waited_for();
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }

    pub(crate) fn until_next(&self) -> Option<Duration> {
        match &self.state {
            State::Calm => None,
            State::Unwatched { until: next } | State::Close { next, .. } => {
                Some(next.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// `rung`: whether the descriptor of [`Self::poll_for`] was ready. An error says that the
    /// group is gone, or that the kernel does not help: then there is nothing to be done.
    pub(crate) fn mind(&mut self, rung: bool, spared: i32) -> io::Result<()> {
        let now = Instant::now();
        match &mut self.state {
            State::Unwatched { until } if now < *until => {}
            State::Unwatched { .. } => {
                self.alarm = Some(self.group.alarm()?);
                // It may have come close before anybody watched.
                self.state = if self.group.has_room()? {
                    State::Calm
                } else {
                    self.group.close(now)?
                };
            }
            State::Calm if !rung => {}
            State::Calm => self.state = self.group.close(now)?,
            State::Close { next, .. } if now < *next => {}
            State::Close {
                next,
                last,
                strikes,
            } => {
                let reading = self.group.read(now)?;
                let thrashes = self.group.thrashes(*last, reading);
                *last = reading;
                *strikes = if thrashes { *strikes + 1 } else { 0 };
                *next = now + if thrashes { SOON } else { LATER };
                if *strikes == STRIKES {
                    self.group.end_largest(spared);
                    *strikes = 0;
                }
                // In this order: what rings after the look is heard.
                if let Some(alarm) = &mut self.alarm {
                    alarm.turn_off()?;
                }
                if self.group.has_room()? {
                    self.state = State::Calm;
                }
            }
        }
        Ok(())
    }
}

impl Group {
    fn of(cgroups: &Cgroups) -> Option<Self> {
        let unified = [(&cgroups.unified, "memory.max", true)].into_iter();
        let legacy = cgroups
            .legacy
            .iter()
            .map(|directory| (directory, "memory.limit_in_bytes", false));
        unified
            .chain(legacy)
            .find_map(|(directory, file, is_unified)| {
                Some(Self {
                    // "max" where there is none; on v1, more than any machine has.
                    limit: number(&format!("{directory}/{file}"))
                        .ok()
                        .filter(|limit| *limit < 1 << 60)?,
                    directory: directory.clone(),
                    is_unified,
                    unified: cgroups.unified.clone(),
                })
            })
    }

    /// What a v1 hierarchy says only once, when it is crossed.
    fn nearly(&self) -> u64 {
        self.limit - self.limit / 64
    }

    fn usage(&self) -> String {
        let file = if self.is_unified {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        };
        format!("{}/{file}", self.directory)
    }

    fn has_room(&self) -> io::Result<bool> {
        Ok(number(&self.usage())? < self.nearly())
    }

    fn alarm(&self) -> io::Result<Alarm> {
        if self.is_unified {
            let mut alarm = Alarm::Events(File::open(format!("{}/memory.events", self.directory))?);
            alarm.turn_off()?;
            return Ok(alarm);
        }
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let control = format!("{}/cgroup.event_control", self.directory);
        let (usage, nearly) = (self.usage(), self.nearly());
        let told = fcntl_dupfd_cloexec(&alarm, 0)?;
        // The kernel answers after a grace period of its own, ten milliseconds or so, in which
        // whoever asks the keeper something would wait too.
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || {
                let file = File::open(&usage)?;
                let wish = format!("{} {} {nearly}", told.as_raw_fd(), file.as_raw_fd());
                cgroup::write(&control, &wish)?;
                // It may have been crossed before anybody watched.
                if number(&usage)? >= nearly {
                    rustix::io::write(&told, &1u64.to_ne_bytes())?;
                }
                io::Result::Ok(())
            })?;
        Ok(Alarm::Threshold(alarm))
    }

    fn close(&self, now: Instant) -> io::Result<State> {
        Ok(State::Close {
            next: now + SOON,
            last: self.read(now)?,
            strikes: 0,
        })
    }

    fn read(&self, at: Instant) -> io::Result<Reading> {
        let memory = fs_err::read_to_string(format!("{}/memory.stat", self.directory))?;
        let time = fs_err::read_to_string(format!("{}/cpu.stat", self.unified))?;
        Ok(Reading::of(&memory, &time, at))
    }

    /// Whether the same few pages come and go, processes stand still for them, and hardly anything
    /// else is done.
    fn thrashes(&self, before: Reading, now: Reading) -> bool {
        let took = now.at.saturating_duration_since(before.at);
        let is_often = |count: u64, before: u64, each_second: u64| {
            let count = u128::from(count.saturating_sub(before));
            count * 1000 > u128::from(each_second) * took.as_millis()
        };
        // Of so few pages that a round of them says nothing, a good many.
        let round = now.files.max(64);
        now.files * PAGE * PART_OF_FILES < self.limit
            && is_often(now.read_back, before.read_back, round * ROUNDS)
            && is_often(now.waits, before.waits, WAITS)
            && now.worked.saturating_sub(before.worked) * PART_OF_WORK < took
    }

    /// Whom the kernel would choose, but never PID 1: with it the sandbox would end.
    fn end_largest(&self, spared: i32) {
        let worst = cgroup::processes(&self.unified)
            .filter_map(|process| {
                let pid = process.parse::<i32>().ok().filter(|pid| *pid != spared)?;
                let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
                let badness = number(&format!("/proc/{pid}/oom_score")).ok()?;
                Some((badness, process, handle))
            })
            .max_by_key(|(badness, ..)| *badness);
        // Its number may have gone to somebody else between the list and the handle. Whoever is on
        // the list after that is who the handle is of.
        if let Some((_, process, handle)) = worst
            && cgroup::processes(&self.unified).any(|one| one == process)
        {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }
}

impl Reading {
    fn of(memory: &str, time: &str, at: Instant) -> Self {
        let value = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        let files = value(memory, "active_file ") + value(memory, "inactive_file ");
        Self {
            at,
            files: files / PAGE,
            read_back: value(memory, "workingset_refault_file "),
            waits: value(memory, "pgmajfault "),
            worked: Duration::from_micros(value(time, "user_usec ")),
        }
    }
}

impl Alarm {
    /// What happened so far is no news.
    fn turn_off(&mut self) -> io::Result<()> {
        match self {
            Self::Events(file) => {
                file.rewind()?;
                file.read_to_end(&mut Vec::new()).map(drop)
            }
            Self::Threshold(eventfd) => match rustix::io::read(&*eventfd, &mut [0; 8]) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn waited_for(&self) -> (BorrowedFd<'_>, PollFlags) {
        match self {
            Self::Events(file) => (file.as_fd(), PollFlags::PRI),
            Self::Threshold(eventfd) => (eventfd.as_fd(), PollFlags::IN),
        }
    }
}

fn number(path: &str) -> io::Result<u64> {
    let text = fs_err::read_to_string(path)?;
    text.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1 << 20;

    fn group() -> Group {
        Group {
            directory: String::new(),
            limit: 128 * MEGABYTE,
            is_unified: true,
            unified: String::new(),
        }
    }

    /// Half a second of a sandbox that is full, as it was seen on btrfs.
    fn thrashing() -> (Reading, Reading) {
        let before = Reading {
            at: Instant::now(),
            files: 54,
            read_back: 1000,
            waits: 1000,
            worked: Duration::from_secs(1),
        };
        let now = Reading {
            at: before.at + Duration::from_millis(500),
            read_back: before.read_back + 35_000,
            waits: before.waits + 640,
            ..before
        };
        (before, now)
    }

    #[test]
    fn few_pages_read_back_over_and_over_are_thrashing() {
        let (before, now) = thrashing();
        assert!(group().thrashes(before, now));
    }

    #[test]
    fn a_full_sandbox_that_gets_somewhere_is_left_alone() {
        let (before, now) = thrashing();
        let others = [
            // It reads large files.
            Reading {
                files: 20_000,
                ..now
            },
            // It reads little.
            Reading {
                read_back: before.read_back + 200,
                ..now
            },
            // It reads files and stands still for none.
            Reading {
                waits: before.waits,
                ..now
            },
            // It works.
            Reading {
                worked: before.worked + Duration::from_millis(100),
                ..now
            },
        ];
        for now in others {
            assert!(!group().thrashes(before, now), "{now:?}");
        }
    }

    #[test]
    fn both_hierarchies_name_these_numbers_alike() {
        let at = Instant::now();
        let memory = "cache 221184\nrss 133517312\nworkingset_refault_anon 3\n\
                      workingset_refault_file 83206\npgfault 7\npgmajfault 12\n\
                      inactive_anon 1\nactive_anon 8192\ninactive_file 221184\n\
                      active_file 4096\ntotal_inactive_file 7\n";
        let time = "usage_usec 9\nuser_usec 5000\nsystem_usec 4\n";
        let expected = Reading {
            at,
            files: 55,
            read_back: 83206,
            waits: 12,
            worked: Duration::from_millis(5),
        };
        assert_eq!(Reading::of(memory, time, at), expected);
    }
}
