//! What lets in at a sandbox's edge ports. Host and sandbox share one secret per session and
//! generation ([`crate::workplace::Order::secret`]); from it each derives a key per purpose, so that
//! what was signed for one purpose is worthless for another:
//!
//! ```text
//! key(purpose) = HMAC-SHA256(key: the secret's bytes as given, message: the purpose's label)
//! ```
//!
//! | purpose | label | signs |
//! |---|---|---|
//! | [`Purpose::Token`] | `nacre/gateway/token/1` | [`token::Claims`], a bearer token |
//! | [`Purpose::Code`] | `nacre/gateway/code/1` | [`code::Claims`], a one-time code |
//! | [`devtools_bearer`] | `nacre/devtools/bearer/1` | nothing: its hexadecimal digits are the bearer |
//!
//! The server has a secret of its own, of no session, and from it [`Purpose::User`]
//! (`nacre/server/user/1`) for [`user::Claims`].
//!
//! Tokens and codes are JSON Web Tokens with HS256 and nothing else. Everything here is pure: time and
//! randomness come in.

pub mod code;
mod compact;
pub mod token;
pub mod user;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Token,
    Code,
    User,
}

impl Purpose {
    pub fn label(self) -> &'static str {
        match self {
            Self::Token => "nacre/gateway/token/1",
            Self::Code => "nacre/gateway/code/1",
            Self::User => "nacre/server/user/1",
        }
    }
}

/// A key for one purpose. It cannot be printed.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// None for an empty secret: anybody could derive the same.
    pub fn derive(secret: &str, purpose: Purpose) -> Option<Self> {
        derive(secret, purpose.label()).map(|derived| Self(mac(&derived)))
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mac = self.0.clone().chain_update(message);
        mac.finalize().into_bytes().to_vec()
    }

    /// Takes as long for a wrong signature as for a right one.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let mac = self.0.clone().chain_update(message);
        mac.verify_slice(signature).is_ok()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

/// What opens the development tools' port. None for an empty secret.
pub fn devtools_bearer(secret: &str) -> Option<String> {
    let derived = derive(secret, "nacre/devtools/bearer/1")?;
    let digits = derived.iter().map(|byte| format!("{byte:02x}"));
    Some(digits.collect::<Vec<_>>().concat())
}

fn derive(secret: &str, label: &str) -> Option<[u8; 32]> {
    if secret.is_empty() {
        return None;
    }
    let mac = mac(secret.as_bytes()).chain_update(label);
    Some(mac.finalize().into_bytes().into())
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// Why something signed does not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not of the right form")]
    Malformed,
    #[error("not signed with HS256")]
    Algorithm,
    #[error("signed by somebody else")]
    Signature,
    #[error("names nobody")]
    Subject,
    #[error("of another session")]
    Session,
    #[error("for another purpose")]
    Audience,
    #[error("for another path")]
    Path,
    #[error("expired")]
    Expired,
    #[error("from the future")]
    Early,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_secret_gives_no_key() {
        assert!(Key::derive("", Purpose::Token).is_none());
        assert!(devtools_bearer("").is_none());
    }

    #[test]
    fn a_key_does_not_print() {
        let key = Key::derive("canary", Purpose::Token).unwrap();
        assert_eq!(format!("{key:?}"), "[key]");
    }

    /// Made with `openssl dgst -sha256 -hmac`, so that another implementation can be held against it.
    #[test]
    fn keys_are_derived_as_documented() {
        let secret = "a secret of 32 bytes, or so it is";
        let token = Key::derive(secret, Purpose::Token).unwrap();
        let code = Key::derive(secret, Purpose::Code).unwrap();
        assert_eq!(
            hex(&token.sign(b"message")),
            "7f963451be154c5a901aab4219a681436dcd3ac5703fd083be0bc44aaf325feb"
        );
        assert_eq!(
            hex(&code.sign(b"message")),
            "34d72cb48d8ac8360e46d71f20874d9b89747139bd43575a00f49b18a6559ff1"
        );
        assert_eq!(
            devtools_bearer(secret).unwrap(),
            "c78da38be67214a652cbffd02d995cd68ade06e867928955a271cb899135485b"
        );
    }

    fn hex(bytes: &[u8]) -> String {
        use std::fmt::Write as _;
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    }
}
