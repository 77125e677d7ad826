//! The key of a home, from which everything is derived that opens its sandboxes. It never leaves
//! the host; what a sandbox gets is of use for that one alone.

use std::fmt;
use std::io;

use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::{Home, aside};

const FILE: &str = "master.key";

pub(crate) struct Master([u8; 32]);

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Master")
    }
}

impl Master {
    /// Of several processes that open a new home at once, all get the same.
    pub(crate) fn open(home: &Home) -> Result<Self, ProviderError> {
        let doing = || "reading the home's key".to_owned();
        let path = home.path(FILE);
        loop {
            match fs_err::read_to_string(&path) {
                Ok(text) => {
                    return blake3::Hash::from_hex(text.trim())
                        .map(|key| Self(key.into()))
                        .map_err(|_| {
                            ProviderError::unavailable(doing(), format!("{path} is damaged; put it back from a copy, or remove it: sandboxes that are running must then be started again"))
                        });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ProviderError::unavailable(doing(), error)),
            }
            let mut key = [0; 32];
            getrandom(&mut key).doing(doing())?;
            let text = format!("{}\n", blake3::Hash::from(key).to_hex());
            let (new, file) = aside(home, &text).doing(doing())?;
            file.sync_all().doing(doing())?;
            // Unlike a rename, a link leaves one alone that is there.
            let linked = fs_err::hard_link(&new, &path);
            fs_err::remove_file(&new).doing(doing())?;
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ProviderError::unavailable(doing(), error));
                }
                _ => {}
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

fn getrandom(into: &mut [u8]) -> io::Result<()> {
    rustix::rand::getrandom(into, rustix::rand::GetRandomFlags::empty())?;
    Ok(())
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
