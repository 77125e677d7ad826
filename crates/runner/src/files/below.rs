//! One thing done below a directory that people and agents are shown: every path is relative to it,
//! leads down, and passes through no link.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, Stat, fchmod, fstat, open, openat, renameat,
    seek, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, read};
use wire::guest::{Listed, ListedKind, Reply, Work};
use wire::{Channel, Frame, Raw};

use super::Stop;
use super::disk::{DIRECTORY, Temporary, beneath, make_beneath};
use super::path::{Place, absolute};
use super::read::{CHUNK, PLAIN, send_opened};
use super::write::{NEW_FILE, fill};
use crate::failure::{cannot, refused};

const MAX_DEPTH: usize = 256;
const NEW_FILE_MODE: u32 = 0o644;

/// Whether nothing is there.
pub(super) fn work(
    root: &Raw,
    work: &Work,
    from_host: &mut impl Read,
    to_host: &mut impl Write,
) -> Result<bool, Stop> {
    let root = Root::open(root)?;
    match work {
        Work::List { path, limit } => root.list(path, *limit, to_host),
        Work::Look { path } => root.look(path, to_host),
        Work::Read {
            path,
            offset,
            length,
        } => root.read(path, *offset, *length, to_host),
        Work::Tree { path } => match root.find(path, PLAIN) {
            Err(Errno::NOENT) => Ok(true),
            found => {
                let found = found.map_err(|errno| cannot(&format!("read {path:?}"), errno))?;
                send_opened(&found, path, to_host).map(|()| false)
            }
        },
        Work::Write { path, mode } => root.write(path, *mode, from_host).map(|()| false),
        Work::MakeDirectory { path } => {
            Place::new(path)?;
            make_beneath(root.0.as_fd(), &path.0)
                .map_err(|errno| cannot(&format!("make the directory {path:?}"), errno))?;
            Ok(false)
        }
        Work::Link { path, target } => root.link(path, target).map(|()| false),
        Work::Remove { path } => root.remove(path),
        Work::Rename { from, to } => root.rename(from, to),
    }
}

struct Root(OwnedFd);

impl Root {
    fn open(path: &Raw) -> Result<Self, Stop> {
        let flags = OFlags::PATH | DIRECTORY | OFlags::NOFOLLOW;
        let directory = open(absolute(path)?, flags, Mode::empty())
            .map_err(|errno| cannot(&format!("use the directory {path:?}"), errno))?;
        Ok(Self(directory))
    }

    /// The path itself; empty for the root.
    fn find(&self, path: &Raw, flags: OFlags) -> Result<OwnedFd, Errno> {
        match Place::new(path).map_err(|_| Errno::XDEV)? {
            Place::Top => beneath(self.0.as_fd(), b".", flags),
            Place::Below { .. } => beneath(self.0.as_fd(), &path.0, flags),
        }
    }

    /// The directory that a path is in, and its name there.
    fn parent(&self, path: &Raw) -> Result<(OwnedFd, CString), Stop> {
        let (parent, name) = named(path)?;
        let parent = if parent.is_empty() { b"." } else { parent };
        let directory = beneath(self.0.as_fd(), parent, OFlags::PATH | DIRECTORY)
            .map_err(|errno| cannot(&format!("find {path:?}"), errno))?;
        Ok((directory, name))
    }

    fn make_parent(&self, path: &Raw) -> Result<(OwnedFd, CString), Stop> {
        let (parent, name) = named(path)?;
        let directory = make_beneath(self.0.as_fd(), parent)
            .map_err(|errno| cannot(&format!("make the directories to {path:?}"), errno))?;
        Ok((directory, name))
    }

    fn list(&self, path: &Raw, limit: u32, host: &mut impl Write) -> Result<bool, Stop> {
        let fail = |errno| Stop::Failed(cannot(&format!("list {path:?}"), errno));
        let directory = match self.find(path, OFlags::RDONLY | DIRECTORY) {
            Err(Errno::NOENT) => return Ok(true),
            found => found.map_err(fail)?,
        };
        let mut left = limit;
        for entry in Dir::read_from(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                // Gone since.
                continue;
            };
            let Some(rest) = left.checked_sub(1) else {
                break;
            };
            left = rest;
            let listed = listed(Raw(name.to_bytes().to_vec()), &stat);
            Frame::control(&Reply::Listed(listed)).write(host)?;
        }
        Ok(false)
    }

    fn look(&self, path: &Raw, host: &mut impl Write) -> Result<bool, Stop> {
        let (parent, name) = named(path)?;
        let parent = if parent.is_empty() { b"." } else { parent };
        let fail = |errno| Stop::Failed(cannot(&format!("look at {path:?}"), errno));
        let found = beneath(self.0.as_fd(), parent, OFlags::PATH | DIRECTORY)
            .and_then(|directory| statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW));
        match found {
            Err(Errno::NOENT) => Ok(true),
            stat => {
                let listed = listed(path.clone(), &stat.map_err(fail)?);
                Frame::control(&Reply::Listed(listed)).write(host)?;
                Ok(false)
            }
        }
    }

    fn read(
        &self,
        path: &Raw,
        offset: u64,
        length: u64,
        host: &mut impl Write,
    ) -> Result<bool, Stop> {
        let fail = |errno| Stop::Failed(cannot(&format!("read {path:?}"), errno));
        let file = match self.find(path, PLAIN) {
            Err(Errno::NOENT) => return Ok(true),
            found => found.map_err(fail)?,
        };
        let stat = fstat(&file).map_err(fail)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(refused(format!("{path:?} is not a file")).into());
        }
        Frame::control(&Reply::Listed(listed(path.clone(), &stat))).write(host)?;
        seek(&file, SeekFrom::Start(offset)).map_err(fail)?;
        let mut buffer = vec![0; CHUNK];
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            match read(&file, &mut buffer[..most]) {
                Ok(0) => break,
                Ok(count) => {
                    let frame = wire::frame::encode(Channel::Data, &buffer[..count]);
                    host.write_all(&frame).map_err(|_| Stop::Gone)?;
                    left -= count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        Ok(false)
    }

    fn write(&self, path: &Raw, mode: Option<u32>, host: &mut impl Read) -> Result<(), Stop> {
        let fail = |errno| Stop::Failed(cannot(&format!("write {path:?}"), errno));
        let (directory, name) = self.make_parent(path)?;
        let there = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Some(stat.st_mode),
            Ok(stat) => return Err(in_the_way(path, &stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(fail(errno)),
        };
        let mode = mode.or(there).unwrap_or(NEW_FILE_MODE) & 0o777;
        let create = |name: &CString| openat(&directory, name, NEW_FILE, Mode::RUSR | Mode::WUSR);
        let (temporary, file) = Temporary::make(directory.as_fd(), 0, create).map_err(fail)?;
        fill(&file, host, fail)?;
        fchmod(&file, Mode::from_raw_mode(mode)).map_err(fail)?;
        temporary.become_real(&name).map_err(fail)
    }

    fn link(&self, path: &Raw, target: &Raw) -> Result<(), Stop> {
        let fail = |errno| Stop::Failed(cannot(&format!("link {path:?}"), errno));
        let target = CString::new(target.0.clone())
            .map_err(|_| refused("the target contains a NUL byte"))?;
        let (directory, name) = self.make_parent(path)?;
        match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => {}
            Ok(stat) => return Err(in_the_way(path, &stat)),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let link = |name: &CString| symlinkat(&target, &directory, name);
        let (temporary, ()) = Temporary::make(directory.as_fd(), 0, link).map_err(fail)?;
        temporary.become_real(&name).map_err(fail)
    }

    fn remove(&self, path: &Raw) -> Result<bool, Stop> {
        let fail = |errno| Stop::Failed(cannot(&format!("remove {path:?}"), errno));
        let (directory, name) = self.parent(path)?;
        match remove(directory.as_fd(), &name, 0) {
            Err(Errno::NOENT) => Ok(true),
            other => other.map(|()| false).map_err(fail),
        }
    }

    fn rename(&self, from: &Raw, to: &Raw) -> Result<bool, Stop> {
        let (directory, name) = self.parent(from)?;
        let (new_directory, new_name) = self.make_parent(to)?;
        match renameat(&directory, &name, &new_directory, &new_name) {
            Err(Errno::NOENT) => Ok(true),
            other => other
                .map(|()| false)
                .map_err(|errno| cannot(&format!("rename {from:?} to {to:?}"), errno).into()),
        }
    }
}

fn named(path: &Raw) -> Result<(&[u8], CString), Stop> {
    match Place::new(path)? {
        Place::Top => Err(refused("the workspace itself is not to be replaced").into()),
        Place::Below { parent, name } => {
            let name = CString::new(name).map_err(|_| refused("the path contains a NUL byte"))?;
            Ok((parent, name))
        }
    }
}

fn in_the_way(path: &Raw, stat: &Stat) -> Stop {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a directory",
        _ => "something that is not a file",
    };
    refused(format!("{what} is in the way at {path:?}")).into()
}

/// By descriptor and without following links; the directory may change under our hands.
fn remove(directory: BorrowedFd<'_>, name: &CString, depth: usize) -> Result<(), Errno> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    if depth >= MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    let flags = OFlags::RDONLY | DIRECTORY | OFlags::NOFOLLOW;
    let inner = openat(directory, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&inner)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            match remove(inner.as_fd(), &entry.file_name().to_owned(), depth + 1) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}

fn listed(name: Raw, stat: &Stat) -> Listed {
    Listed {
        name,
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => ListedKind::File,
            FileType::Directory => ListedKind::Directory,
            FileType::Symlink => ListedKind::Symlink,
            _ => ListedKind::Other,
        },
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        modified_ms: stat
            .st_mtime
            .saturating_mul(1000)
            .saturating_add(i64::try_from(stat.st_mtime_nsec).unwrap_or(0) / 1_000_000),
    }
}
