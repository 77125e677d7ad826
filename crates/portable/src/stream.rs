//! From blobs to a tar: fetched, checked and unpacked ahead of whoever reads.

use std::io::{self, BufRead, Read};
use std::ops::Deref;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::index::{BLOB_SIZE, Blob, Layer, Sha};
use crate::{Control, Source, invalid};

/// A piece of the tar. It can be shared with whoever hashes while it is written; when nobody has it
/// any more its memory is used again, because the kernel takes longer to give new memory than we to
/// fill it.
#[derive(Debug, Default)]
pub struct Piece {
    bytes: Vec<u8>,
    spare: Spare,
}

pub type Frame = Arc<Piece>;
type Spare = Arc<Mutex<Vec<Vec<u8>>>>;

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(bytes);
    }
}

/// How many pieces are ready before they are asked for.
const AHEAD: usize = 3;

/// Reads one layer from the source with `read`.
pub fn stream<T>(
    source: &mut dyn Source,
    layer: &Layer,
    control: &Control,
    read: impl FnOnce(&mut Stream) -> io::Result<T>,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let (unpacked, frames) = sync_channel(AHEAD);
        let fetcher = scope.spawn(move || fetch(source, layer, control, &unpacked));
        let mut stream = Stream {
            frames,
            current: Frame::default(),
            at: 0,
        };
        let result = read(&mut stream);
        drop(stream);
        match fetcher.join() {
            // Where fetching failed, reading only found that nothing came.
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) => result,
            Err(_) => Err(io::Error::other("a thread died")),
        }
    })
}

fn fetch(
    source: &mut dyn Source,
    layer: &Layer,
    control: &Control,
    unpacked: &SyncSender<Frame>,
) -> io::Result<()> {
    let mut decompressor = zstd::bulk::Decompressor::new()?;
    let spare = Spare::default();
    source.get_all(&layer.blobs, &mut |blob, bytes| {
        control.check()?;
        let mut piece = Piece {
            bytes: spare
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop()
                .unwrap_or_default(),
            spare: Arc::clone(&spare),
        };
        open(&mut decompressor, blob, bytes, &mut piece.bytes)?;
        control.advance(blob.unpacked);
        // Whoever reads has stopped, and says why.
        Ok(unpacked.send(Arc::new(piece)).is_ok())
    })
}

/// A blob is what its name says, and unpacks to what the index says: nothing more is ever
/// allocated, whatever its header asks for.
fn open(
    decompressor: &mut zstd::bulk::Decompressor<'_>,
    blob: &Blob,
    bytes: &[u8],
    into: &mut Vec<u8>,
) -> io::Result<()> {
    if bytes.len() as u64 != blob.size || Sha::of(bytes) != blob.sha256 {
        return Err(invalid(format!("blob {} is damaged", blob.sha256)));
    }
    let wrong = || invalid(format!("blob {} is not what its index says", blob.sha256));
    let length = usize::try_from(blob.unpacked)
        .ok()
        .filter(|length| *length <= BLOB_SIZE)
        .ok_or_else(wrong)?;
    into.resize(length, 0);
    let unpacked = decompressor
        .decompress_to_buffer(bytes, &mut into[..])
        .map_err(|_| wrong())?;
    if unpacked != length {
        return Err(wrong());
    }
    Ok(())
}

/// A layer's tar.
#[derive(Debug)]
pub struct Stream {
    frames: Receiver<Frame>,
    current: Frame,
    at: usize,
}

impl Stream {
    /// The piece that [`BufRead::fill_buf`] gives a part of, and where in it that begins.
    pub fn frame(&self) -> (Frame, usize) {
        (Arc::clone(&self.current), self.at)
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.current.len() {
            match self.frames.recv() {
                Ok(frame) => (self.current, self.at) = (frame, 0),
                Err(_) => return Ok(&[]),
            }
        }
        Ok(&self.current[self.at..])
    }

    fn consume(&mut self, length: usize) {
        self.at += length;
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let length = piece.len().min(buffer.len());
        buffer[..length].copy_from_slice(&piece[..length]);
        self.consume(length);
        Ok(length)
    }
}
