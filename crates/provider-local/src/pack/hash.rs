//! Hashes files while they are written, so that an import need not read them again.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use portable::{Contents, Frame, Stream};

/// Enough that whoever writes small files never waits.
const QUEUE: usize = 256;

/// Sees contents go by; the work is done on a thread of its own.
pub(crate) struct Hashing<'scope> {
    queue: SyncSender<Step>,
    hasher: ScopedJoinHandle<'scope, HashMap<u64, [u8; 32]>>,
}

enum Step {
    Data(Frame, usize, usize),
    Hole(u64),
    End(u64),
}

impl<'scope> Hashing<'scope> {
    pub(crate) fn start<'env>(scope: &'scope Scope<'scope, 'env>) -> Self {
        let (queue, steps) = sync_channel(QUEUE);
        Self {
            queue,
            hasher: scope.spawn(move || run(steps)),
        }
    }

    /// What every file was, by inode.
    pub(crate) fn finish(self) -> HashMap<u64, [u8; 32]> {
        drop(self.queue);
        // Without them the files are read again.
        self.hasher.join().unwrap_or_default()
    }
}

impl Contents<&mut Stream> for Hashing<'_> {
    fn data(&mut self, reader: &&mut Stream, length: usize) {
        let (frame, at) = reader.frame();
        let _ = self.queue.send(Step::Data(frame, at, length));
    }

    fn hole(&mut self, length: u64) {
        if length > 0 {
            let _ = self.queue.send(Step::Hole(length));
        }
    }

    fn end(&mut self, inode: u64) {
        let _ = self.queue.send(Step::End(inode));
    }
}

fn run(steps: Receiver<Step>) -> HashMap<u64, [u8; 32]> {
    let zeros = vec![0; 64 << 10];
    let mut found = HashMap::new();
    let mut hash = blake3::Hasher::new();
    for step in steps {
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
            Step::End(inode) => {
                found.insert(inode, *hash.finalize().as_bytes());
                hash.reset();
            }
        }
    }
    found
}
