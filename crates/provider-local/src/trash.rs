//! Deleting: first out of sight in one step, then file by file.

use camino::Utf8Path;
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::{Home, entries};
use crate::tree;

/// Takes a directory away at once and deletes it. Gone already is fine.
pub(crate) fn put(home: &Home, directory: &Utf8Path) -> Result<(), ProviderError> {
    let name = format!("{}-{}", directory.file_name().unwrap_or("x"), rustix::thread::gettid().as_raw_nonzero());
    let place = home.path(format!("trash/{name}"));
    match std::fs::rename(directory, &place) {
        Ok(()) => tree::remove(&place).doing(format!("deleting {directory}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).doing(format!("deleting {directory}")),
    }
}

/// Finishes what an earlier process began to delete.
pub(crate) fn empty(home: &Home) -> Result<(), ProviderError> {
    for name in entries(&home.path("trash"))? {
        let place = home.path(format!("trash/{name}"));
        match tree::remove(&place) {
            Ok(()) => {}
            // Another process empties the same trash.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).doing("emptying the trash"),
        }
    }
    Ok(())
}
