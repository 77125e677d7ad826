//! Deleting: first out of sight in one step, then file by file.
//!
//! What is to go is moved into a directory of its own in the trash, and whoever holds that
//! directory's lock deletes it. (Not the lock of what is moved: a sandbox's is held by its remover.)

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use camino::{Utf8Path, Utf8PathBuf};
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::{Home, Lock, entries};
use crate::tree;

/// Takes a directory away at once and deletes it. Gone already is fine.
pub(crate) fn put(home: &Home, directory: &Utf8Path) -> Result<(), ProviderError> {
    match take(home, directory)? {
        Some(taken) => taken.delete(),
        None => Ok(()),
    }
}

/// Something that is out of sight and still to be deleted.
#[derive(Debug)]
pub(crate) struct Taken {
    place: Utf8PathBuf,
    _lock: Option<Lock>,
}

impl Taken {
    pub(crate) fn measure(&self) -> u64 {
        tree::measure(&self.place).map_or(0, |measure| measure.bytes)
    }

    pub(crate) fn delete(self) -> Result<(), ProviderError> {
        tree::remove(&self.place).doing(format!("deleting {}", self.place))
    }
}

/// Takes a directory away at once; `None` when it is gone already.
pub(crate) fn take(home: &Home, directory: &Utf8Path) -> Result<Option<Taken>, ProviderError> {
    // Many calls are only to be sure.
    if std::fs::symlink_metadata(directory).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let (place, lock) = match own_place(home) {
        // No room even for a directory: then it goes where it is.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => {
            return Ok(Some(Taken {
                place: directory.to_owned(),
                _lock: None,
            }));
        }
        other => other.doing(format!("deleting {directory}"))?,
    };
    match fs_err::rename(directory, place.join("x")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let _ = std::fs::remove_dir(&place);
            Err(error).doing(format!("deleting {directory}"))
        }
        _ => Ok(Some(Taken {
            place,
            _lock: Some(lock),
        })),
    }
}

/// A new, empty, locked directory in the trash.
fn own_place(home: &Home) -> io::Result<(Utf8PathBuf, Lock)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = home.path(format!("trash/{}-{number}", std::process::id()));
        match std::fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other?,
        }
        // Somebody who empties the trash may be quicker with an unlocked one.
        if let Ok(file) = File::open(&place)
            && let Some(lock) = Lock::try_file(file)
            && lock.is_at(&place)
        {
            return Ok((place, lock));
        }
    }
}

/// Finishes what an earlier process began to delete.
pub(crate) fn empty(home: &Home) -> Result<(), ProviderError> {
    for name in entries(&home.path("trash"))? {
        let place = home.path(format!("trash/{name}"));
        let Ok(file) = File::open(&place) else {
            continue;
        };
        if let Some(lock) = Lock::try_file(file)
            && lock.is_at(&place)
        {
            tree::remove(&place).doing("emptying the trash")?;
        }
    }
    Ok(())
}
