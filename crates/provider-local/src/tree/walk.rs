use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};

/// One descriptor is held for each level.
const MAX_DEPTH: usize = 1000;

pub(crate) fn open_directory(
    at: impl std::os::fd::AsFd,
    path: impl rustix::path::Arg,
) -> io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
    Ok(openat(at, path, flags, Mode::empty())?)
}

/// Entries of a directory with their properties, sorted by name.
pub(crate) fn list(directory: &OwnedFd) -> io::Result<Vec<(CString, Stat)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push((name.to_owned(), stat)),
            // Gone since it was listed, as in a home that is in use.
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// What a walk does at each step. The path is relative to the top, without a leading slash.
pub(crate) trait Visitor {
    /// Called with the directory that holds the entry. For a directory, says whether to go in.
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<bool>;
    /// A directory below which nobody looks.
    fn too_deep(&mut self, _path: &[u8]) -> io::Result<()> {
        let message = format!(
            "directories are nested deeper than {MAX_DEPTH}; `nacre sandbox stop` keeps a disk as it is, without reading it"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    }
    /// All of a directory has been seen.
    fn leave(&mut self, _directory: &OwnedFd, _path: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

struct Level {
    directory: OwnedFd,
    entries: std::vec::IntoIter<(CString, Stat)>,
    path_length: usize,
}

/// Depth first, in order of names.
pub(crate) fn walk(top: OwnedFd, visitor: &mut impl Visitor) -> io::Result<()> {
    let mut path: Vec<u8> = Vec::new();
    let mut levels = vec![Level {
        entries: list(&top)?.into_iter(),
        directory: top,
        path_length: 0,
    }];
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_length);
        let Some((name, stat)) = level.entries.next() else {
            visitor.leave(&level.directory, &path)?;
            levels.pop();
            continue;
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let go_in = visitor.entry(&level.directory, &name, &path, &stat)?;
        if go_in && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if levels.len() >= MAX_DEPTH {
                visitor.too_deep(&path)?;
                continue;
            }
            let directory =
                match open_directory(&levels.last().expect("not empty").directory, &*name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    other => other?,
                };
            let entries = list(&directory)?.into_iter();
            levels.push(Level {
                directory,
                entries,
                path_length: path.len(),
            });
        }
    }
    Ok(())
}

/// What trees take on the disk, as `du` counts it: directories too, and each file once, however
/// many names it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measure {
    pub(crate) files: u64,
    /// Allocated on disk.
    pub(crate) bytes: u64,
    seen: HashSet<(u64, u64)>,
}

impl Measure {
    fn count(&mut self, stat: &Stat) {
        let is_shared =
            stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) != FileType::Directory;
        if is_shared && !self.seen.insert((stat.st_dev, stat.st_ino)) {
            return;
        }
        self.files += 1;
        self.bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    }

    /// Adds what is at `path`, of whatever kind; gives how many bytes that is.
    pub(crate) fn add(&mut self, path: &Utf8Path) -> io::Result<u64> {
        let before = self.bytes;
        let stat = match statat(CWD, path.as_std_path(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(0),
            other => other?,
        };
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            match open_directory(CWD, path.as_std_path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => walk(other?, self)?,
            }
        }
        Ok(self.bytes - before)
    }
}

impl Visitor for Measure {
    fn entry(&mut self, _: &OwnedFd, _: &CStr, _: &[u8], stat: &Stat) -> io::Result<bool> {
        self.count(stat);
        Ok(true)
    }

    /// A measure that is a little short is better than none.
    fn too_deep(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn measure(path: &Utf8Path) -> io::Result<Measure> {
    let mut measure = Measure::default();
    measure.add(path)?;
    Ok(measure)
}
