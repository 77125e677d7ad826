//! Hashes files while they are written, so that an import need not read them again.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use portable::{Frame, Stream};

use crate::tree::{Content, Contents};

/// A file of at most this length is hashed at once: to hand it to another thread takes longer.
const SHORT: usize = 64 << 10;
/// Enough that whoever writes never waits for long; each step may hold a frame in memory.
const QUEUE: usize = 8;

/// Sees contents go by; large ones are hashed on a thread of their own.
pub(crate) struct Hashing<'scope> {
    /// The file that is being written.
    current: blake3::Hasher,
    seen: usize,
    is_handed_on: bool,
    short: Contents,
    queue: SyncSender<Step>,
    hasher: ScopedJoinHandle<'scope, Contents>,
}

enum Step {
    /// What was hashed of the file before it turned out to be large.
    Begin(Box<blake3::Hasher>),
    Data(Frame, usize, usize),
    Hole(u64),
    End(u64, bool),
}

impl<'scope> Hashing<'scope> {
    pub(crate) fn start<'env>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (queue, steps) = sync_channel(QUEUE);
        Self {
            current: blake3::Hasher::new(),
            seen: 0,
            is_handed_on: false,
            short: Contents::new(),
            queue,
            hasher: scope.spawn(move || run(steps)),
        }
    }

    /// What every file was, by inode.
    pub(crate) fn finish(self) -> Contents {
        drop(self.queue);
        let mut all = self.short;
        // Without them the files are read again.
        all.extend(self.hasher.join().unwrap_or_default());
        all
    }

    fn send(&mut self, step: Step) {
        if !self.is_handed_on {
            self.is_handed_on = true;
            let begun = Box::new(self.current.clone());
            let _ = self.queue.send(Step::Begin(begun));
        }
        let _ = self.queue.send(step);
    }
}

impl portable::Contents<&mut Stream> for Hashing<'_> {
    fn data(&mut self, reader: &&mut Stream, length: usize) {
        let (frame, at) = reader.frame();
        self.seen = self.seen.saturating_add(length);
        if self.seen <= SHORT && !self.is_handed_on {
            self.current.update(&frame[at..at + length]);
        } else {
            self.send(Step::Data(frame, at, length));
        }
    }

    fn hole(&mut self, length: u64) {
        if length > 0 {
            self.send(Step::Hole(length));
        }
    }

    fn end(&mut self, inode: u64, has_none: bool) {
        if self.is_handed_on {
            let _ = self.queue.send(Step::End(inode, has_none));
        } else {
            self.short
                .insert(inode, Content::new(&self.current, has_none));
        }
        self.current.reset();
        self.is_handed_on = false;
        self.seen = 0;
    }
}

fn run(steps: Receiver<Step>) -> Contents {
    let zeros = vec![0; 64 << 10];
    let mut found = Contents::new();
    let mut hash = blake3::Hasher::new();
    for step in steps {
        match step {
            Step::Begin(begun) => hash = *begun,
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
            }
        }
    }
    found
}
