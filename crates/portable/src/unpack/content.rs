//! What is in a file.

use std::io::{self, BufRead};
use std::num::NonZero;
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, Stat, fadvise};
use rustix::io::Errno;

use crate::invalid;
use crate::tar::{Entry, Extent, Reader};

/// Of this length, data is sent to the disk while the rest is still being unpacked: at the end of an
/// import everything must be there.
const LONG: u64 = 1 << 20;

/// Gets to see the content of each regular file while it is written.
pub trait Contents<R> {
    /// More of the file: what the reader's buffer begins with, of this length.
    fn data(&mut self, reader: &R, length: usize);
    /// A hole of this length.
    fn hole(&mut self, length: u64);
    /// The file is whole; this is its inode, and whether it gets no attributes.
    fn end(&mut self, inode: u64, has_none: bool);
    /// The same for a small file without attributes, whose hash is known already.
    fn known(&mut self, inode: u64, hash: blake3::Hash);
}

/// Nobody looks.
impl<R> Contents<R> for () {
    fn data(&mut self, _: &R, _: usize) {}
    fn hole(&mut self, _: u64) {}
    fn end(&mut self, _: u64, _: bool) {}
    fn known(&mut self, _: u64, _: blake3::Hash) {}
}

/// All of a small entry's data.
pub(super) fn whole<R: BufRead>(entry: &Entry, reader: &mut Reader<R>) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(entry.size).map_err(io::Error::other)?);
    loop {
        let piece = reader.data()?;
        if piece.is_empty() {
            return Ok(content);
        }
        content.extend_from_slice(piece);
        let length = piece.len();
        reader.used(length);
    }
}

/// Fills a new file with an entry's data; gives its properties.
pub(super) fn fill<R: BufRead>(
    file: &OwnedFd,
    entry: &Entry,
    reader: &mut Reader<R>,
    contents: &mut impl Contents<R>,
) -> io::Result<Stat> {
    let whole = [Extent {
        start: 0,
        length: entry.size,
    }];
    let mut end = 0;
    for extent in entry.extents.as_deref().unwrap_or(&whole) {
        contents.hole(extent.start - end);
        let mut at = extent.start;
        end = extent.start + extent.length;
        while at < end {
            let piece = reader.data()?;
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            let piece = &piece[..piece.len().min(left)];
            let length = piece.len();
            let mut written = 0;
            while written < length {
                match rustix::io::pwrite(file, &piece[written..], at + written as u64) {
                    Ok(more) => written += more,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(long) = NonZero::new(length as u64).filter(|l| l.get() >= LONG) {
                // Begins to write it to the disk; what is being written stays in memory.
                let _ = fadvise(file, at, Some(long), Advice::DontNeed);
            }
            contents.data(reader.inner(), length);
            reader.used(length);
            at += length as u64;
        }
    }
    contents.hole(entry.size - end);
    // A hole at the end is made by nothing else.
    if entry.extents.is_some() {
        rustix::fs::ftruncate(file, entry.size).map_err(|error| match error {
            Errno::FBIG | Errno::INVAL => invalid("a file that no disk could hold"),
            error => error.into(),
        })?;
    }
    let stat = rustix::fs::fstat(file)?;
    contents.end(stat.st_ino, entry.attributes.is_empty());
    Ok(stat)
}
