//! Hashes files while they are written, so that an import need not read them again.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use portable::{Frame, Stream};

use crate::tree::{Content, Contents};

/// So much is handed to the other thread at once: for each small file by itself that would take
/// longer than hashing it.
const BATCH: usize = 512 << 10;
/// A step counts as so much, even if it brings nothing.
const PER_STEP: usize = 512;
/// Enough that whoever writes never waits for long; each batch may hold frames in memory.
const QUEUE: usize = 4;

/// Sees contents go by; they are hashed on a thread of their own.
pub(crate) struct Hashing<'scope> {
    batch: Vec<Step>,
    bytes: usize,
    known: Contents,
    queue: SyncSender<Vec<Step>>,
    hasher: ScopedJoinHandle<'scope, Contents>,
}

enum Step {
    Data(Frame, usize, usize),
    Hole(u64),
    End(u64, bool),
}

impl<'scope> Hashing<'scope> {
    pub(crate) fn start<'env>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (queue, batches) = sync_channel(QUEUE);
        Self {
            batch: Vec::new(),
            bytes: 0,
            known: Contents::new(),
            queue,
            hasher: scope.spawn(move || run(batches)),
        }
    }

    /// What every file was, by inode.
    pub(crate) fn finish(mut self) -> Contents {
        self.hand_on();
        drop(self.queue);
        let mut all = self.known;
        // Without them the files are read again.
        all.extend(self.hasher.join().unwrap_or_default());
        all
    }

    fn add(&mut self, step: Step, bytes: usize) {
        self.batch.push(step);
        self.bytes += bytes;
        if self.bytes >= BATCH {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        self.bytes = 0;
        let _ = self.queue.send(std::mem::take(&mut self.batch));
    }
}

impl portable::Contents<&mut Stream> for Hashing<'_> {
    fn data(&mut self, reader: &&mut Stream, length: usize) {
        let (frame, at) = reader.frame();
        self.add(Step::Data(frame, at, length), length);
    }

    fn hole(&mut self, length: u64) {
        if length > 0 {
            self.add(Step::Hole(length), PER_STEP);
        }
    }

    fn end(&mut self, inode: u64, has_none: bool) {
        self.add(Step::End(inode, has_none), PER_STEP);
    }

    fn known(&mut self, inode: u64, hash: blake3::Hash) {
        self.known.insert(inode, Content::plain(hash));
    }
}

fn run(batches: Receiver<Vec<Step>>) -> Contents {
    let zeros = vec![0; 64 << 10];
    let mut found = Contents::new();
    let mut hash = blake3::Hasher::new();
    for step in batches.into_iter().flatten() {
        match step {
            Step::Data(frame, at, length) => {
                hash.update(&frame[at..at + length]);
            }
            Step::Hole(mut length) => {
                while length > 0 {
                    let piece = length.min(zeros.len() as u64);
                    hash.update(&zeros[..usize::try_from(piece).unwrap_or(zeros.len())]);
                    length -= piece;
                }
            }
            Step::End(inode, has_none) => {
                found.insert(inode, Content::new(&hash, has_none));
                hash.reset();
            }
        }
    }
    found
}
