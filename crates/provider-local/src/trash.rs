//! Deleting: first out of sight in one step, then file by file.

use std::fs::File;
use std::io;

use camino::Utf8Path;
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::{Home, Lock, entries};
use crate::tree;

/// Takes a directory away at once and deletes it. Gone already is fine.
pub(crate) fn put(home: &Home, directory: &Utf8Path) -> Result<(), ProviderError> {
    let name = format!("{}-{}", directory.file_name().unwrap_or("x"), rustix::thread::gettid().as_raw_nonzero());
    let place = home.path(format!("trash/{name}"));
    match std::fs::rename(directory, &place) {
        Ok(()) => delete(&place).doing(format!("deleting {directory}")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).doing(format!("deleting {directory}")),
    }
}

/// Finishes what an earlier process began to delete.
pub(crate) fn empty(home: &Home) -> Result<(), ProviderError> {
    for name in entries(&home.path("trash"))? {
        delete(&home.path(format!("trash/{name}"))).doing("emptying the trash")?;
    }
    Ok(())
}

/// Whoever holds the lock deletes; the others need not.
fn delete(place: &Utf8Path) -> io::Result<()> {
    let directory = match File::open(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let Some(_lock) = Lock::try_file(directory) else { return Ok(()) };
    match tree::remove(place) {
        // The last holder was done between our opening and locking.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
