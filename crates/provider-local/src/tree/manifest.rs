//! What each thing in one layer was when it was first read, so that damage can be told by name.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rustix::fs::{Advice, FileType, Mode, OFlags, Stat, fadvise, openat, readlinkat};

use super::digest::{Content, Contents};
use super::walk::{Visitor, walk};
use super::xattr;

const MAGIC: &[u8] = b"nacre manifest 1\n";
/// Half of a hash finds every accident; nobody is kept from anything by it.
type Short = [u8; 16];

/// Where content is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// Memory where it is there: whoever wrote it will want it again.
    Cache,
    /// A bit that flipped on the disk is not seen in memory.
    Disk,
}

/// Every path of a layer, in the order of a walk, and a hash of all that is known of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    entries: Vec<(Vec<u8>, Short)>,
}

impl Manifest {
    /// Reads a whole layer.
    pub(crate) fn scan(
        top: OwnedFd,
        contents: &mut Contents,
        from: ReadFrom,
        progress: &dyn Fn(u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut scanner = Scanner {
            manifest: Self::default(),
            contents,
            from,
            progress,
        };
        let stat = rustix::fs::fstat(&top)?;
        let mut hash = blake3::Hasher::new();
        properties(&mut hash, &stat);
        attributes(&mut hash, &top)?;
        scanner.add(b"", &hash);
        walk(top, &mut scanner)?;
        Ok(scanner.manifest)
    }

    /// Paths that are not what they were, are gone, or are new.
    pub(crate) fn differences(&self, now: &Self) -> Vec<Vec<u8>> {
        if self == now {
            return Vec::new();
        }
        let mut before: HashMap<&[u8], &Short> = self
            .entries
            .iter()
            .map(|(path, hash)| (&**path, hash))
            .collect();
        let mut found: Vec<Vec<u8>> = Vec::new();
        for (path, hash) in &now.entries {
            if before.remove(&**path) != Some(hash) {
                found.push(path.clone());
            }
        }
        found.extend(before.into_keys().map(<[u8]>::to_vec));
        found.sort();
        found
    }

    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut plain = MAGIC.to_vec();
        for (path, hash) in &self.entries {
            let length = u32::try_from(path.len()).map_err(io::Error::other)?;
            plain.extend_from_slice(&length.to_le_bytes());
            plain.extend_from_slice(path);
            plain.extend_from_slice(hash);
        }
        let sum = blake3::hash(&plain);
        plain.extend_from_slice(sum.as_bytes());
        zstd::bulk::compress(&plain, 1)
    }

    /// `None` for one that is itself damaged: then it can say nothing.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut plain = Vec::new();
        let mut decoder = zstd::stream::read::Decoder::new(bytes).ok()?;
        decoder.read_to_end(&mut plain).ok()?;
        let (body, sum) = plain.split_last_chunk::<32>()?;
        if blake3::hash(body).as_bytes() != sum {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (path, after) = after.split_at_checked(length)?;
            let (hash, after) = after.split_first_chunk::<16>()?;
            entries.push((path.to_vec(), *hash));
            rest = after;
        }
        Some(Self { entries })
    }
}

struct Scanner<'a> {
    manifest: Manifest,
    contents: &'a mut Contents,
    from: ReadFrom,
    progress: &'a dyn Fn(u64) -> io::Result<()>,
}

impl Scanner<'_> {
    fn add(&mut self, path: &[u8], hash: &blake3::Hasher) {
        let mut short = Short::default();
        short.copy_from_slice(&hash.finalize().as_bytes()[..16]);
        self.manifest.entries.push((path.to_vec(), short));
    }

    fn content(&mut self, file: OwnedFd, stat: &Stat, is_plain: bool) -> io::Result<[u8; 32]> {
        if let Some(known) = self.contents.get(&stat.st_ino) {
            return Ok(known.hash);
        }
        if self.from == ReadFrom::Disk {
            // Where this does nothing, the content is read all the same.
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
        let mut hash = blake3::Hasher::new();
        let mut file = std::fs::File::from(file);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            (self.progress)(read as u64)?;
        }
        let content = Content::new(&hash, is_plain);
        self.contents.insert(stat.st_ino, content);
        Ok(content.hash)
    }
}

impl Visitor for Scanner<'_> {
    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        stat: &Stat,
    ) -> io::Result<bool> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut hash = blake3::Hasher::new();
        properties(&mut hash, stat);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
        match kind {
            FileType::Directory => {
                let directory = openat(parent, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                attributes(&mut hash, &directory)?;
            }
            FileType::RegularFile => {
                let file = openat(parent, name, flags, Mode::empty())?;
                let is_plain = attributes(&mut hash, &file)? == 0;
                hash.update(&self.content(file, stat, is_plain)?);
            }
            FileType::Symlink => {
                hash.update(readlinkat(parent, name, Vec::new())?.to_bytes());
            }
            _ => {
                hash.update(&stat.st_rdev.to_le_bytes());
            }
        }
        self.add(path, &hash);
        Ok(kind == FileType::Directory)
    }
}

fn properties(hash: &mut blake3::Hasher, stat: &Stat) {
    for number in [stat.st_mode, stat.st_uid, stat.st_gid] {
        hash.update(&number.to_le_bytes());
    }
}

/// All but the overlay's notes on where a file came from, which it may write later; how many.
fn attributes(hash: &mut blake3::Hasher, file: &OwnedFd) -> io::Result<usize> {
    let mut names = xattr::names(file)?;
    names.retain(|name| {
        let name = name.to_bytes();
        portable::is_portable(name)
            || matches!(
                name,
                b"trusted.overlay.opaque" | b"trusted.overlay.redirect"
            )
    });
    names.sort();
    for name in &names {
        for field in [name.to_bytes(), &xattr::value(file, name)?] {
            hash.update(&(field.len() as u64).to_le_bytes());
            hash.update(field);
        }
    }
    Ok(names.len())
}
