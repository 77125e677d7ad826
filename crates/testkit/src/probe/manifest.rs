//! A tree of files as lines that can be compared.

use std::collections::{BTreeMap, HashMap};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use provider::probe::{LineKind, ManifestLine, escape, hash, hexadecimal, print};

use crate::streams::say;

pub(crate) fn write(root: &Path) -> io::Result<()> {
    let mut paths = vec![root.to_owned()];
    walk(root, &mut paths)?;
    // By bytes: `Path` would sort by components.
    paths.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    let mut seen = HashMap::new();
    let lines = paths
        .iter()
        .map(|path| line(root, path, &mut seen))
        .collect::<io::Result<Vec<_>>>()?;
    say(print(&lines).as_bytes())
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if !directory.symlink_metadata()?.is_dir() {
        return Ok(());
    }
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        walk(&path, paths)?;
        paths.push(path);
    }
    Ok(())
}

fn line(
    root: &Path,
    path: &Path,
    seen: &mut HashMap<(u64, u64), String>,
) -> io::Result<ManifestLine> {
    let metadata = fs_err::symlink_metadata(path)?;
    let below = path
        .strip_prefix(root)
        .unwrap_or(path)
        .as_os_str()
        .as_bytes();
    let name = if below.is_empty() {
        ".".to_owned()
    } else {
        escape(below)
    };
    let kind = kind(&metadata);
    let plain = kind != LineKind::Directory;
    let hash = match kind {
        LineKind::File => Some(hash([fs_err::read(path)?.as_slice()])),
        LineKind::Symlink => Some(hash([fs_err::read_link(path)?.as_os_str().as_bytes()])),
        _ => None,
    };
    let same_as = if plain && metadata.nlink() > 1 {
        let first = seen
            .entry((metadata.dev(), metadata.ino()))
            .or_insert_with(|| name.clone());
        Some(first.clone())
    } else {
        None
    };
    Ok(ManifestLine {
        path: name,
        kind,
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: if plain { metadata.size() } else { 0 },
        hash,
        sparse: kind == LineKind::File
            && ManifestLine::is_sparse(metadata.size(), metadata.blocks() * 512),
        links: if plain { metadata.nlink() } else { 1 },
        same_as,
        xattrs: xattrs(path)?,
    })
}

fn kind(metadata: &Metadata) -> LineKind {
    let file_type = metadata.file_type();
    match () {
        () if file_type.is_file() => LineKind::File,
        () if file_type.is_dir() => LineKind::Directory,
        () if file_type.is_symlink() => LineKind::Symlink,
        () if file_type.is_fifo() => LineKind::Fifo,
        () if file_type.is_socket() => LineKind::Socket,
        () => LineKind::Other,
    }
}

/// The longest list of names, and the longest value, that the kernel gives.
const XATTR_MAX: usize = 64 << 10;

fn xattrs(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut names = vec![0u8; XATTR_MAX];
    let length = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(length) => length,
        // A file system without any.
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        if !ManifestLine::wants_xattr(name) {
            continue;
        }
        let mut value = vec![0u8; XATTR_MAX];
        let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice())?;
        found.insert(name.to_owned(), hexadecimal(&value[..length]));
    }
    Ok(found)
}
