use std::io;
use std::os::fd::BorrowedFd;

use super::sparse::{self, Extent, MAX_EXTENTS};
use super::{BLOCK, Kind, LITERAL, XATTR, padding, pax};

/// Where a tar is written to.
pub trait Sink {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Copies a stretch of an open file, which must be there.
    fn copy(&mut self, file: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<()>;
}

/// What is said of an entry beside its content.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Empty for the root.
    pub path: &'a [u8],
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: i64,
    pub link: &'a [u8],
    pub attributes: &'a [(Vec<u8>, Vec<u8>)],
    /// The name is a name, though it begins as a whiteout's.
    pub literal: bool,
}

/// Writes entries in POSIX form, with PAX records where a plain header has no room.
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    entries: u64,
    records: Vec<u8>,
}

impl<S: Sink> Writer<S> {
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            entries: 0,
            records: Vec::new(),
        }
    }

    /// Anything that has no content.
    pub fn entry(&mut self, head: &Head<'_>) -> io::Result<()> {
        self.records.clear();
        self.head(head, 0)
    }

    /// A file whose content is at hand.
    pub fn bytes(&mut self, head: &Head<'_>, content: &[u8]) -> io::Result<()> {
        self.records.clear();
        self.head(head, content.len() as u64)?;
        self.sink.put(content)?;
        self.pad(content.len() as u64)
    }

    /// A file of which `extents` hold data; the rest of its `size` is holes.
    pub fn file(
        &mut self,
        head: &Head<'_>,
        content: BorrowedFd<'_>,
        size: u64,
        extents: &[Extent],
    ) -> io::Result<()> {
        self.records.clear();
        let whole = [Extent {
            start: 0,
            length: size,
        }];
        let is_whole = extents == whole || (size == 0 && extents.is_empty());
        if is_whole || extents.len() > MAX_EXTENTS {
            self.head(head, size)?;
            self.sink.copy(content, 0, size)?;
            return self.pad(size);
        }
        let map = sparse::map(extents, size);
        let data: u64 = extents.iter().map(|extent| extent.length).sum();
        pax::push(&mut self.records, b"GNU.sparse.major", b"1");
        pax::push(&mut self.records, b"GNU.sparse.minor", b"0");
        pax::push(&mut self.records, b"GNU.sparse.name", head.path);
        let text = size.to_string();
        pax::push(&mut self.records, b"GNU.sparse.realsize", text.as_bytes());
        self.head(head, map.len() as u64 + data)?;
        self.sink.put(&map)?;
        for extent in extents {
            self.sink.copy(content, extent.start, extent.length)?;
        }
        self.pad(data)
    }

    /// Ends the archive; gives the sink and how many entries there are.
    pub fn finish(mut self) -> io::Result<(S, u64)> {
        self.sink.put(&[0; 2 * BLOCK])?;
        Ok((self.sink, self.entries))
    }

    fn head(&mut self, head: &Head<'_>, size: u64) -> io::Result<()> {
        let path = if head.path.is_empty() {
            b"./"
        } else {
            head.path
        };
        if path.len() > 100 {
            pax::push(&mut self.records, b"path", path);
        }
        if head.link.len() > 100 {
            pax::push(&mut self.records, b"linkpath", head.link);
        }
        if size >= 1 << 33 {
            pax::push(&mut self.records, b"size", size.to_string().as_bytes());
        }
        for (key, id) in [(b"uid", head.uid), (b"gid", head.gid)] {
            if id >= 1 << 21 {
                pax::push(&mut self.records, key, id.to_string().as_bytes());
            }
        }
        if !(0..1 << 33).contains(&head.mtime) {
            pax::push(
                &mut self.records,
                b"mtime",
                head.mtime.to_string().as_bytes(),
            );
        }
        if head.literal {
            pax::push(&mut self.records, LITERAL, b"1");
        }
        for (name, value) in head.attributes {
            pax::push(&mut self.records, &[XATTR, name].concat(), value);
        }
        if !self.records.is_empty() {
            let records = std::mem::take(&mut self.records);
            let length = records.len() as u64;
            let extension = block(
                b"././@PaxHeader",
                b'x',
                &Head {
                    mode: 0o644,
                    link: b"",
                    ..*head
                },
                length,
            );
            self.sink.put(&extension)?;
            self.sink.put(&records)?;
            self.pad(length)?;
            self.records = records;
        }
        let kind = match head.kind {
            Kind::File => b'0',
            Kind::Link => b'1',
            Kind::Symlink => b'2',
            Kind::Device => b'3',
            Kind::Directory => b'5',
            Kind::Fifo => b'6',
        };
        self.entries += 1;
        self.sink.put(&block(path, kind, head, size))
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        self.sink.put(&[0; BLOCK][..padding(size)])
    }
}

/// A header; what does not fit is in the PAX records before it.
fn block(path: &[u8], kind: u8, head: &Head<'_>, size: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &path[..path.len().min(100)]);
    octal(&mut put, 100, 7, u64::from(head.mode & 0o7777));
    octal(&mut put, 108, 7, u64::from(head.uid) & ((1 << 21) - 1));
    octal(&mut put, 116, 7, u64::from(head.gid) & ((1 << 21) - 1));
    octal(&mut put, 124, 11, size & ((1 << 33) - 1));
    let mtime = u64::try_from(head.mtime).unwrap_or(0) & ((1 << 33) - 1);
    octal(&mut put, 136, 11, mtime);
    put(148, b"        ");
    put(156, &[kind]);
    put(157, &head.link[..head.link.len().min(100)]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    octal(&mut put, 148, 6, u64::from(sum));
    put(154, b"\0 ");
    block
}

fn octal(put: &mut impl FnMut(usize, &[u8]), at: usize, width: usize, mut number: u64) {
    let mut digits = [b'0'; 11];
    for digit in digits[..width].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number & 7).expect("three bits");
        number >>= 3;
    }
    put(at, &digits[..width]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, file: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<()> {
        let at = self.len();
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.resize(at + length, 0);
        read_at(file, &mut self[at..], start)
    }
}

/// Fills the buffer from a file that must be long enough.
pub(crate) fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], mut start: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(file, &mut buffer[filled..], start) {
            Ok(0) => return Err(io::Error::other("a file became shorter while it was read")),
            Ok(read) => {
                filled += read;
                start += read as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
