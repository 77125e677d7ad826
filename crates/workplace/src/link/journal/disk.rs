//! Where segments lie. A trait, so that a test can stop the world between any two steps.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

/// Files of a journal, by their numbers.
pub trait Disk: fmt::Debug + Send {
    /// In order.
    fn numbers(&self) -> io::Result<Vec<u64>>;
    /// All of it, unless it is longer than `limit`.
    fn read(&self, number: u64, limit: usize) -> io::Result<Vec<u8>>;
    /// A new file.
    fn create(&self, number: u64) -> io::Result<Arc<dyn Tail>>;
    fn remove(&self, number: u64) -> io::Result<()>;
    /// Out of the way, for somebody to look at. Not many are kept.
    fn set_aside(&self, number: u64) -> io::Result<()>;
}

/// The end of a file that grows.
pub trait Tail: fmt::Debug + Send + Sync {
    /// All of it, or the file ends in a piece of it.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// What was appended survives the machine.
    fn sync(&self) -> io::Result<()>;
}

const SUFFIX: &str = ".journal";
const ASIDE: &str = "aside";
/// How many files that are not trusted are kept.
const MOST_ASIDE: usize = 8;

/// A directory that only root can look into. Whoever is root inside can still do with it what they
/// like; the seal shows it.
#[derive(Debug)]
pub struct Directory {
    directory: Arc<OwnedFd>,
}

impl Directory {
    /// Makes it where it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(above) = path.parent() {
            fs_err::create_dir_all(above)?;
        }
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        // It may have come with a snapshot, or been made by somebody else.
        rustix::fs::fchown(
            &directory,
            Some(rustix::process::geteuid()),
            Some(rustix::process::getegid()),
        )?;
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
        Ok(Self {
            directory: Arc::new(directory),
        })
    }

    fn names(&self, below: &str) -> io::Result<Vec<(u64, String)>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&*self.directory, below, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if let Some(number) = number_of(name) {
                names.push((number, name.to_owned()));
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn name(number: u64) -> String {
    format!("{number:08}{SUFFIX}")
}

fn number_of(file: &str) -> Option<u64> {
    let number = file.strip_suffix(SUFFIX)?.parse().ok()?;
    (name(number) == file).then_some(number)
}

impl Disk for Directory {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let names = self.names(".")?;
        Ok(names.into_iter().map(|(number, _)| number).collect())
    }

    fn read(&self, number: u64, limit: usize) -> io::Result<Vec<u8>> {
        // Without waiting: it could be a pipe that somebody put there.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*self.directory, name(number), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(file)
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() > limit {
            return Err(io::Error::other("it is longer than any of ours"));
        }
        Ok(bytes)
    }

    fn create(&self, number: u64) -> io::Result<Arc<dyn Tail>> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&*self.directory, name(number), flags, mode)?;
        Ok(Arc::new(Growing {
            file: File::from(file),
            directory: Arc::clone(&self.directory),
            is_listed: AtomicBool::new(false),
        }))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &*self.directory,
            name(number),
            AtFlags::empty(),
        )?)
    }

    fn set_aside(&self, number: u64) -> io::Result<()> {
        match rustix::fs::mkdirat(&*self.directory, ASIDE, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let to = format!("{ASIDE}/{}", name(number));
        rustix::fs::renameat(&*self.directory, name(number), &*self.directory, &to)?;
        let kept = self.names(ASIDE)?;
        for (_, old) in kept.iter().rev().skip(MOST_ASIDE) {
            let old = format!("{ASIDE}/{old}");
            rustix::fs::unlinkat(&*self.directory, old, AtFlags::empty())?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Growing {
    file: File,
    directory: Arc<OwnedFd>,
    /// Its name, too, has reached the disk.
    is_listed: AtomicBool,
}

impl Tail for Growing {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if !self.is_listed.load(Ordering::Relaxed) {
            rustix::fs::fsync(self.directory.as_fd())?;
            self.is_listed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
