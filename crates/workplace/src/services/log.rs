//! What a service wrote, kept on disk within a limit and followed without looking again and again.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use rustix::fs::OFlags;
use tokio::sync::watch;

use crate::state;

/// Of both files together. The older half goes when the newer is full.
pub const LIMIT: u64 = 4 << 20;
const HALF: u64 = LIMIT / 2;
/// The most that is read at once.
const CHUNK: usize = 32 << 10;

/// Bytes are counted from the first that was kept when we opened it: `NAME.log.1` holds those
/// before `turned`, `NAME.log` those after.
#[derive(Debug)]
pub struct Log {
    path: Utf8PathBuf,
    files: RefCell<Files>,
    written: watch::Sender<u64>,
    removed: Cell<bool>,
}

#[derive(Debug)]
struct Files {
    current: Option<File>,
    /// Where the older file begins, where it ends and the newer begins, where that ends.
    older: u64,
    turned: u64,
    end: u64,
}

impl Log {
    pub(super) fn open(path: Utf8PathBuf) -> Self {
        let older = length(&older_path(&path));
        let current = state::open_to_append(&path).ok();
        let length = current
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map_or(0, |metadata| metadata.len());
        let files = Files {
            current,
            older: 0,
            turned: older,
            end: older + length,
        };
        Self {
            path,
            written: watch::Sender::new(files.end),
            files: RefCell::new(files),
            removed: Cell::new(false),
        }
    }

    /// A disk that is full loses what does not fit; the service goes on.
    pub(super) fn write(&self, bytes: &[u8]) {
        let mut files = self.files.borrow_mut();
        for piece in bytes.chunks(CHUNK) {
            if files.end - files.turned + piece.len() as u64 > HALF {
                files.turn(&self.path);
            }
            let Some(current) = &mut files.current else {
                return;
            };
            if current.write_all(piece).is_ok() {
                files.end += piece.len() as u64;
            }
        }
        self.written.send_replace(files.end);
    }

    pub fn end(&self) -> u64 {
        self.files.borrow().end
    }

    /// From `count` bytes before the end on.
    pub fn tail(self: std::rc::Rc<Self>, count: u64) -> Follow {
        let offset = self.end().saturating_sub(count);
        Follow {
            changes: self.written.subscribe(),
            log: self,
            offset,
        }
    }

    /// Whoever follows it is told.
    pub(super) fn remove(&self) {
        self.removed.set(true);
        self.written.send_modify(|_| ());
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(older_path(&self.path));
    }

    /// The next bytes from `offset` on, and where they begin: later, when older ones are gone.
    fn read(&self, offset: u64) -> (u64, Vec<u8>) {
        let files = self.files.borrow();
        let offset = offset.clamp(files.older, files.end);
        let mut buffer = vec![0; CHUNK];
        let read = if offset < files.turned {
            let room = usize::try_from(files.turned - offset)
                .unwrap_or(CHUNK)
                .min(CHUNK);
            match state::open_existing(&older_path(&self.path), OFlags::RDONLY) {
                Ok(Some(file)) => file.read_at(&mut buffer[..room], offset - files.older),
                _ => Ok(0),
            }
        } else {
            match &files.current {
                Some(file) => file.read_at(&mut buffer, offset - files.turned),
                None => Ok(0),
            }
        };
        match read {
            Ok(0) | Err(_) if offset < files.turned => (files.turned, Vec::new()),
            read => {
                buffer.truncate(read.unwrap_or(0));
                (offset, buffer)
            }
        }
    }
}

impl Files {
    fn turn(&mut self, path: &Utf8Path) {
        self.current = None;
        let turned = fs::rename(path, older_path(path));
        self.current = state::open_to_append(path).ok();
        if turned.is_ok() {
            self.older = self.turned;
            self.turned = self.end;
        } else if let Some(current) = &self.current {
            let _ = current.set_len(0);
            (self.older, self.turned) = (self.end, self.end);
        }
    }
}

fn older_path(path: &Utf8Path) -> Utf8PathBuf {
    format!("{path}.1").into()
}

fn length(path: &Utf8Path) -> u64 {
    let opened: io::Result<_> = state::open_existing(path, OFlags::RDONLY);
    opened
        .ok()
        .flatten()
        .and_then(|file| file.metadata().ok())
        .map_or(0, |metadata| metadata.len().min(LIMIT))
}

/// A reader of a log. One that is slow misses what is no longer kept.
#[derive(Debug)]
pub struct Follow {
    log: std::rc::Rc<Log>,
    offset: u64,
    changes: watch::Receiver<u64>,
}

impl Follow {
    /// What is there already; empty at the end.
    pub fn ready(&mut self) -> Vec<u8> {
        loop {
            let (from, bytes) = self.log.read(self.offset);
            let moved = from != self.offset;
            self.offset = from + bytes.len() as u64;
            if !bytes.is_empty() || !moved {
                return bytes;
            }
        }
    }

    /// Waits for more. `None` once the log is gone.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            self.changes.mark_unchanged();
            let bytes = self.ready();
            if !bytes.is_empty() {
                return Some(bytes);
            }
            if self.log.removed.get() {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    fn everything(log: &Rc<Log>) -> Vec<u8> {
        let mut follow = Rc::clone(log).tail(u64::MAX);
        let mut all = Vec::new();
        loop {
            match follow.ready() {
                bytes if bytes.is_empty() => return all,
                bytes => all.extend(bytes),
            }
        }
    }

    #[test]
    fn a_flood_stays_within_the_limit_and_its_end_is_kept() {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = directory.path().join("web.log");
        let log = Rc::new(Log::open(path.clone()));
        for number in 0..200_000u32 {
            log.write(format!("line {number:06} of a service that talks a lot\n").as_bytes());
        }
        let size = length(&path) + length(&older_path(&path));
        assert!(size <= LIMIT && size > HALF, "{size}");
        let kept = everything(&log);
        assert_eq!(kept.len() as u64, size);
        assert!(kept.ends_with(b"line 199999 of a service that talks a lot\n"));
    }

    #[test]
    fn a_log_is_gone_on_with_after_a_restart() {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = directory.path().join("web.log");
        Log::open(path.clone()).write(b"before\n");
        let log = Rc::new(Log::open(path));
        log.write(b"after\xff\n");
        assert_eq!(everything(&log), b"before\nafter\xff\n");
    }

    #[tokio::test]
    async fn a_follower_is_told_at_once_and_misses_only_what_is_gone() {
        let directory = camino_tempfile::tempdir().unwrap();
        let log = Rc::new(Log::open(directory.path().join("web.log")));
        let mut follow = Rc::clone(&log).tail(0);
        log.write(b"one");
        assert_eq!(follow.next().await.unwrap(), b"one");
        for _ in 0..300 {
            log.write(&vec![b'x'; 30 << 10]);
        }
        log.write(b"last");
        let mut seen = 0;
        loop {
            let bytes = follow.next().await.unwrap();
            seen += bytes.len() as u64;
            if bytes.ends_with(b"last") {
                break;
            }
        }
        assert!(seen <= LIMIT, "{seen}");
        log.remove();
        assert_eq!(follow.next().await, None, "it is gone");
    }
}
