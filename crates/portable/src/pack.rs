//! From a tar to blobs: cut, packed and named on several threads, handed on in order.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZero;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use crate::index::{BLOB_SIZE, Blob, LAYER_TYPE, Layer, Sha};
use crate::tar::{Sink, Writer};
use crate::{Control, Target};

/// How hard to press, and with how many threads.
#[derive(Debug, Clone, Copy)]
pub struct Packing {
    pub level: i32,
    pub threads: NonZero<usize>,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            level: 3,
            threads: std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN),
        }
    }
}

/// A piece of the tar, and its place in it.
struct Raw {
    number: usize,
    length: usize,
    buffer: Vec<u8>,
}

type Packed = (usize, Blob, Vec<u8>);

/// Sends the layer that `write` writes to the target. The same tree gives the same blobs, whatever
/// the number of threads.
pub fn pack(
    target: &mut dyn Target,
    packing: Packing,
    control: &Control,
    write: impl FnOnce(&mut Writer<Frames<'_>>) -> io::Result<()>,
) -> io::Result<Layer> {
    let threads = packing.threads.get();
    let spare = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (to_pack, waiting) = sync_channel::<Raw>(threads);
        let (packed, to_send) = sync_channel::<io::Result<Packed>>(threads);
        let waiting = std::sync::Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let (packed, waiting, spare) = (packed.clone(), waiting.clone(), &spare);
            scope.spawn(move || press(packing.level, &waiting, &packed, spare));
        }
        drop((packed, waiting));
        let sender = scope.spawn(move || send(target, to_send));
        let frames = Frames {
            current: vec![0; BLOB_SIZE],
            filled: 0,
            next: 0,
            bytes: 0,
            to_pack,
            spare: &spare,
            control,
        };
        let mut writer = Writer::new(frames);
        let written = write(&mut writer)
            .and_then(|()| writer.finish())
            .and_then(|(frames, entries)| Ok((frames.end()?, entries)));
        // The frames are gone, so the threads come to an end; what one of them met says more than
        // that nobody took what was written.
        let blobs = sender
            .join()
            .map_err(|_| io::Error::other("a thread died"))??;
        let (bytes, entries) = written?;
        Ok(Layer {
            media_type: LAYER_TYPE.to_owned(),
            bytes,
            entries,
            blobs,
        })
    })
}

/// A tar on its way, in pieces of one size.
#[derive(Debug)]
pub struct Frames<'a> {
    /// Always of the whole length, so that nothing is cleared only to be written over.
    current: Vec<u8>,
    filled: usize,
    next: usize,
    bytes: u64,
    to_pack: SyncSender<Raw>,
    /// Buffers to be used again: the kernel takes longer to give a new one than we to fill it.
    spare: &'a Mutex<Vec<Vec<u8>>>,
    control: &'a Control,
}

impl Frames<'_> {
    fn hand_on(&mut self) -> io::Result<()> {
        self.control.check()?;
        let fresh = self
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_else(|| vec![0; BLOB_SIZE]);
        let raw = Raw {
            number: self.next,
            length: self.filled,
            buffer: std::mem::replace(&mut self.current, fresh),
        };
        self.bytes += self.filled as u64;
        self.control.advance(self.filled as u64);
        self.next += 1;
        self.filled = 0;
        self.to_pack
            .send(raw)
            .map_err(|_| io::Error::other("nobody takes what is written"))
    }

    fn end(mut self) -> io::Result<u64> {
        if self.filled > 0 {
            self.hand_on()?;
        }
        Ok(self.bytes)
    }
}

impl Sink for Frames<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = BLOB_SIZE - self.filled;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current[self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == BLOB_SIZE {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn copy(&mut self, file: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<()> {
        let (mut at, end) = (start, start + length);
        while at < end {
            let room = BLOB_SIZE - self.filled;
            let piece = usize::try_from(end - at).map_or(room, |left| left.min(room));
            crate::tar::read_at(file, &mut self.current[self.filled..][..piece], at)?;
            self.filled += piece;
            at += piece as u64;
            if self.filled == BLOB_SIZE {
                self.hand_on()?;
            }
        }
        Ok(())
    }
}

fn press(
    level: i32,
    waiting: &Mutex<Receiver<Raw>>,
    packed: &SyncSender<io::Result<Packed>>,
    spare: &Mutex<Vec<Vec<u8>>>,
) {
    let mut compressor = zstd::bulk::Compressor::new(level);
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(raw) = next else {
            return;
        };
        let content = &raw.buffer[..raw.length];
        let result = match &mut compressor {
            Ok(compressor) => compressor.compress(content).map(|bytes| {
                let blob = Blob {
                    sha256: Sha::of(&bytes),
                    size: bytes.len() as u64,
                    unpacked: content.len() as u64,
                };
                (raw.number, blob, bytes)
            }),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(raw.buffer);
        if packed.send(result).is_err() {
            return;
        }
    }
}

/// Puts blobs in order and hands them to the target.
fn send(target: &mut dyn Target, to_send: Receiver<io::Result<Packed>>) -> io::Result<Vec<Blob>> {
    let mut early = BTreeMap::new();
    let mut blobs = Vec::new();
    for result in to_send {
        let (number, blob, bytes) = result?;
        early.insert(number, (blob, bytes));
        while let Some((blob, bytes)) = early.remove(&blobs.len()) {
            target.put(&blob, bytes)?;
            blobs.push(blob);
        }
    }
    Ok(blobs)
}
