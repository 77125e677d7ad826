//! Tokens of people at the server's own doors: who comes, for which organisation, until when. Signed
//! with a key that never leaves the server, so no sandbox's token is one, and none of these opens a
//! sandbox.

use serde::{Deserialize, Serialize};

use super::{Key, Refused, compact};

/// What they are for, all of them.
pub const AUDIENCE: &str = "v1";

/// How long one lives.
pub const LIFE_SECONDS: u64 = 15 * 60;

/// Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// The organisation.
    pub org: String,
    /// At most this, whatever the user may do by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// [`AUDIENCE`].
    pub aud: String,
    pub iat: u64,
    pub exp: u64,
}

impl Claims {
    pub fn new(user: &str, organisation: &str, now: u64) -> Self {
        Self {
            sub: user.to_owned(),
            org: organisation.to_owned(),
            role: None,
            aud: AUDIENCE.to_owned(),
            iat: now,
            exp: now + LIFE_SECONDS,
        }
    }

    pub fn sign(&self, key: &Key) -> String {
        compact::sign(self, key)
    }
}

pub fn verify(token: &str, key: &Key, now: u64) -> Result<Claims, Refused> {
    let claims: Claims = compact::open(token, key)?;
    if claims.aud != AUDIENCE {
        return Err(Refused::Audience);
    }
    if claims.sub.is_empty() || claims.org.is_empty() {
        return Err(Refused::Subject);
    }
    if now >= claims.exp {
        return Err(Refused::Expired);
    }
    // One with a longer life is none that we made.
    if claims.iat > now || claims.exp.saturating_sub(claims.iat) > LIFE_SECONDS {
        return Err(Refused::Early);
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::super::Purpose;
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn key() -> Key {
        Key::derive("secret", Purpose::User).unwrap()
    }

    fn claims() -> Claims {
        Claims::new("usr_1", "org_1", NOW)
    }

    /// Any header and any claims, with a right signature.
    fn signed(header: &str, claims: &str) -> String {
        let message = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = URL_SAFE_NO_PAD.encode(key().sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn refusal(token: &str) -> Refused {
        verify(token, &key(), NOW).unwrap_err()
    }

    #[test]
    fn a_token_lets_in_for_a_quarter_of_an_hour() {
        let token = claims().sign(&key());
        assert_eq!(verify(&token, &key(), NOW), Ok(claims()));
        assert!(verify(&token, &key(), NOW + LIFE_SECONDS - 1).is_ok());
        let late = verify(&token, &key(), NOW + LIFE_SECONDS);
        assert_eq!(late, Err(Refused::Expired));
        assert_eq!(verify(&token, &key(), NOW - 1), Err(Refused::Early));
    }

    #[test]
    fn a_token_without_signature_does_not_let_in() {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims()).unwrap());
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(refusal(&format!("{header}.{body}.")), Refused::Signature);
        assert_eq!(refusal(&format!("{header}.{body}")), Refused::Malformed);
    }

    #[test]
    fn another_algorithm_does_not_let_in_even_with_our_signature() {
        let body = serde_json::to_string(&claims()).unwrap();
        for alg in ["none", "None", "hs256", "HS384", "HS512", "RS256", "ES256"] {
            let token = signed(&format!(r#"{{"alg":"{alg}"}}"#), &body);
            assert_eq!(refusal(&token), Refused::Algorithm, "{alg}");
        }
        let critical = r#"{"alg":"HS256","crit":["exp"]}"#;
        assert_eq!(refusal(&signed(critical, &body)), Refused::Algorithm);
    }

    #[test]
    fn every_claim_must_be_there() {
        for missing in ["sub", "org", "aud", "iat", "exp"] {
            let mut value = serde_json::to_value(claims()).unwrap();
            value.as_object_mut().unwrap().remove(missing);
            let token = signed(r#"{"alg":"HS256"}"#, &value.to_string());
            assert_eq!(refusal(&token), Refused::Malformed, "{missing}");
        }
    }

    #[test]
    fn every_claim_must_be_right() {
        let with = |change: fn(&mut Claims)| {
            let mut claims = claims();
            change(&mut claims);
            claims
        };
        let wrong = [
            (Refused::Subject, with(|claims| claims.sub.clear())),
            (Refused::Subject, with(|claims| claims.org.clear())),
            (Refused::Audience, with(|claims| claims.aud.clear())),
            (
                Refused::Audience,
                with(|claims| claims.aud = "gateway".to_owned()),
            ),
            (Refused::Expired, with(|claims| claims.exp = NOW)),
            (Refused::Early, with(|claims| claims.iat = NOW + 1)),
            (Refused::Early, with(|claims| claims.exp += 1)),
            (Refused::Early, with(|claims| claims.exp = u64::MAX)),
            // Its end before its beginning.
            (
                Refused::Early,
                with(|claims| (claims.iat, claims.exp) = (u64::MAX, NOW + 1)),
            ),
        ];
        for (expected, claims) in wrong {
            assert_eq!(refusal(&claims.sign(&key())), expected, "{claims:?}");
        }
    }

    #[test]
    fn a_list_of_audiences_or_a_claim_said_twice_does_not_let_in() {
        let list = r#"{"sub":"u","org":"o","aud":["v1"],"iat":1800000000,"exp":1800000900}"#;
        let twice =
            r#"{"sub":"u","org":"x","org":"o","aud":"v1","iat":1800000000,"exp":1800000900}"#;
        for claims in [list, twice, "null", "[]", ""] {
            let token = signed(r#"{"alg":"HS256"}"#, claims);
            assert_eq!(refusal(&token), Refused::Malformed, "{claims}");
        }
    }

    #[test]
    fn what_was_signed_for_another_purpose_does_not_let_in() {
        for purpose in [Purpose::Token, Purpose::Code] {
            let other = Key::derive("secret", purpose).unwrap();
            assert_eq!(refusal(&claims().sign(&other)), Refused::Signature);
        }
    }

    proptest! {
        #[test]
        fn a_token_changed_anywhere_does_not_let_in(at in 0usize..300, to in any::<char>()) {
            let token = claims().sign(&key());
            let at = at % token.len();
            let changed: String = token
                .char_indices()
                .map(|(i, old)| if i == at { to } else { old })
                .collect();
            prop_assume!(changed != token);
            prop_assert!(verify(&changed, &key(), NOW).is_err());
        }

        #[test]
        fn nothing_makes_it_panic(token in "\\PC{0,200}") {
            prop_assert!(verify(&token, &key(), NOW).is_err());
        }
    }
}
