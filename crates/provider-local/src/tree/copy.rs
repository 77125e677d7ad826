//! A faithful copy: content, holes, modes, owners, times, extended attributes (capabilities,
//! access lists and the overlay's own marks among them), hard links, fifos and whiteouts. Sockets
//! are left out: nobody listens on a copied one.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chmodat,
    chownat, copy_file_range, linkat, mkdirat, mknodat, openat, readlinkat, seek, symlinkat,
    utimensat,
};

use super::walk::{Visitor, open_directory, walk};
use super::xattr;

/// Copies the tree at `from` to the new directory `to`.
pub(crate) fn copy(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    copy_opened(open_directory(CWD, from.as_std_path())?, to)
}

/// The same for a tree that is already open, such as a mount that is attached nowhere.
pub(crate) fn copy_opened(source: OwnedFd, to: &Utf8Path) -> io::Result<()> {
    let stat = rustix::fs::fstat(&source)?;
    mkdirat(CWD, to.as_std_path(), Mode::from(0o700))?;
    let top = open_directory(CWD, to.as_std_path())?;
    let duplicate = source.try_clone()?;
    let mut copier = Copier {
        targets: vec![(top, stat, duplicate)],
        side: to.with_extension("links"),
        side_directory: None,
        links: HashMap::new(),
    };
    let walked = walk(source, &mut copier);
    if copier.side_directory.take().is_some() {
        super::remove(&copier.side)?;
    }
    walked
}

struct Copier {
    /// The directories we are in, with the properties they get once they are full.
    targets: Vec<(OwnedFd, Stat, OwnedFd)>,
    /// Beside the copy: a directory with another name for each file that has several, so that
    /// later names can be linked from there and no directory has to stay open. Whiteouts too.
    side: Utf8PathBuf,
    side_directory: Option<OwnedFd>,
    links: HashMap<(u64, u64), u64>,
}

impl Visitor for Copier {
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<bool> {
        let target = &self.targets.last().expect("the top is never left early").0;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let shared = kind != FileType::Directory && kind != FileType::Socket && stat.st_nlink > 1;
        let key = (stat.st_dev, stat.st_ino);
        if shared && let (Some(number), Some(side)) = (self.links.get(&key), &self.side_directory) {
            match linkat(side, &*number.to_string(), target, name, AtFlags::empty()) {
                Ok(()) => return Ok(false),
                // Too many names for one file on the target; then a copy of its own.
                Err(rustix::io::Errno::MLINK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match kind {
            FileType::Directory => {
                mkdirat(target, name, Mode::from(0o700))?;
                let made = open_directory(target, name)?;
                let source = open_directory(parent, name)?;
                self.targets.push((made, *stat, source));
                return Ok(true);
            }
            FileType::RegularFile => copy_file(parent, target, name, stat)?,
            FileType::Symlink => {
                let link = readlinkat(parent, name, Vec::new())?;
                symlinkat(&*link, target, name)?;
                own(target, name, stat)?;
                xattr::copy_link(parent, target, name)?;
            }
            FileType::Socket => return Ok(false),
            FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice => {
                mknodat(
                    target,
                    name,
                    kind,
                    Mode::from_raw_mode(stat.st_mode),
                    stat.st_rdev,
                )?;
                own(target, name, stat)?;
                // Again, because the process's mask was in the way. It is no link: we made it.
                chmodat(
                    target,
                    name,
                    Mode::from_raw_mode(stat.st_mode),
                    AtFlags::empty(),
                )?;
            }
            FileType::Unknown => {
                let path = String::from_utf8_lossy(path);
                return Err(io::Error::other(format!("{path} is of no known type")));
            }
        }
        times(target, name, stat)?;
        if shared && !self.links.contains_key(&key) {
            self.remember(name, key)?;
        }
        Ok(false)
    }

    fn leave(&mut self, _: &OwnedFd, _: &[u8]) -> io::Result<()> {
        let (directory, stat, source) = self.targets.pop().expect("entered before it is left");
        rustix::fs::fchown(
            &directory,
            Some(Uid::from_raw(stat.st_uid)),
            Some(Gid::from_raw(stat.st_gid)),
        )?;
        xattr::copy(&source, &directory)?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(stat.st_mode))?;
        Ok(rustix::fs::futimens(&directory, &timestamps(&stat))?)
    }
}

impl Copier {
    fn remember(&mut self, name: &CStr, key: (u64, u64)) -> io::Result<()> {
        if self.side_directory.is_none() {
            mkdirat(CWD, self.side.as_std_path(), Mode::from(0o700))?;
            self.side_directory = Some(open_directory(CWD, self.side.as_std_path())?);
        }
        let target = &self.targets.last().expect("the top is never left early").0;
        let side = self.side_directory.as_ref().expect("made above");
        let number = self.links.len() as u64;
        linkat(target, name, side, &*number.to_string(), AtFlags::empty())?;
        self.links.insert(key, number);
        Ok(())
    }
}

fn copy_file(parent: &OwnedFd, target: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
    let from = openat(
        parent,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME,
        Mode::empty(),
    )?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = openat(target, name, flags, Mode::from(0o600))?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    // Where the file system can share blocks, that is all there is to do.
    if size > 0 && rustix::fs::ioctl_ficlone(&to, &from).is_err() {
        copy_data(&from, &to, size)?;
    }
    // Owner first: changing it clears set-uid bits and capabilities.
    rustix::fs::fchown(
        &to,
        Some(Uid::from_raw(stat.st_uid)),
        Some(Gid::from_raw(stat.st_gid)),
    )?;
    rustix::fs::fchmod(&to, Mode::from_raw_mode(stat.st_mode))?;
    xattr::copy(&from, &to)
}

/// Copies the parts that hold data; holes stay holes.
fn copy_data(from: &OwnedFd, to: &OwnedFd, size: u64) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(start))?.min(size);
        copy_extent(from, to, start, end)?;
        at = end.max(start + 1);
    }
    Ok(rustix::fs::ftruncate(to, size)?)
}

fn copy_extent(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> io::Result<()> {
    let (mut source, mut sink) = (start, start);
    while source < end {
        let left = usize::try_from(end - source).unwrap_or(usize::MAX);
        match copy_file_range(from, Some(&mut source), to, Some(&mut sink), left) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // Between file systems, as when flattening an overlay, through our own memory.
            Err(
                rustix::io::Errno::XDEV | rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP,
            ) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let mut buffer = vec![0u8; 256 << 10];
    while source < end {
        let wanted = usize::try_from(end - source)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = rustix::io::pread(from, &mut buffer[..wanted], source)?;
        if read == 0 {
            return Ok(());
        }
        let mut written = 0;
        while written < read {
            written += rustix::io::pwrite(to, &buffer[written..read], source + written as u64)?;
        }
        source += read as u64;
    }
    Ok(())
}

fn own(target: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    Ok(chownat(
        target,
        name,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn times(target: impl AsFd, name: &CStr, stat: &Stat) -> io::Result<()> {
    Ok(utimensat(
        target,
        name,
        &timestamps(stat),
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn timestamps(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
