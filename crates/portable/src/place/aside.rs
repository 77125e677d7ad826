use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{
    Advice, AtFlags, CWD, Mode, OFlags, RenameFlags, fadvise, linkat, openat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;

/// A file that has no name until it is whole. Where the file system cannot do that, it has another
/// name, which goes with it.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) file: File,
    path: Utf8PathBuf,
    temporary: Option<Utf8PathBuf>,
}

impl Aside {
    pub(super) fn new(path: &Utf8Path) -> io::Result<Self> {
        let parent = match path.parent() {
            Some(parent) if parent != "" => parent,
            _ => Utf8Path::new("."),
        };
        let mode = Mode::from(0o600);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match openat(CWD, parent.as_std_path(), flags, mode) {
            Ok(file) => Ok(Self {
                file: file.into(),
                path: path.to_owned(),
                temporary: None,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let name = path.file_name().unwrap_or_default();
                let temporary = parent.join(format!(".{name}.{}.part", std::process::id()));
                let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC;
                let file = openat(CWD, temporary.as_std_path(), flags, mode)?;
                Ok(Self {
                    file: file.into(),
                    path: path.to_owned(),
                    temporary: Some(temporary),
                })
            }
            Err(error) => Err(io::Error::new(
                io::Error::from(error).kind(),
                format!("{parent}: {error}"),
            )),
        }
    }

    /// Has the kernel begin to write to the disk what is not there yet.
    pub(super) fn begin_writing(&self) {
        // It does so for what it is told will not be needed; what is being written stays in memory.
        let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    /// Gives it its name, which nothing else may have.
    pub(super) fn keep(mut self) -> io::Result<()> {
        let to = self.path.as_std_path();
        match &self.temporary {
            None => {
                let via = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, &*via, CWD, to, AtFlags::SYMLINK_FOLLOW)?;
            }
            Some(temporary) => {
                let from = temporary.as_std_path();
                renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?;
                self.temporary = None;
            }
        }
        Ok(())
    }

    /// The same, in the place of what has the name.
    pub(super) fn replace(self) -> io::Result<()> {
        match unlinkat(CWD, self.path.as_std_path(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match self.keep() {
            // Somebody else was quicker with the same.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs_err::remove_file(temporary);
        }
    }
}
