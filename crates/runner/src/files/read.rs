//! Sending what is on the disk. Links are never followed, except the one the host named itself.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat,
};
use rustix::io::{Errno, read};
use wire::guest::{Entry, EntryKind, Reply};
use wire::{Channel, Frame, Raw};

use super::Stop;
use super::path::{MAX_PATH, absolute, joined};
use crate::failure::{cannot, refused};

const MAX_DEPTH: usize = 256;
pub(super) const CHUNK: usize = 64 << 10;
/// A file is read to the length it had when it was opened. The kernel's own files say zero.
const UNKNOWN_LENGTH: u64 = 16 << 20;
/// Whatever the name turns out to be, opening it must neither wait nor take a terminal.
pub(super) const PLAIN: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Whether nothing is there.
pub(super) fn send(path: &Raw, host: &mut impl Write) -> Result<bool, Stop> {
    let name = absolute(path)?;
    let cannot_read = |errno| Stop::Failed(cannot(&format!("read {path:?}"), errno));
    let top = match open(name, PLAIN, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(true),
        other => other.map_err(cannot_read)?,
    };
    send_opened(&top, path, host)?;
    Ok(false)
}

/// A file or directory that was found. `path` is for messages.
pub(super) fn send_opened(top: &OwnedFd, path: &Raw, host: &mut impl Write) -> Result<(), Stop> {
    let cannot_read = |errno| Stop::Failed(cannot(&format!("read {path:?}"), errno));
    let stat = fstat(top).map_err(cannot_read)?;
    let mut sender = Sender {
        host,
        top: path,
        relative: Vec::new(),
        buffer: vec![0; CHUNK],
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => sender.file(top, &stat),
        FileType::Directory => sender.directory(top, &stat, 0),
        _ => Err(refused(format!("{path:?} is neither a file nor a directory")).into()),
    }
}

struct Sender<'a, W> {
    host: &'a mut W,
    top: &'a Raw,
    /// Where we are below the top.
    relative: Vec<u8>,
    buffer: Vec<u8>,
}

impl<W: Write> Sender<'_, W> {
    fn directory(&mut self, directory: &OwnedFd, stat: &Stat, depth: usize) -> Result<(), Stop> {
        self.entry(EntryKind::Directory, stat)?;
        self.end()?;
        for name in self.names(directory)? {
            let length = self.relative.len();
            if length > 0 {
                self.relative.push(b'/');
            }
            self.relative.extend_from_slice(name.as_bytes());
            if depth >= MAX_DEPTH || self.relative.len() > MAX_PATH {
                return Err(refused(format!("{} is too deep", self.shown())).into());
            }
            match self.child(directory.as_fd(), &name, depth) {
                // Gone, or become something else, since it was listed.
                Ok(()) | Err(Missed::Vanished) => {}
                Err(Missed::Errno(errno)) => return Err(self.cannot_read(errno)),
                Err(Missed::Stop(stop)) => return Err(stop),
            }
            self.relative.truncate(length);
        }
        Ok(())
    }

    fn child(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CString,
        depth: usize,
    ) -> Result<(), Missed> {
        let stat = statat(parent, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = PLAIN | OFlags::NOFOLLOW | OFlags::DIRECTORY;
                let directory = openat(parent, name.as_c_str(), flags, Mode::empty())?;
                self.directory(&directory, &stat, depth + 1)?;
            }
            FileType::RegularFile => {
                let file = openat(
                    parent,
                    name.as_c_str(),
                    PLAIN | OFlags::NOFOLLOW,
                    Mode::empty(),
                )?;
                let stat = fstat(&file)?;
                if !FileType::from_raw_mode(stat.st_mode).is_file() {
                    return Err(Missed::Vanished);
                }
                self.file(&file, &stat)?;
            }
            FileType::Symlink => {
                let target = readlinkat(parent, name.as_c_str(), Vec::new())?;
                self.entry(
                    EntryKind::Symlink {
                        target: Raw(target.into_bytes()),
                    },
                    &stat,
                )?;
                self.end()?;
            }
            // Sockets, pipes and devices have no content to send.
            _ => {}
        }
        Ok(())
    }

    fn file(&mut self, file: &OwnedFd, stat: &Stat) -> Result<(), Stop> {
        self.entry(EntryKind::File, stat)?;
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        let mut left = if length == 0 { UNKNOWN_LENGTH } else { length };
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            match read(file, &mut self.buffer[..most]) {
                Ok(0) => break,
                Ok(count) => {
                    let frame = wire::frame::encode(Channel::Data, &self.buffer[..count]);
                    self.host.write_all(&frame).map_err(|_| Stop::Gone)?;
                    left -= count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.cannot_read(errno)),
            }
        }
        self.end()
    }

    fn names(&self, directory: &OwnedFd) -> Result<Vec<CString>, Stop> {
        let listing = Dir::read_from(directory).map_err(|errno| self.cannot_read(errno))?;
        let mut names = Vec::new();
        for entry in listing {
            let entry = entry.map_err(|errno| self.cannot_read(errno))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn entry(&mut self, kind: EntryKind, stat: &Stat) -> Result<(), Stop> {
        let path = Raw(self.relative.clone());
        let mode = stat.st_mode & 0o7777;
        let entry = Entry {
            path,
            kind,
            mode,
            uid: Some(stat.st_uid),
            gid: Some(stat.st_gid),
        };
        Ok(Frame::control(&Reply::Entry(entry)).write(self.host)?)
    }

    fn end(&mut self) -> Result<(), Stop> {
        Ok(Frame::control(&Reply::EndOfEntry).write(self.host)?)
    }

    fn cannot_read(&self, errno: Errno) -> Stop {
        Stop::Failed(cannot(&format!("read {}", self.shown()), errno))
    }

    fn shown(&self) -> String {
        format!("{:?}", joined(self.top, &self.relative))
    }
}

/// Why one name in a directory was not sent.
#[derive(Debug)]
enum Missed {
    Vanished,
    Errno(Errno),
    Stop(Stop),
}

impl From<Errno> for Missed {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO => Self::Vanished,
            other => Self::Errno(other),
        }
    }
}

impl From<Stop> for Missed {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}
