//! One thing of a tree as one entry of a tar.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use portable::Frames;
use portable::tar::{Extent, Head, Kind, WHITEOUT, Writer};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, openat, readlinkat, seek};

use crate::tree;

pub(super) type Layer<'f> = Writer<Frames<'f>>;

/// Writes entries, and remembers the first name of each file that has several.
pub(super) struct Entries<'w, 'f> {
    writer: &'w mut Layer<'f>,
    pub(super) links: HashMap<u64, Vec<u8>>,
}

impl<'w, 'f> Entries<'w, 'f> {
    pub(super) fn new(writer: &'w mut Layer<'f>) -> Self {
        Self {
            writer,
            links: HashMap::new(),
        }
    }

    /// A directory that is open; the path is empty for the root.
    pub(super) fn directory(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<()> {
        let attributes = tree::portable(directory)?;
        self.writer.entry(&Head {
            attributes: &attributes,
            ..head(path, Kind::Directory, stat)
        })
    }

    /// Anything else that is kept.
    pub(super) fn other(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<()> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                if stat.st_nlink > 1 {
                    if let Some(first) = self.links.get(&stat.st_ino).cloned() {
                        return self.link(path, stat, &first);
                    }
                    self.links.insert(stat.st_ino, path.to_vec());
                }
                self.file(parent, name, path, stat)
            }
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                self.writer.entry(&Head {
                    link: target.to_bytes(),
                    ..head(path, Kind::Symlink, stat)
                })
            }
            FileType::Fifo => self.writer.entry(&head(path, Kind::Fifo, stat)),
            _ => Ok(()),
        }
    }

    pub(super) fn link(&mut self, path: &[u8], stat: &Stat, first: &[u8]) -> io::Result<()> {
        self.writer.entry(&Head {
            link: first,
            ..head(path, Kind::Link, stat)
        })
    }

    /// Says that something below is gone; `path` is what is hidden.
    pub(super) fn whiteout(&mut self, path: &[u8], stat: &Stat) -> io::Result<()> {
        let name = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let marked = [&path[..name], WHITEOUT, &path[name..]].concat();
        self.marker(&marked, stat)
    }

    pub(super) fn opaque(&mut self, path: &[u8], stat: &Stat) -> io::Result<()> {
        let marker = portable::tar::OPAQUE;
        if path.is_empty() {
            return self.marker(marker, stat);
        }
        self.marker(&[path, b"/", marker].concat(), stat)
    }

    fn marker(&mut self, path: &[u8], stat: &Stat) -> io::Result<()> {
        self.writer.entry(&Head {
            mode: 0,
            uid: 0,
            gid: 0,
            literal: false,
            ..head(path, Kind::File, stat)
        })
    }

    fn file(&mut self, parent: &OwnedFd, name: &CStr, path: &[u8], stat: &Stat) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
        let file = openat(parent, name, flags, Mode::empty())?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let allocated = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        // Small files, and what a file system keeps beside the inode, have no holes worth a map.
        let extents = if allocated < size && size > 4096 {
            extents(&file, size)?
        } else {
            vec![Extent {
                start: 0,
                length: size,
            }]
        };
        let attributes = tree::portable(&file)?;
        let head = Head {
            attributes: &attributes,
            ..head(path, Kind::File, stat)
        };
        self.writer.file(&head, file.as_fd(), size, &extents)
    }
}

fn head<'a>(path: &'a [u8], kind: Kind, stat: &Stat) -> Head<'a> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Head {
        path,
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: stat.st_mtime,
        link: b"",
        attributes: &[],
        // A sandbox may call its files what it likes.
        literal: name.starts_with(WHITEOUT),
    }
}

/// The stretches of a file that hold data.
fn extents(file: &OwnedFd, size: u64) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(start))?.min(size);
        if end <= start {
            break;
        }
        found.push(Extent {
            start,
            length: end - start,
        });
        at = end;
    }
    Ok(found)
}
