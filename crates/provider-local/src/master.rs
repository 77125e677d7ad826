//! The key of a home, from which everything is derived that opens its sandboxes. It never leaves
//! the host; what a sandbox gets is of use for that one alone.

use std::fmt;
use std::io::{self, Write as _};

use camino::Utf8Path;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use provider::ProviderError;

use crate::error::Doing as _;

const FILE: &str = "master.key";

pub(crate) struct Master([u8; 32]);

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Master")
    }
}

impl Master {
    /// Of several processes that open a new home at once, all get the same. It lies in the home
    /// itself, not in the store, which may be moved.
    pub(crate) fn open(home: &Utf8Path) -> Result<Self, ProviderError> {
        let path = home.join(FILE);
        loop {
            match fs_err::read_to_string(&path) {
                Ok(text) => {
                    return blake3::Hash::from_hex(text.trim())
                        .map(|key| Self(key.into()))
                        .map_err(|_| {
                            let damaged = format!("{path} is damaged; put it back from a copy, or remove it: what is running must then be started again");
                            ProviderError::unavailable(DOING, damaged)
                        });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    make(&path).doing(DOING)?;
                }
                Err(error) => return Err(ProviderError::unavailable(DOING, error)),
            }
        }
    }

    /// What lets people and hubs in to one sandbox of a session.
    pub(crate) fn of_generation(&self, session: &str, generation: u64) -> String {
        self.derive(&["generation", session, &generation.to_string()])
    }

    /// What seals the journals of a session.
    pub(crate) fn of_journal(&self, session: &str) -> String {
        self.derive(&["journal", session])
    }

    fn derive(&self, parts: &[&str]) -> String {
        let mut hash = blake3::Hasher::new_keyed(&self.0);
        for part in parts {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().to_hex().to_string()
    }
}

const DOING: &str = "reading the home's key";

/// Whole or not at all, and none that is there is replaced.
fn make(path: &Utf8Path) -> io::Result<()> {
    let mut key = [0; 32];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let new = path.with_extension(format!("new{thread}"));
    let mut file = fs_err::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    writeln!(file, "{}", blake3::Hash::from(key).to_hex())?;
    file.sync_all()?;
    // Unlike a rename, a link leaves one alone that is there.
    let linked = fs_err::hard_link(&new, path);
    fs_err::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_derived_tells_sessions_generations_and_uses_apart() {
        let master = Master([7; 32]);
        let all = [
            master.of_generation("a", 1),
            master.of_generation("a", 2),
            master.of_generation("b", 1),
            master.of_journal("a"),
            master.of_journal("a1"),
            Master([8; 32]).of_generation("a", 1),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(master.of_generation("a", 1), all[0]);
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", Master([7; 32])), "Master");
    }
}
