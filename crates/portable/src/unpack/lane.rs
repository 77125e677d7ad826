//! A second thread for small files: making one takes the kernel longer than reading it takes us.
//! Files come in batches of one directory; whoever is free writes the next.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use rustix::fs::{Gid, Mode, OFlags, Stat, Uid, openat};

use super::{Directory, refused, times};
use crate::tar::Entry;

/// Of a file that goes this way.
const SMALL: u64 = 64 << 10;
/// Of a batch.
const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 1 << 20;

/// An inode and the hash of what was written.
pub(super) type Written = Vec<(u64, blake3::Hash)>;

/// A file without attributes or holes, and all of its content.
pub(super) struct Small {
    pub(super) path: Vec<u8>,
    pub(super) name: Vec<u8>,
    pub(super) content: Vec<u8>,
    pub(super) properties: Properties,
}

/// What a file gets beside its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Properties {
    pub(super) mode: u32,
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) mtime: i64,
}

struct Batch {
    directory: Arc<Directory>,
    files: Vec<Small>,
    bytes: usize,
}

enum Order {
    Write(Batch),
    /// Everything before this is done.
    Answer(SyncSender<()>),
}

pub(super) struct Lane<'scope> {
    orders: SyncSender<Order>,
    other: ScopedJoinHandle<'scope, io::Result<Written>>,
    batch: Option<Batch>,
    written: Written,
}

impl<'scope> Lane<'scope> {
    pub(super) fn open<'env>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (orders, waiting) = sync_channel(1);
        Self {
            orders,
            other: scope.spawn(move || run(&waiting)),
            batch: None,
            written: Written::new(),
        }
    }

    pub(super) fn takes(entry: &Entry) -> bool {
        entry.size <= SMALL && entry.extents.is_none() && entry.attributes.is_empty()
    }

    pub(super) fn add(&mut self, directory: &Arc<Directory>, file: Small) -> io::Result<()> {
        let is_elsewhere = |batch: &Batch| !Arc::ptr_eq(&batch.directory, directory);
        if self.batch.as_ref().is_some_and(is_elsewhere) {
            self.hand_on()?;
        }
        let batch = self.batch.get_or_insert_with(|| Batch {
            directory: Arc::clone(directory),
            files: Vec::new(),
            bytes: 0,
        });
        batch.bytes += file.content.len();
        batch.files.push(file);
        if batch.files.len() >= MOST_FILES || batch.bytes >= MOST_BYTES {
            self.hand_on()?;
        }
        Ok(())
    }

    /// Has what was added written, by whoever is free.
    pub(super) fn hand_on(&mut self) -> io::Result<()> {
        let Some(batch) = self.batch.take() else {
            return Ok(());
        };
        match self.orders.try_send(Order::Write(batch)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Order::Write(batch))) => batch.write(&mut self.written),
            Err(_) => Err(io::Error::other("the other thread has stopped")),
        }
    }

    /// Everything that was added is there.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        self.hand_on()?;
        let (answer, done) = sync_channel(1);
        let stopped = |()| io::Error::other("the other thread has stopped");
        let asked = self.orders.send(Order::Answer(answer));
        asked.map_err(|_| stopped(()))?;
        done.recv().map_err(|_| stopped(()))
    }

    /// What was written, here and there.
    pub(super) fn close(mut self) -> io::Result<Written> {
        drop(self.orders);
        let there = self.other.join();
        self.written
            .extend(there.map_err(|_| io::Error::other("a thread died"))??);
        Ok(self.written)
    }
}

fn run(waiting: &Receiver<Order>) -> io::Result<Written> {
    let mut written = Written::new();
    for order in waiting {
        match order {
            Order::Write(batch) => batch.write(&mut written)?,
            Order::Answer(answer) => {
                let _ = answer.send(());
            }
        }
    }
    Ok(written)
}

impl Batch {
    fn write(self, written: &mut Written) -> io::Result<()> {
        for file in &self.files {
            let made = make(&self.directory.fd, &file.name, file.properties)
                .map_err(|error| refused(error, &file.path))?;
            let mut rest = &file.content[..];
            while !rest.is_empty() {
                match rustix::io::write(&made, rest) {
                    Ok(length) => rest = &rest[length..],
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let stat = rustix::fs::fstat(&made)?;
            finish(&made, &stat, file.properties)?;
            rustix::fs::futimens(&made, &times(file.properties.mtime))?;
            written.push((stat.st_ino, blake3::hash(&file.content)));
        }
        Directory::leave(self.directory)
    }
}

/// A new file; its special bits come later.
pub(super) fn make(
    at: &OwnedFd,
    name: &[u8],
    properties: Properties,
) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(
        at,
        name,
        flags,
        Mode::from_raw_mode(properties.mode & 0o777),
    )
}

/// Most files are root's and are made as they should be. Owner first: changing it clears set-uid
/// bits and capabilities.
pub(super) fn finish(file: &OwnedFd, made: &Stat, wanted: Properties) -> io::Result<()> {
    let is_owned = (made.st_uid, made.st_gid) == (wanted.uid.as_raw(), wanted.gid.as_raw());
    if !is_owned {
        rustix::fs::fchown(file, Some(wanted.uid), Some(wanted.gid))?;
    }
    if !is_owned || made.st_mode & 0o7777 != wanted.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(wanted.mode))?;
    }
    Ok(())
}
