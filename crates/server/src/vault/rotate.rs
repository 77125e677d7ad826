//! A new key for everything. Each step leaves a state in which all secrets open: the key is on the
//! disk before it seals anything, rows change one by one, and a key is dropped long after the last
//! row left it.

use model::{SignedDuration, Timestamp};
use store::Store;

use super::ring::SealingKey;
use super::{FileError, SealError, Vault, file};

const PAGE: u32 = 100;
/// A value that was sealed with the old key just before the new one came may be written a little
/// later; another process may have read the keys before.
const DROP_AFTER: SignedDuration = SignedDuration::from_hours(24);

#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("cannot seal the secrets anew; what was done stays, run it again")]
    Store(#[from] store::Error),
    #[error("there are too many keys; drop those that seal nothing")]
    Full,
}

/// What came of sealing anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resealed {
    pub resealed: u64,
    /// Somebody set them meanwhile.
    pub changed: u64,
    /// These do not open, and stay as they are.
    pub damaged: u64,
}

impl Vault {
    /// Adds a key, and seals everything with it.
    pub async fn rotate(&self, store: &Store, now: Timestamp) -> Result<Resealed, RotateError> {
        self.add_key(now)?;
        self.reseal(store).await
    }

    /// Seals with the newest key what is sealed with others: what a rotation that was killed left.
    pub async fn reseal(&self, store: &Store) -> Result<Resealed, RotateError> {
        let mut done = Resealed::default();
        let old = self.ring().followed();
        for (key, _) in old {
            let mut after = None;
            loop {
                let page = store.secrets_sealed_with(&key, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.about.id);
                self.reseal_page(store, &page, &mut done).await?;
            }
        }
        Ok(done)
    }

    pub(super) async fn reseal_page(
        &self,
        store: &Store,
        page: &[store::secrets::SealedSecret],
        done: &mut Resealed,
    ) -> Result<(), RotateError> {
        // Sealed before the transaction, which others wait for.
        let mut sealed = Vec::with_capacity(page.len());
        for secret in page {
            let about = &secret.about;
            match self.open_secret(secret) {
                Ok(value) => {
                    let new = self.seal(about.organisation, &about.scope, &about.name, &value)?;
                    sealed.push((secret, new));
                }
                Err(error) => {
                    tracing::error!(secret = %about.id, %error, "a secret keeps its old key");
                    done.damaged += 1;
                }
            }
        }
        let mut tx = store.begin().await?;
        let (mut resealed, mut changed) = (0, 0);
        for (secret, new) in &sealed {
            let id = secret.about.id;
            if tx.reseal_secret(id, &secret.value, new).await? {
                resealed += 1;
            } else {
                changed += 1;
            }
        }
        tx.commit().await?;
        done.resealed += resealed;
        done.changed += changed;
        Ok(())
    }

    pub(super) fn add_key(&self, now: Timestamp) -> Result<(), RotateError> {
        let _alone = file::lock(&self.path)?;
        // Others may have added one.
        let mut ring = self.reread()?;
        if ring.is_full() {
            return Err(RotateError::Full);
        }
        let key = SealingKey::new(now).map_err(|source| FileError::of(&self.path, source))?;
        ring.add(key);
        file::write(&self.path, &ring)?;
        *self.ring() = ring;
        Ok(())
    }

    /// Drops keys that seal nothing any more, a day after they were followed. How many.
    pub async fn drop_unused(&self, store: &Store, now: Timestamp) -> Result<usize, RotateError> {
        let old = self.ring().followed();
        let mut unused = Vec::new();
        for (key, followed_at) in old {
            let is_old = now.duration_since(followed_at) >= DROP_AFTER;
            if is_old && store.secrets_sealed_with(&key, None, 1).await?.is_empty() {
                unused.push(key);
            }
        }
        if unused.is_empty() {
            return Ok(0);
        }
        let _alone = file::lock(&self.path)?;
        let mut ring = self.reread()?;
        ring.remove(&unused);
        file::write(&self.path, &ring)?;
        *self.ring() = ring;
        Ok(unused.len())
    }

    fn reread(&self) -> Result<super::Ring, FileError> {
        file::read(&self.path)?.ok_or_else(|| FileError::Damaged {
            path: self.path.clone(),
        })
    }
}
