//! A layer as the difference between the stack with it and the stack without it: renamed
//! directories are written out under their new names, and what is gone from the old ones is hidden.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};

use super::entry::{Entries, Layer};
use crate::tree::{self, is_kept};

/// One descriptor of each stack is held for each level.
const MAX_DEPTH: usize = 500;

pub(super) fn write(with: OwnedFd, without: OwnedFd, writer: &mut Layer<'_>) -> io::Result<()> {
    let stat = rustix::fs::fstat(&with)?;
    let mut comparison = Comparison {
        entries: Entries::new(writer),
        levels: Vec::new(),
        path: Vec::new(),
        written: HashSet::new(),
        unchanged: BTreeMap::new(),
    };
    let root = with.try_clone()?;
    comparison.enter(with, Some(without), stat)?;
    // A layer's root says what the stack's root is.
    comparison.write_directories()?;
    comparison.walk()?;
    comparison.join_links(&root)
}

struct Comparison<'w, 'f> {
    entries: Entries<'w, 'f>,
    levels: Vec<Level>,
    path: Vec<u8>,
    /// Directories that are in the layer by now.
    written: HashSet<Vec<u8>>,
    /// Names of files with several names that are the same in both.
    unchanged: BTreeMap<u64, Vec<(Vec<u8>, Stat)>>,
}

struct Level {
    with: OwnedFd,
    without: Option<OwnedFd>,
    stat: Stat,
    path_length: usize,
    names: std::vec::IntoIter<Pair>,
}

struct Pair {
    name: CString,
    with: Option<Stat>,
    without: Option<Stat>,
}

impl Comparison<'_, '_> {
    fn walk(&mut self) -> io::Result<()> {
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path_length);
            let Some(pair) = level.names.next() else {
                self.levels.pop();
                continue;
            };
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(pair.name.to_bytes());
            self.compare(&pair)?;
        }
        Ok(())
    }

    fn compare(&mut self, pair: &Pair) -> io::Result<()> {
        let Some(stat) = pair.with else {
            if let Some(gone) = pair.without {
                self.write_directories()?;
                self.entries.whiteout(&self.path, &gone)?;
            }
            return Ok(());
        };
        let level = self.levels.last().expect("walked from one");
        if is_directory(&stat) {
            let with = tree::open_directory(&level.with, &*pair.name)?;
            let without = match (&level.without, &pair.without) {
                (Some(parent), Some(before)) if is_directory(before) => {
                    Some(tree::open_directory(parent, &*pair.name)?)
                }
                _ => None,
            };
            let is_changed = match (&without, &pair.without) {
                (Some(without), Some(before)) => {
                    !same_properties(&stat, before)
                        || tree::portable(&with)? != tree::portable(without)?
                }
                _ => true,
            };
            self.enter(with, without, stat)?;
            if is_changed {
                self.write_directories()?;
            }
            return Ok(());
        }
        if pair.without.is_some_and(|before| same_file(&stat, &before)) {
            if stat.st_nlink > 1 {
                let names = self.unchanged.entry(stat.st_ino).or_default();
                names.push((self.path.clone(), stat));
            }
            return Ok(());
        }
        self.write_directories()?;
        let level = self.levels.last().expect("walked from one");
        self.entries
            .other(&level.with, &pair.name, &self.path, &stat)
    }

    fn enter(&mut self, with: OwnedFd, without: Option<OwnedFd>, stat: Stat) -> io::Result<()> {
        if self.levels.len() >= MAX_DEPTH {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("directories are nested deeper than {MAX_DEPTH}"),
            ));
        }
        self.levels.push(Level {
            names: pairs(&with, without.as_ref())?.into_iter(),
            with,
            without,
            stat,
            path_length: self.path.len(),
        });
        Ok(())
    }

    /// Writes the directories that lead to where we are, those that are not written yet.
    fn write_directories(&mut self) -> io::Result<()> {
        for level in &self.levels {
            let path = &self.path[..level.path_length];
            if self.written.insert(path.to_vec()) {
                self.entries.directory(&level.with, path, &level.stat)?;
            }
        }
        Ok(())
    }

    /// If one name of a file was written, its other names would be names of another file: so they
    /// are written too.
    fn join_links(&mut self, root: &OwnedFd) -> io::Result<()> {
        for (inode, names) in std::mem::take(&mut self.unchanged) {
            let Some(first) = self.entries.links.get(&inode).cloned() else {
                continue;
            };
            for (path, stat) in names {
                self.write_parents(root, &path)?;
                self.entries.link(&path, &stat, &first)?;
            }
        }
        Ok(())
    }

    fn write_parents(&mut self, root: &OwnedFd, path: &[u8]) -> io::Result<()> {
        let mut at = root.try_clone()?;
        for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let parent = &path[..slash];
            let name = parent.rsplit(|byte| *byte == b'/').next().unwrap_or(parent);
            at = tree::open_directory(&at, name)?;
            if self.written.insert(parent.to_vec()) {
                let stat = rustix::fs::fstat(&at)?;
                self.entries.directory(&at, parent, &stat)?;
            }
        }
        Ok(())
    }
}

/// Every name of either directory, in order; what is not kept is not there.
fn pairs(with: &OwnedFd, without: Option<&OwnedFd>) -> io::Result<Vec<Pair>> {
    let kept = |directory: &OwnedFd| -> io::Result<Vec<(CString, Stat)>> {
        let mut found = tree::list(directory)?;
        found.retain(|(_, stat)| is_kept(FileType::from_raw_mode(stat.st_mode)));
        Ok(found)
    };
    let mut left = kept(with)?.into_iter().peekable();
    let mut right = match without {
        Some(directory) => kept(directory)?,
        None => Vec::new(),
    }
    .into_iter()
    .peekable();
    let mut pairs = Vec::new();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return Ok(pairs),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let ours = (order != Ordering::Greater).then(|| left.next()).flatten();
        let theirs = (order != Ordering::Less).then(|| right.next()).flatten();
        let name: &CStr = match (&ours, &theirs) {
            (Some((name, _)), _) | (None, Some((name, _))) => name,
            (None, None) => return Ok(pairs),
        };
        pairs.push(Pair {
            name: name.to_owned(),
            with: ours.as_ref().map(|(_, stat)| *stat),
            without: theirs.as_ref().map(|(_, stat)| *stat),
        });
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn same_properties(a: &Stat, b: &Stat) -> bool {
    let of = |stat: &Stat| (stat.st_mode, stat.st_uid, stat.st_gid, stat.st_mtime);
    of(a) == of(b)
}

/// The very same file of the same lower layer. Nobody can set a change time, so a file that was
/// copied up and changed is another one; that an equal copy counts as another costs only room.
fn same_file(a: &Stat, b: &Stat) -> bool {
    let of = |stat: &Stat| {
        (
            stat.st_ino,
            stat.st_size,
            stat.st_mode,
            stat.st_ctime,
            stat.st_ctime_nsec,
        )
    };
    of(a) == of(b)
}
