//! One file: a plain tar of blobs, and the index last, when everything else is known. One that is
//! cut off has none, and is refused at once.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use camino::{Utf8Path, Utf8PathBuf};

use super::aside::Aside;
use super::{Sent, Source, Target, blob_path};
use crate::index::{MAX_INDEX, MAX_PACKED, Sha};
use crate::tar::{Head, Kind, Limits, Reader, Sink, Writer, read_at};
use crate::{Blob, Index, invalid};

const INDEX: &str = "index.json";
/// Blobs of a tebibyte.
const MAX_MEMBERS: u64 = 1 << 20;

/// What is this long is sent to the disk at once: at the end all of it must be there.
const LONG: usize = 1 << 20;

#[derive(Debug)]
pub struct WriteFile {
    /// Gone when the file has its name.
    writer: Option<Writer<Plain>>,
    names: HashSet<Sha>,
    sent: Sent,
}

impl WriteFile {
    /// The file appears when it is whole; one that is there is not replaced.
    pub fn create(path: &Utf8Path) -> io::Result<Self> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{path} exists"),
            ));
        }
        Ok(Self {
            writer: Some(Writer::new(Plain(Aside::new(path)?))),
            names: HashSet::new(),
            sent: Sent::default(),
        })
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let head = Head {
            path: name.as_bytes(),
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: 0,
            link: b"",
            attributes: &[],
            literal: false,
        };
        let writer = self.writer.as_mut().ok_or_else(finished)?;
        writer.bytes(&head, bytes)
    }
}

fn finished() -> io::Error {
    io::Error::other("the file is finished")
}

impl Target for WriteFile {
    fn has(&mut self, blob: &Blob) -> io::Result<bool> {
        Ok(self.names.contains(&blob.sha256))
    }

    fn put(&mut self, blob: &Blob, bytes: Vec<u8>) -> io::Result<()> {
        if !self.names.insert(blob.sha256) {
            self.sent.found += 1;
            return Ok(());
        }
        self.sent.blobs += 1;
        self.sent.bytes += blob.size;
        self.add(&blob_path(blob), &bytes)
    }

    fn finish(&mut self, index: &Index) -> io::Result<()> {
        self.add(INDEX, &index.to_json())?;
        let (Plain(aside), _) = self.writer.take().ok_or_else(finished)?.finish()?;
        aside.file.sync_all()?;
        aside.keep()
    }

    fn found(&mut self, blobs: u64) {
        self.sent.found += blobs;
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

#[derive(Debug)]
struct Plain(Aside);

impl Sink for Plain {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.file.write_all(bytes)?;
        if bytes.len() >= LONG {
            self.0.begin_writing();
        }
        Ok(())
    }

    fn copy(&mut self, _: BorrowedFd<'_>, _: u64, _: u64) -> io::Result<()> {
        Err(io::Error::other("blobs come from memory"))
    }
}

#[derive(Debug)]
pub struct ReadFile {
    path: Utf8PathBuf,
    file: File,
    /// Where each blob begins.
    blobs: HashMap<Sha, (u64, u64)>,
}

impl ReadFile {
    pub fn open(path: &Utf8Path) -> io::Result<Self> {
        Ok(Self {
            file: fs_err::File::open(path)?.into(),
            path: path.to_owned(),
            blobs: HashMap::new(),
        })
    }

    fn read(&self, start: u64, length: u64, into: &mut Vec<u8>) -> io::Result<()> {
        into.resize(usize::try_from(length).map_err(io::Error::other)?, 0);
        read_at(self.file.as_fd(), into, start)
            .map_err(|_| invalid(format!("{} is cut off, or cannot be read", self.path)))
    }
}

impl Source for ReadFile {
    /// Goes from header to header, so that the blobs need not be read to find the index.
    fn index(&mut self) -> io::Result<Index> {
        let limits = Limits {
            entries: MAX_MEMBERS,
            path: 256,
            depth: 3,
            extension: 4096,
            bytes: u64::MAX,
        };
        let no_snapshot =
            |error: &io::Error| invalid(format!("{} is not a snapshot: {error}", self.path));
        let file = Skipping::new(self.file.try_clone()?)?;
        let mut reader = Reader::new(file, limits);
        let mut index = None;
        let mut blobs = HashMap::new();
        while let Some(entry) = reader.next_entry().map_err(|e| no_snapshot(&e))? {
            let start = reader.inner().position();
            let name = std::str::from_utf8(&entry.path).unwrap_or_default();
            let sha = name
                .strip_prefix("blobs/sha256/")
                .and_then(|text| text.parse().ok());
            let wrong = |why: &str| invalid(format!("{} is not a snapshot: {why}", self.path));
            match sha {
                _ if entry.kind != Kind::File || entry.extents.is_some() || index.is_some() => {
                    return Err(wrong("it holds something else"));
                }
                Some(sha) if entry.size <= MAX_PACKED => {
                    if blobs.insert(sha, (start, entry.size)).is_some() {
                        return Err(wrong("a blob is in it twice"));
                    }
                }
                None if name == INDEX && entry.size <= MAX_INDEX => {
                    index = Some((start, entry.size));
                }
                _ => return Err(wrong("it holds something else")),
            }
            reader.go_over().map_err(|e| no_snapshot(&e))?;
        }
        let (start, length) = index.ok_or_else(|| {
            invalid(format!(
                "{} has no index: it is cut off, or not a snapshot",
                self.path
            ))
        })?;
        let mut text = Vec::new();
        self.read(start, length, &mut text)?;
        self.blobs = blobs;
        Index::parse(&text)
            .map_err(|error| invalid(format!("{} cannot be used: {error}", self.path)))
    }

    fn get_all(
        &mut self,
        blobs: &[Blob],
        each: &mut dyn FnMut(&Blob, &[u8]) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for blob in blobs {
            let found = self.blobs.get(&blob.sha256).copied();
            let (start, length) = found
                .filter(|(_, length)| *length == blob.size)
                .ok_or_else(|| invalid(format!("blob {} is not in {}", blob.sha256, self.path)))?;
            self.read(start, length, &mut bytes)?;
            if !each(blob, &bytes)? {
                break;
            }
        }
        Ok(())
    }
}

/// Reads in small pieces and goes over what is skipped without reading it.
struct Skipping {
    file: File,
    length: u64,
    /// Of what is in the buffer.
    start: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl Skipping {
    fn new(file: File) -> io::Result<Self> {
        Ok(Self {
            length: file.metadata()?.len(),
            file,
            start: 0,
            buffer: Vec::new(),
            at: 0,
        })
    }

    fn position(&self) -> u64 {
        self.start.saturating_add(self.at as u64)
    }
}

impl BufRead for Skipping {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.buffer.len() {
            self.start = self.position();
            self.at = 0;
            let left = self.length.saturating_sub(self.start);
            let size = usize::try_from(left.min(512)).expect("at most a block");
            self.buffer.resize(size, 0);
            read_at(self.file.as_fd(), &mut self.buffer, self.start)?;
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, length: usize) {
        self.at = self.at.saturating_add(length);
    }
}

impl Read for Skipping {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.fill_buf()?;
        let length = piece.len().min(buffer.len());
        buffer[..length].copy_from_slice(&piece[..length]);
        self.consume(length);
        Ok(length)
    }
}
