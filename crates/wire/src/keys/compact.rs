//! The compact form of a JSON Web Token: `header.claims.signature`, each in unpadded base64url.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Key, Refused};

/// Longer ones are refused before anything else is done with them.
pub(super) const MAX_LENGTH: usize = 4 << 10;

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Demands that we understand extensions; we know none.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

pub(super) fn sign(claims: &impl Serialize, key: &Key) -> String {
    let claims = serde_json::to_vec(claims).expect("our own types serialise");
    let mut text = URL_SAFE_NO_PAD.encode(br#"{"alg":"HS256","typ":"JWT"}"#);
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(claims, &mut text);
    let signature = key.sign(text.as_bytes());
    text.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut text);
    text
}

/// The claims, if they were signed with this key. Nothing is parsed that was not.
pub(super) fn open<T: DeserializeOwned>(text: &str, key: &Key) -> Result<T, Refused> {
    let (header, claims) = signed_parts(text, key)?;
    let header: Header = decode(header)?;
    if header.alg != "HS256" || header.crit.is_some() {
        return Err(Refused::Algorithm);
    }
    decode(claims)
}

/// Whether this was signed with the key, whatever it says.
pub(super) fn is_signed(text: &str, key: &Key) -> bool {
    signed_parts(text, key).is_ok()
}

fn signed_parts<'a>(text: &'a str, key: &Key) -> Result<(&'a str, &'a str), Refused> {
    if text.len() > MAX_LENGTH {
        return Err(Refused::Malformed);
    }
    let (message, signature) = text.rsplit_once('.').ok_or(Refused::Malformed)?;
    let (header, claims) = message.split_once('.').ok_or(Refused::Malformed)?;
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| Refused::Malformed)?;
    if !key.verify(message.as_bytes(), &signature) {
        return Err(Refused::Signature);
    }
    Ok((header, claims))
}

fn decode<T: DeserializeOwned>(part: &str) -> Result<T, Refused> {
    let json = URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| Refused::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| Refused::Malformed)
}
