//! What the workplace says about itself, in a file within a limit. No secret goes into it: those
//! that we hold are known, and taken out of every line.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use model::{Clock, Redactor};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::state;

/// Of both files together. The older half goes when the newer is full.
pub const LIMIT: u64 = 1 << 20;
const HALF: u64 = LIMIT / 2;
/// A longer line is cut: what is said in it may come from anybody.
const LONGEST_LINE: usize = 2 << 10;

/// Below the state.
pub fn path(state: &Utf8Path) -> Utf8PathBuf {
    state.join("logs/workplace.log")
}

/// Takes up what is said from now on, in the whole process. A process that has somebody for that
/// keeps them.
pub fn begin(path: Utf8PathBuf, clock: Arc<dyn Clock>, redactor: Redactor) {
    let log = OwnLog::open(path, clock, redactor);
    let _ = tracing::subscriber::set_global_default(log);
}

/// Warnings of anybody, and what our own crates say about what they do.
#[derive(Debug)]
pub struct OwnLog {
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    path: Utf8PathBuf,
    current: Option<File>,
    length: u64,
}

impl OwnLog {
    pub fn open(path: Utf8PathBuf, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        let mut files = Files {
            path,
            current: None,
            length: 0,
        };
        files.reopen();
        Self {
            clock,
            redactor,
            files: Mutex::new(files),
        }
    }

    fn line(&self, event: &Event<'_>) -> String {
        let about = event.metadata();
        let mut line = Line(format!(
            "{} {} {}:",
            self.clock.now(),
            about.level(),
            about.target()
        ));
        event.record(&mut line);
        // Before it is cut, so that no half of a secret is left.
        let whole = self.redactor.apply(&line.0);
        let mut kept: String = whole
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if kept.len() > LONGEST_LINE {
            kept.truncate(kept.floor_char_boundary(LONGEST_LINE));
            kept.push('…');
        }
        kept.push('\n');
        kept
    }
}

impl Files {
    /// A disk that is full loses what does not fit, and the workplace goes on.
    fn write(&mut self, line: &str) {
        if self.length + line.len() as u64 > HALF {
            self.turn();
        }
        if let Some(current) = &mut self.current
            && current.write_all(line.as_bytes()).is_ok()
        {
            self.length += line.len() as u64;
        }
    }

    fn turn(&mut self) {
        self.current = None;
        if fs::rename(&self.path, format!("{}.1", self.path)).is_err() {
            let _ = fs::remove_file(&self.path);
        }
        self.reopen();
    }

    fn reopen(&mut self) {
        self.current = state::open_to_append(&self.path).ok();
        let metadata = self.current.as_ref().and_then(|file| file.metadata().ok());
        self.length = metadata.map_or(0, |metadata| metadata.len());
    }
}

impl Subscriber for OwnLog {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        let is_ours = ["workplace", "agent"]
            .iter()
            .any(|ours| about.target().starts_with(ours));
        let most = if is_ours { Level::INFO } else { Level::WARN };
        *about.level() <= most
    }

    fn event(&self, event: &Event<'_>) {
        let line = self.line(event);
        // Whoever panicked with it left whole lines.
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.write(&line);
    }

    // Nothing here is about spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // To write into a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;

    use super::*;

    fn with_log(redactor: Redactor, say: impl FnOnce()) -> (String, String) {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = path(directory.path());
        let log = OwnLog::open(path.clone(), Arc::new(SystemClock), redactor);
        tracing::subscriber::with_default(log, say);
        let read = |path: String| fs::read_to_string(path).unwrap_or_default();
        (read(path.to_string()), read(format!("{path}.1")))
    }

    #[test]
    fn a_line_says_what_happened_and_where() {
        let (log, _) = with_log(Redactor::default(), || {
            tracing::warn!(code = 7, "the hub objects");
            tracing::info!(target: "somebody::else", "chatter");
            tracing::debug!("details");
        });
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(
            log.ends_with(" WARN workplace::own_log::tests: the hub objects code=7\n"),
            "{log}"
        );
    }

    #[test]
    fn no_secret_is_in_it_and_no_line_in_a_line() {
        let secret = format!("canary-{}", "y".repeat(40));
        // Cut in the middle of it.
        let words = format!("{}{secret}", "x".repeat(LONGEST_LINE - 60));
        let (log, _) = with_log(Redactor::new([secret.as_str()]), || {
            tracing::warn!(token = secret, "told {secret}\nWARN forged");
            tracing::warn!("{words}");
        });
        assert!(!log.contains("canary"), "{log}");
        assert_eq!(log.lines().count(), 2);
    }

    #[test]
    fn however_much_is_said_it_stays_within_its_limit() {
        let text = "x".repeat(1000);
        let (newer, older) = with_log(Redactor::default(), || {
            for number in 0..3000 {
                tracing::info!(number, "{text}");
            }
        });
        assert!(newer.len() as u64 <= HALF && older.len() as u64 <= HALF);
        assert!(newer.contains("number=2999"));
        assert!(!older.is_empty());
    }
}
