//! Where secrets are sealed and opened, and where the server's own keys come from.
//!
//! ```text
//! <home>/keys/secrets.json   root ── HMAC(label) ──► keys of other purposes, never changed
//!                            k1, k2, … kn            kn seals, all of them open
//! ```
//!
//! A value is sealed with AES-256-GCM under the newest key, bound to its organisation, scope, name
//! and key: moved to another row it does not open. [`Vault::rotate`] adds a key and seals everything
//! anew; killed at any point, [`Vault::reseal`] goes on from there.

mod file;
mod ring;
mod rotate;
mod seal;
pub mod tokens;

use std::sync::{Mutex, MutexGuard, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::{Id, Organisation, Secret, Session, Timestamp};
use sha2::Sha256;
use store::secrets::{Scope, SealedSecret, SealedValue};
use wire::keys::{Key, Purpose};

pub use file::FileError;
pub use rotate::{Resealed, RotateError};
pub use seal::{LARGEST, OpenError, SealError};

use ring::Ring;

/// The keys of one home, opened.
#[derive(Debug)]
pub struct Vault {
    path: Utf8PathBuf,
    ring: Mutex<Ring>,
}

impl Vault {
    /// Makes the keys where there are none. Of several processes that do so at once, all get the
    /// same.
    pub fn open(home: &Utf8Path, now: Timestamp) -> Result<Self, FileError> {
        let path = file::prepare(home)?;
        let _alone = file::lock(&path)?;
        let ring = if let Some(ring) = file::read(&path)? {
            ring
        } else {
            let ring = Ring::new(now).map_err(|source| FileError::of(&path, source))?;
            file::write(&path, &ring)?;
            ring
        };
        Ok(Self {
            path,
            ring: Mutex::new(ring),
        })
    }

    pub fn seal(
        &self,
        organisation: Id<Organisation>,
        scope: &Scope,
        name: &str,
        value: &Secret,
    ) -> Result<SealedValue, SealError> {
        let ring = self.ring();
        seal::seal(ring.newest(), organisation, scope, name, value)
    }

    pub fn open_secret(&self, secret: &SealedSecret) -> Result<Secret, OpenError> {
        let about = &secret.about;
        self.unseal(about.organisation, &about.scope, &about.name, &secret.value)
    }

    /// What was sealed for the same organisation, scope and name.
    pub fn unseal(
        &self,
        organisation: Id<Organisation>,
        scope: &Scope,
        name: &str,
        value: &SealedValue,
    ) -> Result<Secret, OpenError> {
        let known = {
            let ring = self.ring();
            ring.find(&value.key_id)
                .map(|key| seal::open(key, organisation, scope, name, value))
        };
        if let Some(opened) = known {
            return opened;
        }
        // Another process may have added a key since we read them.
        if let Ok(Some(ring)) = file::read(&self.path) {
            *self.ring() = ring;
        }
        let ring = self.ring();
        let Some(key) = ring.find(&value.key_id) else {
            return Err(OpenError::UnknownKey(value.key_id.clone()));
        };
        seal::open(key, organisation, scope, name, value)
    }

    /// What signs the tokens of people ([`wire::keys::user`]).
    pub fn user_key(&self) -> Key {
        let secret = self.derive(&["user"]);
        Key::derive(secret.expose(), Purpose::User).expect("64 digits are not empty")
    }

    /// What a sandbox of this generation shows at our public doors. It opens nothing else, and
    /// nothing of another generation.
    pub fn session_key(&self, session: Id<Session>, generation: u64) -> Secret {
        self.derive(&["session", &session.to_string(), &generation.to_string()])
    }

    /// For a purpose of its own, by its label: 64 hexadecimal digits.
    pub fn server_key(&self, label: &str) -> Secret {
        self.derive(&["server", label])
    }

    fn derive(&self, parts: &[&str]) -> Secret {
        let ring = self.ring();
        let mut mac = Hmac::<Sha256>::new_from_slice(ring.root())
            .expect("HMAC takes a key of any length")
            .chain_update("nacre/vault/1");
        for part in parts {
            // With its length, or two lists of parts could read the same.
            mac = mac
                .chain_update((part.len() as u64).to_be_bytes())
                .chain_update(part);
        }
        let mut digits = String::with_capacity(64);
        for byte in mac.finalize().into_bytes() {
            for digit in [byte >> 4, byte & 15] {
                digits.extend(char::from_digit(digit.into(), 16));
            }
        }
        Secret::new(digits)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
