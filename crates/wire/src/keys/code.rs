//! One-time codes: what the host puts into an address, so that a browser gets its cookie and the
//! address holds nothing that is worth stealing a minute later.
//!
//! A code is good once, for one user, below one path, for at most [`LIFE_SECONDS`]. That it is good
//! once is the gateway's business, which remembers those it took.

use serde::{Deserialize, Serialize};

use super::{Key, Refused, compact};

/// Where a code stands in an address. An application's own `code` is not ours to take.
pub const PARAMETER: &str = "nacre_code";

pub const LIFE_SECONDS: u64 = 60;

/// Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// The session.
    pub sid: String,
    /// Good for this path and those below it: `/` or `/vscode`.
    pub path: String,
    pub iat: u64,
    pub exp: u64,
    /// Makes it different from all others.
    pub jti: String,
}

impl Claims {
    /// What the host gives a user. The nonce is 16 random bytes.
    pub fn new(user: &str, session: &str, path: &str, nonce: [u8; 16], now: u64) -> Self {
        Self {
            sub: user.to_owned(),
            sid: session.to_owned(),
            path: path.to_owned(),
            iat: now,
            exp: now + LIFE_SECONDS,
            jti: format!("{:032x}", u128::from_be_bytes(nonce)),
        }
    }

    pub fn sign(&self, key: &Key) -> String {
        compact::sign(self, key)
    }
}

/// Where a code is shown.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub session: &'a str,
    pub path: &'a str,
    pub now: u64,
}

pub fn verify(code: &str, key: &Key, place: Place<'_>) -> Result<Claims, Refused> {
    let claims: Claims = compact::open(code, key)?;
    if claims.sub.is_empty() {
        return Err(Refused::Subject);
    }
    if claims.jti.is_empty() {
        return Err(Refused::Malformed);
    }
    if claims.sid != place.session {
        return Err(Refused::Session);
    }
    if place.now >= claims.exp {
        return Err(Refused::Expired);
    }
    // One with a longer life would have to be remembered for longer.
    if claims.iat > place.now || claims.exp > place.now + LIFE_SECONDS {
        return Err(Refused::Early);
    }
    if !is_below(place.path, &claims.path) {
        return Err(Refused::Path);
    }
    Ok(claims)
}

fn is_below(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix.trim_end_matches('/')) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Purpose;
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn key() -> Key {
        Key::derive("secret", Purpose::Code).unwrap()
    }

    fn claims(path: &str) -> Claims {
        Claims::new("ada", "ses_1", path, [7; 16], NOW)
    }

    fn shown(claims: &Claims, path: &str, now: u64) -> Result<Claims, Refused> {
        let session = "ses_1";
        verify(&claims.sign(&key()), &key(), Place { session, path, now })
    }

    #[test]
    fn a_code_is_good_below_its_path() {
        for (prefix, path) in [
            ("/", "/vscode/"),
            ("/vscode", "/vscode"),
            ("/vscode", "/vscode/a"),
            ("/vscode/", "/vscode/a"),
        ] {
            assert!(shown(&claims(prefix), path, NOW).is_ok(), "{prefix} {path}");
        }
    }

    #[test]
    fn a_code_is_good_nowhere_else() {
        for path in ["/", "/vscodex", "/vnc/", "/t/vscode/"] {
            let refused = shown(&claims("/vscode"), path, NOW);
            assert_eq!(refused, Err(Refused::Path), "{path}");
        }
    }

    #[test]
    fn a_code_is_good_for_a_minute() {
        let claims = claims("/");
        assert!(shown(&claims, "/", NOW + 59).is_ok());
        assert_eq!(shown(&claims, "/", NOW + 60), Err(Refused::Expired));
        assert_eq!(shown(&claims, "/", NOW - 1), Err(Refused::Early));
    }

    #[test]
    fn a_code_with_a_longer_life_is_not_taken() {
        let long = Claims {
            exp: NOW + 61,
            ..claims("/")
        };
        assert_eq!(shown(&long, "/", NOW), Err(Refused::Early));
    }

    #[test]
    fn a_code_of_another_session_is_not_taken() {
        let other = Claims {
            sid: "ses_2".to_owned(),
            ..claims("/")
        };
        assert_eq!(shown(&other, "/", NOW), Err(Refused::Session));
    }

    #[test]
    fn a_token_is_not_a_code() {
        let token = Key::derive("secret", Purpose::Token).unwrap();
        let place = Place {
            session: "ses_1",
            path: "/",
            now: NOW,
        };
        let refused = verify(&claims("/").sign(&token), &key(), place);
        assert_eq!(refused, Err(Refused::Signature));
    }
}
