//! What a file system consists of.

use std::collections::BTreeMap;

/// Why a file operation did not work, as the kernel would say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Errno {
    #[error("no such file or directory")]
    Missing,
    #[error("file exists")]
    Exists,
    #[error("not a directory")]
    NotDirectory,
    #[error("is a directory")]
    IsDirectory,
    #[error("directory not empty")]
    NotEmpty,
    #[error("too many levels of symbolic links")]
    Loop,
    #[error("no space left on device")]
    NoSpace,
    #[error("permission denied")]
    Denied,
    #[error("invalid argument")]
    Invalid,
}

pub(super) type Inode = u64;
pub(super) const ROOT: Inode = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Who {
    pub(super) const SUPERUSER: Self = Self { uid: 0, gid: 0 };
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    File(Content),
    Directory(BTreeMap<Vec<u8>, Inode>),
    Symlink(Vec<u8>),
    Fifo,
    Socket,
}

/// Zeros, which cost us nothing whether they are a hole or written, and then bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) zeros: u64,
    pub(super) hole: bool,
    pub(super) bytes: Vec<u8>,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.zeros + self.bytes.len() as u64
    }

    pub(super) fn allocated(&self) -> u64 {
        if self.hole {
            self.bytes.len() as u64
        } else {
            self.size()
        }
    }

    pub(super) fn whole(&self) -> Vec<u8> {
        let mut whole = vec![0; usize::try_from(self.zeros).unwrap_or(usize::MAX)];
        whole.extend_from_slice(&self.bytes);
        whole
    }
}

impl From<&[u8]> for Content {
    fn from(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            ..Self::default()
        }
    }
}

impl Node {
    pub(super) fn new(kind: Kind, mode: u32, who: Who) -> Self {
        Self {
            kind,
            mode,
            uid: who.uid,
            gid: who.gid,
            xattrs: BTreeMap::new(),
        }
    }

    pub(super) fn directory(mode: u32, who: Who) -> Self {
        Self::new(Kind::Directory(BTreeMap::new()), mode, who)
    }

    pub(super) fn file(mode: u32, who: Who) -> Self {
        Self::new(Kind::File(Content::default()), mode, who)
    }
}
