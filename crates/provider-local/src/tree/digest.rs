//! What a tree is, in one number: paths, types, modes, owners, content, user attributes and
//! capabilities. Not times, not inode numbers, not the overlay's own marks: the same tree has the
//! same digest under any id range, on any file system, flattened or not.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, Stat, openat, readlinkat};

use super::walk::{Visitor, walk};
use super::xattr;
use crate::snapshot::Digest;

/// What files hold, by inode, from whoever has just read or written them. All layers are on one file
/// system, and an overlay shows their files by the inodes that they have there.
pub(crate) type Contents = HashMap<u64, Content>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Content {
    pub(super) hash: [u8; 32],
    /// It has no attributes, so that there is nothing to look for.
    pub(super) is_plain: bool,
}

impl Content {
    pub(crate) fn plain(hash: blake3::Hash) -> Self {
        Self {
            hash: *hash.as_bytes(),
            is_plain: true,
        }
    }

    pub(crate) fn new(hash: &blake3::Hasher, is_plain: bool) -> Self {
        Self {
            hash: *hash.finalize().as_bytes(),
            is_plain,
        }
    }
}

/// The digest of an open tree. Files whose content is known are not read.
pub(crate) fn digest(top: OwnedFd, known: &Contents) -> io::Result<Digest> {
    let stat = rustix::fs::fstat(&top)?;
    let mut digester = Digester {
        hash: blake3::Hasher::new(),
        bytes: 0,
        files: 0,
        links: HashMap::new(),
        known,
    };
    digester.hash.update(b"nacre tree 1\n");
    digester.properties(b".", &stat);
    digester.attributes(&top)?;
    walk(top, &mut digester)?;
    Ok(Digest {
        value: format!("blake3:{}", digester.hash.finalize().to_hex()),
        bytes: digester.bytes,
        files: digester.files,
    })
}

/// Whether a thing of this kind moves with a snapshot. A whiteout is a device to those who look.
pub(crate) fn is_kept(kind: FileType) -> bool {
    matches!(
        kind,
        FileType::Directory | FileType::RegularFile | FileType::Symlink | FileType::Fifo
    )
}

struct Digester<'a> {
    hash: blake3::Hasher,
    bytes: u64,
    files: u64,
    /// Which entry was the first name of each file that has several.
    links: HashMap<(u64, u64), u64>,
    known: &'a Contents,
}

impl Digester<'_> {
    /// Every field is preceded by its length, so that no two trees can look alike.
    fn field(&mut self, bytes: &[u8]) {
        self.hash
            .update(&(bytes.len() as u64).to_le_bytes())
            .update(bytes);
    }

    fn properties(&mut self, path: &[u8], stat: &Stat) {
        self.field(path);
        for number in [stat.st_mode, stat.st_uid, stat.st_gid] {
            self.hash.update(&number.to_le_bytes());
        }
    }

    fn attributes(&mut self, file: &OwnedFd) -> io::Result<()> {
        let mut names = xattr::names(file)?;
        names.retain(|name| {
            let name = name.to_bytes();
            (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
                || name == b"security.capability"
        });
        names.sort();
        self.hash.update(&(names.len() as u64).to_le_bytes());
        for name in names {
            let value = xattr::value(file, &name)?;
            self.field(name.to_bytes());
            self.field(&value);
        }
        Ok(())
    }
}

impl Digester<'_> {
    fn content(&mut self, parent: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
        let known = self.known.get(&stat.st_ino);
        if let Some(known) = known.filter(|known| known.is_plain) {
            self.hash.update(&0u64.to_le_bytes());
            self.hash.update(&known.hash);
            self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(parent, name, flags, Mode::empty())?;
        self.attributes(&file)?;
        if let Some(known) = known {
            self.hash.update(&known.hash);
            self.bytes += u64::try_from(stat.st_size).unwrap_or(0);
            return Ok(());
        }
        let mut content = blake3::Hasher::new();
        self.bytes += content.update_reader(std::fs::File::from(file))?.count();
        self.hash.update(content.finalize().as_bytes());
        Ok(())
    }
}

impl Visitor for Digester<'_> {
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<bool> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        // An export leaves sockets and devices out, so they are not part of what is kept.
        if !is_kept(kind) {
            return Ok(false);
        }
        self.files += 1;
        self.properties(path, stat);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match kind {
            FileType::Directory => {
                let directory = openat(parent, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                self.attributes(&directory)?;
                return Ok(true);
            }
            FileType::RegularFile => {
                let key = (stat.st_dev, stat.st_ino);
                if stat.st_nlink > 1 {
                    if let Some(first) = self.links.get(&key).copied() {
                        self.field(b"link");
                        self.hash.update(&first.to_le_bytes());
                        return Ok(false);
                    }
                    self.links.insert(key, self.files);
                }
                self.content(parent, name, stat)?;
            }
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                self.field(target.to_bytes());
            }
            _ => {
                self.hash.update(&stat.st_rdev.to_le_bytes());
            }
        }
        Ok(false)
    }
}
