//! Our own small files in a place that the sandbox's user can write to as well: a pipe, a link or a
//! gigabyte may lie where one is expected, and reading must neither wait nor swallow it.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use camino::Utf8Path;
use fs_err as fs;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

/// Whatever the name turns out to be, opening it neither waits nor leads elsewhere.
const PLAIN: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// `None` when there is no such file.
pub(crate) fn read(path: &Utf8Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_existing(path, OFlags::RDONLY)? else {
        return Ok(None);
    };
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::other(format!(
            "{path} is larger than {limit} bytes"
        )));
    }
    Ok(Some(content))
}

/// Whole or not at all. Directories on the way are made.
pub(crate) fn replace(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(path, content, 0o644)
}

pub(crate) fn replace_with_mode(path: &Utf8Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension("new");
    write_new(&new, content, mode)?;
    fs::rename(&new, path)
}

/// As [`replace`], also when the machine dies: then it is the old one or the new.
pub(crate) fn replace_synced(path: &Utf8Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    write_new(&new, content, 0o644)?.sync_data()?;
    fs::rename(&new, path)
}

fn write_new(path: &Utf8Path, content: &[u8], mode: u32) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let _ = fs::remove_file(path);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | PLAIN;
    let mut file = File::from(open(path.as_str(), flags, Mode::from_raw_mode(mode))?);
    file.write_all(content)?;
    Ok(file)
}

/// For reading and appending; made if it is not there, or not a file.
pub(crate) fn open_to_append(path: &Utf8Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let flags = OFlags::RDWR | OFlags::APPEND;
    if let Ok(Some(file)) = open_existing(path, flags) {
        return Ok(file);
    }
    let _ = fs::remove_file(path);
    let flags = flags | OFlags::CREATE | OFlags::EXCL | PLAIN;
    Ok(open(path.as_str(), flags, Mode::from_raw_mode(0o644))?.into())
}

/// A regular file, or nothing.
pub(crate) fn open_existing(path: &Utf8Path, flags: OFlags) -> io::Result<Option<File>> {
    let file = match open(path.as_str(), flags | PLAIN, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        other => other?,
    };
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::other(format!("{path} is not a file")));
    }
    Ok(Some(file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_read_and_what_is_too_long_is_not() {
        let directory = camino_tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b.json");
        assert_eq!(read(&path, 10).unwrap(), None);
        replace(&path, b"pearl").unwrap();
        assert_eq!(read(&path, 5).unwrap().unwrap(), b"pearl");
        assert!(read(&path, 4).is_err());
    }

    #[test]
    fn a_pipe_or_a_link_in_the_place_of_a_file_is_not_followed() {
        let directory = camino_tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.as_str(),
            FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(read(&pipe, 10).is_err());
        let link = directory.path().join("link");
        fs_err::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(read(&link, 1 << 20).is_err());
        replace(&link, b"x").unwrap();
        assert_eq!(read(&link, 10).unwrap().unwrap(), b"x");
        assert!(fs_err::read_to_string("/etc/passwd").unwrap().len() > 1);
        open_to_append(&pipe).unwrap().write_all(b"log").unwrap();
        assert_eq!(read(&pipe, 10).unwrap().unwrap(), b"log");
    }
}
