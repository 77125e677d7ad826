//! The file that holds the keys: its owner's alone, and whole or not there.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use fs_err::os::unix::fs::OpenOptionsExt as _;
use rustix::fs::{FlockOperation, flock};
use zeroize::Zeroizing;

use super::ring::Ring;

/// 64 keys are a tenth of it.
const LARGEST: u64 = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot use the keys at {path}")]
    Io {
        path: Utf8PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} can be read by others (mode {mode:o}); `chmod go= {path}`, and rotate the keys if somebody may have read them"
    )]
    Exposed { path: Utf8PathBuf, mode: u32 },
    #[error("{path} belongs to another user (uid {uid}); run as that user, or `chown` it")]
    Foreign { path: Utf8PathBuf, uid: u32 },
    #[error("{path} does not hold keys; put it back from a copy, or secrets cannot be opened")]
    Damaged { path: Utf8PathBuf },
}

impl FileError {
    pub(super) fn of(path: &Utf8Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Makes the directory, and answers where the file is.
pub(super) fn prepare(home: &Utf8Path) -> Result<Utf8PathBuf, FileError> {
    let directory = home.join("keys");
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory);
    made.map_err(|source| FileError::of(&directory, source))?;
    let about = fs_err::symlink_metadata(&directory);
    check(
        &directory,
        &about.map_err(|source| FileError::of(&directory, source))?,
    )?;
    Ok(directory.join("secrets.json"))
}

/// Until it is dropped, no other process changes the keys.
pub(super) fn lock(path: &Utf8Path) -> Result<fs_err::File, FileError> {
    let lock = path.with_extension("lock");
    let of = |source| FileError::of(&lock, source);
    let file = fs_err::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock)
        .map_err(of)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
        .map_err(|error| of(error.into()))?;
    Ok(file)
}

pub(super) fn read(path: &Utf8Path) -> Result<Option<Ring>, FileError> {
    let of = |source| FileError::of(path, source);
    let opened = fs_err::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of(error)),
    };
    check(path, &file.metadata().map_err(of)?)?;
    let mut json = Zeroizing::new(String::new());
    file.take(LARGEST).read_to_string(&mut json).map_err(of)?;
    match Ring::from_json(&json) {
        Some(ring) => Ok(Some(ring)),
        None => Err(FileError::Damaged {
            path: path.to_owned(),
        }),
    }
}

/// Under the lock. Whoever is killed in here leaves the old one, or the new one.
pub(super) fn write(path: &Utf8Path, ring: &Ring) -> Result<(), FileError> {
    let of = |source| FileError::of(path, source);
    let new = path.with_extension("new");
    // One that was left by somebody who was killed, perhaps with a wider mode.
    match fs_err::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(of(error)),
        _ => {}
    }
    let mut file = fs_err::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .map_err(of)?;
    file.write_all(ring.to_json().as_bytes()).map_err(of)?;
    file.sync_all().map_err(of)?;
    fs_err::rename(&new, path).map_err(of)?;
    let directory = path.parent().unwrap_or(path);
    let directory = fs_err::File::open(directory).map_err(of)?;
    directory.sync_all().map_err(of)
}

fn check(path: &Utf8Path, about: &std::fs::Metadata) -> Result<(), FileError> {
    let mode = about.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(FileError::Foreign {
            path: path.to_owned(),
            uid: about.uid(),
        });
    }
    Ok(())
}
