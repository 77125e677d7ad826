//! A tar, hostile until read to its end: nothing is written outside the layer, no device is made,
//! no limit is passed, and an archive that tries is refused whole.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use camino::Utf8Path;
use provider::ProviderError;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid, XattrFlags, chownat, fsetxattr, linkat,
    mkdirat, openat2, symlinkat, unlinkat,
};
use tar::{Archive, Entry, EntryType};

use crate::error::Doing as _;

const MAX_ENTRIES: u64 = 5_000_000;
const MAX_PATH: usize = 4096;
/// Of a long name, or of the attributes of one entry.
const MAX_EXTENSION: u64 = 1 << 20;
/// Of all directories' paths together: they are kept until the end.
const MAX_PATHS: usize = 256 << 20;
/// Far below what the rest of the engine walks.
const MAX_DEPTH: usize = 256;
/// Of the unpacked whole: a bomb ends here, or when the disk is nearly full.
const MAX_BYTES: u64 = 1 << 40;
const DISK_RESERVE: u64 = 64 << 20;

pub(super) fn fingerprint(path: &Utf8Path, metadata: &Metadata) -> Result<String, ProviderError> {
    if !metadata.is_file() {
        return Err(ProviderError::refused(format!(
            "{path} is neither a directory nor a tar"
        )));
    }
    let canonical = path.canonicalize_utf8().doing(format!("reading {path}"))?;
    Ok(format!(
        "{canonical} {} {} {}.{}",
        metadata.ino(),
        metadata.len(),
        metadata.ctime(),
        metadata.ctime_nsec()
    ))
}

pub(super) fn fill(path: &Utf8Path, place: &Utf8Path) -> Result<(), ProviderError> {
    let file = File::open(path).doing(format!("reading {path}"))?;
    mkdirat(CWD, place.as_std_path(), Mode::from(0o755)).doing("making the layer")?;
    let root = openat2(
        CWD,
        place.as_std_path(),
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::empty(),
    )
    .doing("making the layer")?;
    let ahead = File::open(path).doing(format!("reading {path}"))?;
    let ahead =
        decompress(BufReader::with_capacity(256 << 10, ahead)).doing(format!("reading {path}"))?;
    look_ahead(ahead).map_err(|error| {
        ProviderError::refused(format!(
            "{path} cannot be used as a root file system: {error}"
        ))
    })?;
    let reader =
        decompress(BufReader::with_capacity(256 << 10, file)).doing(format!("reading {path}"))?;
    unpack(reader, &root).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Other
        | io::ErrorKind::InvalidInput => ProviderError::refused(format!(
            "{path} cannot be used as a root file system: {error}"
        )),
        _ => Err::<(), _>(error)
            .doing(format!("unpacking {path}"))
            .expect_err("made from an error"),
    })?;
    check_root(place, path)
}

/// Something must be there to run, and what every sandbox has must have its place.
pub(super) fn check_root(place: &Utf8Path, from: &Utf8Path) -> Result<(), ProviderError> {
    for name in ["proc", "sys", "dev", "run"] {
        let wrong = std::fs::symlink_metadata(place.join(name)).is_ok_and(|found| !found.is_dir());
        if wrong {
            return Err(ProviderError::refused(format!(
                "{from} cannot be used as a root file system: its /{name} is not a directory"
            )));
        }
    }
    let mut entries = std::fs::read_dir(place).doing(format!("reading {place}"))?;
    if entries.next().is_none() {
        return Err(ProviderError::refused(format!(
            "{from} is empty: it holds no root file system"
        )));
    }
    Ok(())
}

/// By its first bytes, not by its name.
fn decompress(mut reader: BufReader<File>) -> io::Result<Box<dyn Read>> {
    let start = io::BufRead::fill_buf(&mut reader)?;
    if start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)));
    }
    if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Box::new(zstd::stream::read::Decoder::with_buffer(reader)?));
    }
    if start.starts_with(b"\xfd7zXZ") {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "xz is not read: unpack it with `xz -d` first",
        ));
    }
    Ok(Box::new(reader))
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// The archive's own bytes have no place in a message to a person.
fn damaged(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(_) => error,
        None => invalid("it is no tar, or a damaged one"),
    }
}

/// Names and attributes are read into memory whole, whatever length they claim: so first of all
/// they are looked at one by one.
fn look_ahead(reader: impl Read) -> io::Result<()> {
    let mut archive = Archive::new(reader);
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let entry = entry.map_err(damaged)?;
        let is_data = matches!(
            entry.header().entry_type(),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse
        );
        if !is_data && entry.header().entry_size().unwrap_or(u64::MAX) > MAX_EXTENSION {
            return Err(invalid("a name or attribute in it is absurdly long"));
        }
    }
    Ok(())
}

fn unpack(reader: impl Read, root: &OwnedFd) -> io::Result<()> {
    let mut archive = Archive::new(reader);
    let (mut entries, mut bytes, mut path_bytes) = (0u64, 0u64, 0usize);
    // Set last, deepest first: a directory without write permission must still be filled.
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        if entries > MAX_ENTRIES || bytes > MAX_BYTES {
            return Err(invalid("it is larger than any root file system"));
        }
        let disk = rustix::fs::fstatvfs(root)?;
        if entry.size().saturating_add(DISK_RESERVE) > disk.f_bavail.saturating_mul(disk.f_frsize) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let path = entry.path_bytes().into_owned();
        let Some(path) = checked(&path)? else {
            continue;
        };
        path_bytes += path.len();
        if path_bytes > MAX_PATHS {
            return Err(invalid("its paths are longer than any root file system's"));
        }
        unpack_entry(&mut entry, root, &path, &mut directories)?;
    }
    for (path, mode) in directories.into_iter().rev() {
        let directory = open(root, &path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// The path without its leading `./`; `None` for the root itself.
fn checked(path: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let shown = || String::from_utf8_lossy(&path[..path.len().min(80)]).into_owned();
    if path.starts_with(b"/") {
        return Err(invalid(format!("`{}` is an absolute path", shown())));
    }
    if path.len() > MAX_PATH || path.contains(&0) {
        return Err(invalid(format!("`{}…` is no path", shown())));
    }
    let mut clean = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => return Err(invalid(format!("`{}` leads out of the archive", shown()))),
            component if component.len() > 255 => {
                return Err(invalid(format!("`{}…` is too long", shown())));
            }
            component => {
                if !clean.is_empty() {
                    clean.push(b'/');
                }
                clean.extend_from_slice(component);
            }
        }
    }
    if clean.split(|byte| *byte == b'/').count() > MAX_DEPTH {
        return Err(invalid(format!("`{}…` is nested too deep", shown())));
    }
    Ok((!clean.is_empty()).then_some(clean))
}

fn unpack_entry(
    entry: &mut Entry<'_, impl Read>,
    root: &OwnedFd,
    path: &[u8],
    directories: &mut Vec<(Vec<u8>, u32)>,
) -> io::Result<()> {
    let kind = entry.header().entry_type();
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b"."[..], path),
    };
    let parent = make_parents(root, parent)?;
    let mode = entry.header().mode()? & 0o7777;
    let owner = |number: io::Result<u64>| -> io::Result<u32> {
        // Ids past the range mean nobody inside.
        Ok(u32::try_from(number?)
            .ok()
            .filter(|id| *id < 65_536)
            .unwrap_or(65_534))
    };
    let (uid, gid) = (owner(entry.header().uid())?, owner(entry.header().gid())?);
    match kind {
        EntryType::Directory => match mkdirat(&parent, name, Mode::from(0o755)) {
            Ok(()) => {}
            // Again, or made as somebody's parent before; anything else there is a trick.
            Err(rustix::io::Errno::EXIST) => {
                open(root, path, OFlags::PATH | OFlags::DIRECTORY)?;
            }
            Err(error) => return Err(error.into()),
        },
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            replace(&parent, name)?;
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, name, flags, Mode::from(0o600))?;
            let mut file = File::from(file);
            io::copy(entry, &mut file)?;
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            return attributes(entry, &file);
        }
        EntryType::Symlink => {
            replace(&parent, name)?;
            let target = entry
                .link_name_bytes()
                .ok_or_else(|| invalid("a symbolic link without a target"))?;
            symlinkat(&*target, &parent, name)?;
        }
        EntryType::Link => {
            let target = entry
                .link_name_bytes()
                .ok_or_else(|| invalid("a hard link without a target"))?;
            let target = checked(&target)?.ok_or_else(|| invalid("a hard link to the root"))?;
            let existing = match open(root, &target, OFlags::PATH | OFlags::NOFOLLOW) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let target = String::from_utf8_lossy(&target);
                    return Err(invalid(format!(
                        "a hard link to `{target}`, which is not in it"
                    )));
                }
                other => other?,
            };
            let is_directory =
                rustix::fs::fstat(&existing)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
            if is_directory {
                return Err(invalid("a hard link to a directory"));
            }
            replace(&parent, name)?;
            // Through the descriptor that was checked, so that nobody has to be trusted.
            let via = format!(
                "/proc/self/fd/{}",
                std::os::fd::AsRawFd::as_raw_fd(&existing)
            );
            linkat(CWD, &*via, &parent, name, AtFlags::SYMLINK_FOLLOW)?;
            return Ok(());
        }
        EntryType::Fifo => {
            replace(&parent, name)?;
            rustix::fs::mknodat(
                &parent,
                name,
                rustix::fs::FileType::Fifo,
                Mode::from_raw_mode(mode),
                0,
            )?;
            // Again, because the process's mask was in the way. It is no link: we made it.
            rustix::fs::chmodat(&parent, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
        }
        // A sandbox has its own /dev; nodes in an image are never of use, and pass as nothing.
        EntryType::Char | EntryType::Block => return Ok(()),
        other => return Err(invalid(format!("an entry of the unknown type {other:?}"))),
    }
    chownat(
        &parent,
        name,
        Some(Uid::from_raw(uid)),
        Some(Gid::from_raw(gid)),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    if kind == EntryType::Directory {
        directories.push((path.to_vec(), mode));
    }
    Ok(())
}

fn open(root: &OwnedFd, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve).map_err(
        |error| match error {
            rustix::io::Errno::LOOP | rustix::io::Errno::XDEV => invalid(format!(
                "`{}` goes through a symbolic link",
                String::from_utf8_lossy(path)
            )),
            rustix::io::Errno::NOTDIR => invalid(format!(
                "`{}` is not a directory",
                String::from_utf8_lossy(path)
            )),
            error => error.into(),
        },
    )
}

fn make_parents(root: &OwnedFd, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match open(root, path, flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let ends = path
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at)
        .chain([path.len()]);
    for end in ends {
        let (parent, name) = match path[..end].iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..end]),
            None => (&b"."[..], &path[..end]),
        };
        match mkdirat(open(root, parent, flags)?, name, Mode::from(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    open(root, path, flags)
}

/// A later entry of the same name wins, as with every tar; a directory is not given up for a file.
fn replace(parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(rustix::io::Errno::ISDIR) => Err(invalid("a file in the place of a directory")),
        Err(error) => Err(error.into()),
    }
}

/// Capabilities and user attributes; the overlay's own and everything else would be a trick.
fn attributes(entry: &mut Entry<'_, impl Read>, file: &File) -> io::Result<()> {
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(());
    };
    for extension in extensions {
        let extension = extension?;
        let Some(name) = extension.key_bytes().strip_prefix(b"SCHILY.xattr.") else {
            continue;
        };
        let wanted = (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
            || name == b"security.capability";
        if wanted {
            fsetxattr(file, name, extension.value_bytes(), XattrFlags::empty())?;
        }
    }
    Ok(())
}
