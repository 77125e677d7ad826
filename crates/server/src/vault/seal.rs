//! One value, sealed and opened.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use model::{Id, Organisation, Secret};
use store::secrets::{Scope, SealedValue};
use zeroize::Zeroize as _;

use super::ring::{SealingKey, random};

/// The largest value: what fits a row with its tag.
pub const LARGEST: usize = store::limits::SECRET - 16;

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("a secret is larger than {LARGEST} bytes")]
    TooLarge,
    #[error("there is no randomness to seal with")]
    Random(#[source] std::io::Error),
}

/// Says nothing of the value, nor of how near it came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the key {0} is not here; put keys/secrets.json back from a copy")]
    UnknownKey(String),
    #[error("the secret does not open: it was changed, or belongs elsewhere; set it anew")]
    Damaged,
}

pub(super) fn seal(
    key: &SealingKey,
    organisation: Id<Organisation>,
    scope: &Scope,
    name: &str,
    value: &Secret,
) -> Result<SealedValue, SealError> {
    if value.expose().len() > LARGEST {
        return Err(SealError::TooLarge);
    }
    let nonce = *random::<12>().map_err(SealError::Random)?;
    let aad = bound(organisation, scope, name, &key.id);
    let payload = Payload {
        msg: value.expose().as_bytes(),
        aad: &aad,
    };
    let ciphertext = cipher(key).encrypt(&Nonce::from(nonce), payload);
    Ok(SealedValue {
        key_id: key.id.clone(),
        nonce,
        // Its only failure is length, by the gigabyte.
        ciphertext: ciphertext.map_err(|_| SealError::TooLarge)?,
    })
}

pub(super) fn open(
    key: &SealingKey,
    organisation: Id<Organisation>,
    scope: &Scope,
    name: &str,
    value: &SealedValue,
) -> Result<Secret, OpenError> {
    let aad = bound(organisation, scope, name, &key.id);
    let payload = Payload {
        msg: &value.ciphertext,
        aad: &aad,
    };
    let opened = cipher(key).decrypt(&Nonce::from(value.nonce), payload);
    let opened = opened.map_err(|_| OpenError::Damaged)?;
    match String::from_utf8(opened) {
        Ok(text) => Ok(Secret::new(text)),
        Err(error) => {
            error.into_bytes().zeroize();
            Err(OpenError::Damaged)
        }
    }
}

fn cipher(key: &SealingKey) -> Aes256Gcm {
    Aes256Gcm::new_from_slice(&*key.bytes).expect("a key has 32 bytes")
}

/// What a value is bound to. Each with its length, or two rows could read the same.
fn bound(organisation: Id<Organisation>, scope: &Scope, name: &str, key_id: &str) -> Vec<u8> {
    let mut bound = b"nacre/secret/1".to_vec();
    for part in [
        organisation.to_string().as_str(),
        scope.kind(),
        &scope.target(),
        name,
        key_id,
    ] {
        bound.extend((part.len() as u64).to_be_bytes());
        bound.extend(part.as_bytes());
    }
    bound
}
