//! Reads files of this machine into a stream for a sandbox.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use provider::{FileEntry, FileEvent, FileKind, ProviderError};
use rustix::fs::OFlags;
use tokio::sync::mpsc::Sender;

use crate::output::Output;

type Events = Sender<Result<FileEvent, ProviderError>>;

/// How many files and bytes were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Sends what is at `from` under the name `name`. Nothing when the other side stopped reading: it
/// knows why.
pub(super) fn pack(
    output: Output,
    from: &Path,
    name: &[u8],
    events: &Events,
) -> Result<Option<Packed>> {
    let result = Packer {
        output,
        events,
        packed: Packed::default(),
    }
    .all(from, name);
    if let Err(error) = &result {
        // So that the sandbox does not take what it has for all there is.
        let _ = events.blocking_send(Err(ProviderError::refused(format!("{error:#}"))));
    }
    result
}

struct Packer<'a> {
    output: Output,
    events: &'a Events,
    packed: Packed,
}

/// Below the largest frame of any protocol.
const PIECE: usize = 64 * 1024;

impl Packer<'_> {
    fn all(mut self, from: &Path, name: &[u8]) -> Result<Option<Packed>> {
        // Directories before what is in them; the order of names makes two copies alike.
        let mut waiting: Vec<(PathBuf, Vec<u8>)> = vec![(from.to_owned(), name.to_vec())];
        while let Some((from, name)) = waiting.pop() {
            let metadata = fs_err::symlink_metadata(&from)?;
            if self.one(&from, &name, &metadata)?.is_none() {
                return Ok(None);
            }
            if !metadata.is_dir() {
                continue;
            }
            let mut names = fs_err::read_dir(&from)?
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<Result<Vec<_>, _>>()?;
            names.sort_unstable_by(|left, right| right.cmp(left));
            for below in names {
                let mut path = name.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(below.as_bytes());
                waiting.push((from.join(below), path));
            }
        }
        Ok(Some(self.packed))
    }

    fn one(&mut self, from: &Path, name: &[u8], metadata: &Metadata) -> Result<Option<()>> {
        let kind = if metadata.is_dir() {
            FileKind::Directory
        } else if metadata.is_symlink() {
            FileKind::Symlink {
                target: fs_err::read_link(from)?.as_os_str().as_bytes().to_vec(),
            }
        } else if metadata.is_file() {
            FileKind::File
        } else {
            self.output.warning(&format!(
                "{} is a socket, pipe or device: left out",
                from.display()
            ));
            return Ok(Some(()));
        };
        let is_file = kind == FileKind::File;
        // Opened before it is announced, so that a file we may not read is not made empty.
        let file = if is_file { Some(open(from)?) } else { None };
        let mode = metadata.permissions().mode() & 0o7777;
        let entry = FileEntry {
            path: name.to_vec(),
            kind,
            mode,
            uid: None,
            gid: None,
        };
        if self.send(FileEvent::Entry(entry)).is_none() {
            return Ok(None);
        }
        match file {
            Some(file) => self.content(file, from),
            None => Ok(Some(())),
        }
    }

    fn content(&mut self, mut file: File, from: &Path) -> Result<Option<()>> {
        let mut buffer = vec![0; PIECE];
        loop {
            let length = file
                .read(&mut buffer)
                .with_context(|| format!("cannot read {}", from.display()))?;
            if length == 0 {
                self.packed.files += 1;
                return Ok(Some(()));
            }
            if self
                .send(FileEvent::Data(Bytes::copy_from_slice(&buffer[..length])))
                .is_none()
            {
                return Ok(None);
            }
            self.packed.bytes += length as u64;
        }
    }

    fn send(&self, event: FileEvent) -> Option<()> {
        self.events.blocking_send(Ok(event)).ok()
    }
}

/// It was a regular file a moment ago; a link or pipe that took its place is not followed, nor
/// waited for.
pub(crate) fn open(path: &Path) -> Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(from: &Path, name: &[u8]) -> (Vec<String>, Result<Option<Packed>>) {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(64);
        let result = pack(Output::new(false), from, name, &sender);
        drop(sender);
        let mut seen = Vec::new();
        while let Some(event) = receiver.blocking_recv() {
            seen.push(match event {
                Ok(FileEvent::Entry(entry)) => {
                    format!("{} {:o}", String::from_utf8_lossy(&entry.path), entry.mode)
                }
                Ok(FileEvent::Data(data)) => String::from_utf8_lossy(&data).into_owned(),
                Err(error) => format!("! {error}"),
            });
        }
        (seen, result)
    }

    #[test]
    fn a_tree_is_sent_directories_first_and_in_order() {
        let root = camino_tempfile::tempdir().unwrap();
        fs_err::create_dir(root.path().join("b")).unwrap();
        fs_err::write(root.path().join("b/x"), "text").unwrap();
        fs_err::write(root.path().join("a"), "").unwrap();
        fs_err::os::unix::fs::symlink("/nowhere", root.path().join("c")).unwrap();
        for (path, mode) in [("", 0o700), ("b", 0o755), ("b/x", 0o4755), ("a", 0o600)] {
            fs_err::set_permissions(
                root.path().join(path),
                std::fs::Permissions::from_mode(mode),
            )
            .unwrap();
        }
        let (seen, result) = packed(root.path().as_std_path(), b"t");
        assert_eq!(
            seen,
            [
                "t 700",
                "t/a 600",
                "t/b 755",
                "t/b/x 4755",
                "text",
                "t/c 777"
            ]
        );
        assert_eq!(result.unwrap(), Some(Packed { files: 2, bytes: 4 }));
    }

    #[test]
    fn a_missing_file_ends_the_stream_with_its_error() {
        let (seen, result) = packed(Path::new("/nowhere/at/all"), b"t");
        assert!(result.is_err());
        assert!(seen[0].starts_with("! "), "{seen:?}");
    }
}
