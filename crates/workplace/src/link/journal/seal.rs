//! Keeps a segment from being read, changed, reordered or passed off as another.

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::{AeadInOut as _, KeyInit as _};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// What a seal adds to a record.
pub(super) const TAG: usize = 16;

/// The seal of one segment. Its key comes from the session's and from all of the segment's header,
/// which holds salt: no key is used for two segments, so a record's place is nonce enough.
pub(super) struct Seal(ChaCha20Poly1305);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Seal {
    pub(super) fn new(journal_key: &[u8], header: &[u8]) -> Self {
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(journal_key)
            .expect("HMAC takes keys of any length");
        mac.update(b"nacre journal: the key of a segment\0");
        mac.update(header);
        let key: [u8; 32] = mac.finalize().into_bytes().into();
        Self(ChaCha20Poly1305::new(&key.into()))
    }

    /// Seals the record that stands at this place.
    pub(super) fn close(&self, place: u64, record: &mut Vec<u8>) {
        self.0
            .encrypt_in_place(&nonce(place).into(), b"", record)
            .expect("a record is far below the cipher's limit");
    }

    pub(super) fn open(&self, place: u64, record: &mut Vec<u8>) -> Result<(), Broken> {
        self.0
            .decrypt_in_place(&nonce(place).into(), b"", record)
            .map_err(|_| Broken)
    }
}

fn nonce(place: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&place.to_le_bytes());
    nonce
}
