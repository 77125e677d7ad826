//! What was decided, one JSON object a line: who was asked for, what became of it. No paths, no
//! queries, no fields.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::{Clock, Timestamp};
use rustix::fs::{Mode, OFlags, fstat, open, openat, renameat};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

pub const CURRENT: &str = "egress.log";
pub const PREVIOUS: &str = "egress.log.1";
/// Two files of this size are kept.
const MAX_FILE: u64 = 1 << 20;
/// More than this is written at once.
const MAX_PENDING: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Allowed,
    Refused,
    /// Allowed, but it could not be reached.
    Failed,
    /// The end of something that was allowed in an earlier line with the same number.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub at: Timestamp,
    /// Counted from the start of the proxy.
    pub number: u64,
    pub verdict: Verdict,
    pub method: String,
    pub host: String,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From the server to the sandbox.
    #[serde(default)]
    pub bytes_in: u64,
    #[serde(default)]
    pub bytes_out: u64,
    #[serde(default)]
    pub ms: u64,
}

/// What is known when something is decided.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    pub method: String,
    pub host: String,
    pub port: u16,
    pub address: Option<String>,
    pub reason: Option<String>,
}

/// How something that was allowed ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Carried {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub ms: u64,
}

/// Collects records and writes them a moment later, together.
///
/// What ends before it was written takes one line, as most requests do; what lasts longer has one
/// for the decision and one for its end.
#[derive(Debug)]
pub struct Log {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Told when there is something to write.
    waiting: Notify,
}

#[derive(Debug, Default)]
struct State {
    file: Option<Output>,
    next: u64,
    pending: Vec<Record>,
}

#[derive(Debug)]
struct Output {
    directory: OwnedFd,
    file: File,
    bytes: u64,
}

impl Log {
    /// Records nothing.
    pub fn nowhere(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            waiting: Notify::new(),
        }
    }

    /// Writes into a directory, which is used by descriptor: we may not be able to reach it by its
    /// path later.
    pub fn in_directory(directory: OwnedFd, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let output = Output::open(directory)?;
        Ok(Self {
            clock,
            state: Mutex::new(State {
                file: Some(output),
                ..State::default()
            }),
            waiting: Notify::new(),
        })
    }

    /// Notes a decision and gives its number.
    pub fn decided(&self, verdict: Verdict, decision: Decision) -> u64 {
        let at = self.clock.now();
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let Decision {
            method,
            host,
            port,
            address,
            reason,
        } = decision;
        state.pending.push(Record {
            at,
            number,
            verdict,
            method,
            host,
            port,
            address,
            reason,
            bytes_in: 0,
            bytes_out: 0,
            ms: 0,
        });
        // A refusal is looked for as soon as it was seen, and has no end that could come with it.
        if verdict == Verdict::Allowed {
            state.write_if_many();
            self.waiting.notify_one();
        } else {
            state.write();
        }
        number
    }

    pub fn closed(&self, number: u64, decision: Decision, carried: Carried) {
        let at = self.clock.now();
        let mut state = self.lock();
        let Carried {
            bytes_in,
            bytes_out,
            ms,
        } = carried;
        // The newest are the likeliest.
        if let Some(record) = state.pending.iter_mut().rev().find(|r| r.number == number) {
            record.bytes_in = bytes_in;
            record.bytes_out = bytes_out;
            record.ms = ms;
            record.reason = decision.reason;
            return;
        }
        let Decision {
            method,
            host,
            port,
            address,
            reason,
        } = decision;
        state.pending.push(Record {
            at,
            number,
            verdict: Verdict::Closed,
            method,
            host,
            port,
            address,
            reason,
            bytes_in,
            bytes_out,
            ms,
        });
        state.write_if_many();
        self.waiting.notify_one();
    }

    /// Until there is something to write.
    pub async fn wait(&self) {
        self.waiting.notified().await;
    }

    pub fn write(&self) {
        self.lock().write();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl State {
    fn write_if_many(&mut self) {
        if self.pending.len() >= MAX_PENDING {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut text = Vec::with_capacity(self.pending.len() * 160);
        for record in self.pending.drain(..) {
            // A record is plain data; writing it into memory cannot fail.
            let _ = serde_json::to_writer(&mut text, &record);
            text.push(b'\n');
        }
        if let Some(output) = &mut self.file {
            // A full disk must not stop the sandbox's traffic.
            let _ = output.write(&text);
        }
    }
}

impl Output {
    fn open(directory: OwnedFd) -> std::io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
        let file = openat(&directory, CURRENT, flags, Mode::from(0o600))?;
        let bytes = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        Ok(Self {
            directory,
            file: file.into(),
            bytes,
        })
    }

    fn write(&mut self, text: &[u8]) -> std::io::Result<()> {
        if self.bytes > 0 && self.bytes + text.len() as u64 > MAX_FILE {
            renameat(&self.directory, CURRENT, &self.directory, PREVIOUS)?;
            *self = Self::open(self.directory.try_clone()?)?;
        }
        self.file.write_all(text)?;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

/// Every record that is kept in a directory, the oldest first. What was written there came from a
/// process that hostile input reaches: links are not followed, lines that are no records left out.
pub fn read(directory: &Path) -> std::io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for name in [PREVIOUS, CURRENT] {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match open(directory.join(name), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            continue;
        }
        for line in BufReader::new(file.take(2 * MAX_FILE)).split(b'\n') {
            records.extend(serde_json::from_slice::<Record>(&line?));
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use model::ManualClock;

    use super::*;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("nacre-log-{name}-{}", std::process::id()));
            fs_err::create_dir_all(&path).expect("a directory");
            Self(path)
        }

        fn log(&self) -> Log {
            let clock = ManualClock::starting_at("2026-01-02T03:04:05Z".parse().expect("a time"));
            let directory = fs_err::File::open(&self.0).expect("it opens");
            Log::in_directory(OwnedFd::from(directory.into_parts().0), Arc::new(clock))
                .expect("a log")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs_err::remove_dir_all(&self.0);
        }
    }

    fn decision(host: &str) -> Decision {
        Decision {
            method: "GET".to_owned(),
            host: host.to_owned(),
            port: 80,
            ..Decision::default()
        }
    }

    const CARRIED: Carried = Carried {
        bytes_in: 7,
        bytes_out: 8,
        ms: 9,
    };

    #[test]
    fn what_ends_at_once_takes_one_line_and_what_lasts_takes_two() {
        let scratch = Scratch::new("lines");
        let log = scratch.log();
        let short = log.decided(Verdict::Allowed, decision("short"));
        log.closed(short, decision("short"), CARRIED);
        let lasting = log.decided(Verdict::Allowed, decision("long"));
        log.write();
        log.closed(lasting, decision("long"), CARRIED);
        log.write();
        let records = read(&scratch.0).expect("it is read");
        let told: Vec<_> = records
            .iter()
            .map(|r| (&*r.host, r.verdict, r.bytes_in))
            .collect();
        assert_eq!(
            told,
            [
                ("short", Verdict::Allowed, 7),
                ("long", Verdict::Allowed, 0),
                ("long", Verdict::Closed, 7)
            ]
        );
    }

    #[test]
    fn it_never_takes_more_than_two_files() {
        let scratch = Scratch::new("rotate");
        let log = scratch.log();
        for _ in 0..40_000 {
            log.decided(Verdict::Refused, decision("somewhere.example"));
        }
        log.write();
        let size = |name| {
            fs_err::metadata(scratch.0.join(name))
                .expect("it is there")
                .len()
        };
        assert!(size(CURRENT) <= MAX_FILE && size(PREVIOUS) <= MAX_FILE);
        let records = read(&scratch.0).expect("it is read");
        assert_eq!(records.last().map(|r| r.number), Some(39_999));
    }
}
