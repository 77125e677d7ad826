//! Files as one stream: an archive that a session unpacks, and one that it packed, which may say
//! anything. Names in it lead nowhere but below where it is to land, and nothing in it is kept in
//! memory that has no limit.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use bytes::{Buf as _, Bytes};
use model::ByteCount;
use provider::{FileEntry, FileEvent, FileKind};
use tar::{Archive, Builder, EntryType, Header};
use tokio::sync::mpsc;

use crate::commands::sandbox::pack::open;
use crate::commands::sandbox::unpack::Unpacker;
use crate::error::CommandError;
use crate::output::Output;

const QUEUE: usize = 16;
const PIECE: usize = 64 << 10;
/// The kernel takes no longer path.
const LONGEST_NAME: u64 = 4096;
/// A session that sends more than this is ill or worse.
const MOST_BYTES: u64 = 64 << 30;
const MOST_ENTRIES: u64 = 2_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} {noun}, {}", self.files, ByteCount::new(self.bytes))
    }
}

/// For bytes that come, and a thread that reads them.
pub(super) fn pieces() -> (mpsc::Sender<Bytes>, impl Read + Send) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let reader = Incoming {
        receiver,
        left: Bytes::new(),
    };
    (sender, reader)
}

/// For a thread that writes, and bytes that go.
pub(super) fn writer() -> (mpsc::Receiver<Bytes>, impl Write + Send) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let writer = io::BufWriter::with_capacity(PIECE, Outgoing { sender });
    (receiver, writer)
}

struct Incoming {
    receiver: mpsc::Receiver<Bytes>,
    left: Bytes,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.is_empty() {
            match self.receiver.blocking_recv() {
                Some(piece) => self.left = piece,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.left.len());
        self.left.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

struct Outgoing {
    sender: mpsc::Sender<Bytes>,
}

impl Write for Outgoing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sender.blocking_send(Bytes::copy_from_slice(bytes));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One file, as it is.
pub(super) fn send(from: &Path, mut to: impl Write) -> Result<Copied, CommandError> {
    let mut file = open(from)?;
    let sent = io::copy(&mut file, &mut to).and_then(|bytes| to.flush().map(|()| bytes));
    let bytes = sent.with_context(|| format!("cannot send {}", from.display()))?;
    Ok(Copied { files: 1, bytes })
}

/// What is in a directory, as an archive.
pub(super) fn pack(from: &Path, to: impl Write, output: Output) -> Result<Copied, CommandError> {
    let mut builder = Builder::new(to);
    let mut copied = Copied::default();
    // Directories before what is in them; the order of names makes two copies alike.
    let mut waiting = vec![PathBuf::new()];
    while let Some(name) = waiting.pop() {
        let path = from.join(&name);
        let metadata = fs_err::symlink_metadata(&path)?;
        let mut header = Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o777);
        header.set_mtime(modified(&metadata));
        header.set_size(0);
        if metadata.is_dir() {
            let mut below = fs_err::read_dir(&path)?
                .map(|entry| entry.map(|entry| name.join(entry.file_name())))
                .collect::<Result<Vec<_>, _>>()?;
            below.sort_unstable_by(|left, right| right.cmp(left));
            waiting.extend(below);
            if name.as_os_str().is_empty() {
                continue;
            }
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, &name, io::empty())?;
        } else if metadata.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, &name, fs_err::read_link(&path)?)?;
        } else if metadata.is_file() {
            let file = open(&path)?;
            let size = file.metadata()?.len();
            header.set_size(size);
            // One that grows meanwhile is cut, one that shrinks would shift all that follows.
            let mut content = Exactly {
                file: file.take(size),
                left: size,
            };
            builder
                .append_data(&mut header, &name, &mut content)
                .with_context(|| format!("cannot send {}", path.display()))?;
            copied.files += 1;
            copied.bytes += size;
        } else {
            let shown = path.display();
            output.warning(&format!("{shown} is a socket, pipe or device: left out"));
        }
    }
    builder.into_inner()?.flush()?;
    Ok(copied)
}

fn modified(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    u64::try_from(metadata.mtime()).unwrap_or(0)
}

struct Exactly<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        if length == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("it became shorter while it was read"));
        }
        self.left -= length as u64;
        Ok(length)
    }
}

/// What a session packed, written where `landing` says: whether it is a directory is known only now.
pub(super) fn unpack(
    archive: impl Read,
    output: Output,
    landing: impl FnOnce(bool) -> Result<(PathBuf, OsString), CommandError>,
) -> Result<Copied, CommandError> {
    let mut archive = Archive::new(archive);
    let mut landing = Some(landing);
    let mut unpacker = None;
    let mut names = Names::default();
    let mut entries = 0;
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry.context("what the session sent is no archive")?;
        entries += 1;
        if entries > MOST_ENTRIES {
            return Err(CommandError::refused("the session sends too many files"));
        }
        let header = entry.header().clone();
        let kind = header.entry_type();
        if kind.is_gnu_longname() || kind.is_gnu_longlink() {
            names.keep(kind, &mut entry)?;
            continue;
        }
        let (path, link) = names.take(&header);
        let is_directory = kind.is_dir();
        let writer = match &mut unpacker {
            Some(unpacker) => unpacker,
            empty @ None => {
                let landing = landing.take().context("it lands once")?;
                let (directory, name) = landing(is_directory)?;
                // A file that was asked for lands under the name that was asked for.
                names.is_one = !is_directory;
                empty.insert(Unpacker::below(&directory, &name)?)
            }
        };
        let path = if names.is_one {
            Vec::new()
        } else {
            inner(&path)
        };
        let kind = match kind {
            kind if kind.is_dir() => FileKind::Directory,
            kind if kind.is_file() || kind.is_contiguous() => FileKind::File,
            kind if kind.is_symlink() => FileKind::Symlink { target: link },
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                let shown = String::from_utf8_lossy(&path).into_owned();
                output.warning(&format!("{shown} is a pipe or device: left out"));
                continue;
            }
            _ => return Err(CommandError::refused("the session sent an odd archive")),
        };
        let is_file = kind == FileKind::File;
        writer.take(FileEvent::Entry(FileEntry {
            path,
            kind,
            mode: header.mode().unwrap_or(0o644),
            uid: None,
            gid: None,
        }))?;
        if is_file {
            content(&mut entry, header.entry_size()?, writer)?;
        }
    }
    let Some(unpacker) = unpacker else {
        return Ok(Copied::default());
    };
    let (files, bytes) = unpacker.finish()?;
    Ok(Copied { files, bytes })
}

/// All of a file: one that ends before its size was cut off on the way.
fn content(entry: &mut impl Read, size: u64, to: &mut Unpacker) -> Result<()> {
    if to.bytes.saturating_add(size) > MOST_BYTES {
        bail!("the session sends more than {}", ByteCount::new(MOST_BYTES));
    }
    let mut buffer = vec![0; PIECE];
    let mut left = size;
    while left > 0 {
        let length = entry.read(&mut buffer)?;
        if length == 0 {
            bail!("the session stopped sending in the middle of a file");
        }
        left = left.saturating_sub(length as u64);
        to.take(FileEvent::Data(Bytes::copy_from_slice(&buffer[..length])))?;
    }
    Ok(())
}

/// Names that are too long for a header come before it.
#[derive(Debug, Default)]
struct Names {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    /// The archive is one file.
    is_one: bool,
}

impl Names {
    fn keep(&mut self, kind: EntryType, entry: &mut impl Read) -> Result<()> {
        let mut name = Vec::new();
        entry.take(LONGEST_NAME + 2).read_to_end(&mut name)?;
        if name.last() == Some(&0) {
            name.pop();
        }
        if name.len() as u64 > LONGEST_NAME {
            bail!("the session sent a name that is too long");
        }
        if kind.is_gnu_longlink() {
            self.link = Some(name);
        } else {
            self.path = Some(name);
        }
        Ok(())
    }

    fn take(&mut self, header: &Header) -> (Vec<u8>, Vec<u8>) {
        let path = self.path.take();
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = self.link.take();
        let link = link.or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
        (path, link.unwrap_or_default())
    }
}

/// Below the directory that was packed as `.`. What is not is left as it is, and refused later.
fn inner(path: &[u8]) -> Vec<u8> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    match path.strip_prefix(b"./") {
        Some(rest) => rest.to_vec(),
        None if path == b"." => Vec::new(),
        None => path.to_vec(),
    }
}

#[cfg(test)]
mod tests;
