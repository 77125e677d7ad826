//! Bearer tokens: who comes, to which session, for what, until when.

use serde::{Deserialize, Serialize};

use super::{Key, Refused, compact};

/// How long a token lives that the host makes.
pub const LIFE_SECONDS: u64 = 15 * 60;

/// The user in tokens for our own probes, which do not count as use of a sandbox.
pub const PROBE: &str = "nacre:probe";

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// What the gateway proxies.
    Gateway,
    /// The hub's end of the link.
    Link,
}

impl Audience {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Link => "link",
        }
    }
}

/// Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The user.
    pub sub: String,
    /// The session.
    pub sid: String,
    /// An [`Audience`]'s name.
    pub aud: String,
    pub exp: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
}

impl Claims {
    /// What the host gives a user.
    pub fn new(user: &str, session: &str, audience: Audience, now: u64) -> Self {
        Self {
            sub: user.to_owned(),
            sid: session.to_owned(),
            aud: audience.name().to_owned(),
            exp: now + LIFE_SECONDS,
            nbf: None,
            iat: Some(now),
        }
    }

    pub fn sign(&self, key: &Key) -> String {
        compact::sign(self, key)
    }
}

/// Where a token is shown.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub session: &'a str,
    pub audience: Audience,
    pub now: u64,
}

/// There is no leeway: host and sandbox share a clock, or the host sets `iat` back.
pub fn verify(token: &str, key: &Key, place: Place<'_>) -> Result<Claims, Refused> {
    let claims: Claims = compact::open(token, key)?;
    if claims.sub.is_empty() {
        return Err(Refused::Subject);
    }
    if claims.sid != place.session {
        return Err(Refused::Session);
    }
    if claims.aud != place.audience.name() {
        return Err(Refused::Audience);
    }
    if place.now >= claims.exp {
        return Err(Refused::Expired);
    }
    if claims.nbf.max(claims.iat) > Some(place.now) {
        return Err(Refused::Early);
    }
    Ok(claims)
}

/// Whether this is a token of ours, valid or not: it must not travel on.
pub fn is_ours(token: &str, key: &Key) -> bool {
    compact::is_signed(token, key)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::super::Purpose;
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const HERE: Place<'static> = Place {
        session: "ses_1",
        audience: Audience::Gateway,
        now: NOW,
    };

    fn key() -> Key {
        Key::derive("secret", Purpose::Token).unwrap()
    }

    fn claims() -> Claims {
        Claims::new("ada", "ses_1", Audience::Gateway, NOW)
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
        verify(token, &key(), HERE).unwrap_err()
    }

    #[test]
    fn a_token_of_this_session_lets_in() {
        let token = claims().sign(&key());
        assert_eq!(verify(&token, &key(), HERE), Ok(claims()));
    }

    /// Made by another implementation (Python, `hmac`): header {"alg":"HS256","typ":"JWT"}.
    #[test]
    fn a_token_made_elsewhere_lets_in() {
        let token = concat!(
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiAiYWRhIiwgInNp",
            "ZCI6ICJzZXNfMSIsICJhdWQiOiAiZ2F0ZXdheSIsICJleHAiOiAxODAwMDAwO",
            "TAwLCAiaWF0IjogMTgwMDAwMDAwMH0.t9oPsI0zIfaxTUML9tA49tPKaG96YJ",
            "5f-wR_CABZq1A",
        );
        assert_eq!(verify(token, &key(), HERE), Ok(claims()));
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
        assert_eq!(refusal(&signed("{}", &body)), Refused::Malformed);
        let critical = r#"{"alg":"HS256","crit":["exp"]}"#;
        assert_eq!(refusal(&signed(critical, &body)), Refused::Algorithm);
    }

    #[test]
    fn every_claim_must_be_there() {
        for missing in ["sub", "sid", "aud", "exp"] {
            let mut value = serde_json::to_value(claims()).unwrap();
            value.as_object_mut().unwrap().remove(missing);
            let token = signed(r#"{"alg":"HS256"}"#, &value.to_string());
            assert_eq!(refusal(&token), Refused::Malformed, "{missing}");
        }
    }

    #[test]
    fn every_claim_must_be_right() {
        let wrong = [
            (
                Refused::Subject,
                Claims {
                    sub: String::new(),
                    ..claims()
                },
            ),
            (
                Refused::Session,
                Claims {
                    sid: "ses_2".to_owned(),
                    ..claims()
                },
            ),
            (
                Refused::Session,
                Claims {
                    sid: String::new(),
                    ..claims()
                },
            ),
            (
                Refused::Audience,
                Claims {
                    aud: "link".to_owned(),
                    ..claims()
                },
            ),
            (
                Refused::Expired,
                Claims {
                    exp: NOW,
                    ..claims()
                },
            ),
            (Refused::Expired, Claims { exp: 0, ..claims() }),
            (
                Refused::Early,
                Claims {
                    nbf: Some(NOW + 1),
                    ..claims()
                },
            ),
            (
                Refused::Early,
                Claims {
                    iat: Some(NOW + 1),
                    ..claims()
                },
            ),
        ];
        for (expected, claims) in wrong {
            assert_eq!(refusal(&claims.sign(&key())), expected, "{claims:?}");
        }
    }

    #[test]
    fn a_claim_of_another_kind_does_not_let_in() {
        let twice = r#"{"sub":"ada","sid":"ses_2","sid":"ses_1","aud":"gateway","exp":1800000900}"#;
        let list = r#"{"sub":"ada","sid":"ses_1","aud":["gateway"],"exp":1800000900}"#;
        let words = r#"{"sub":"ada","sid":"ses_1","aud":"gateway","exp":"1800000900"}"#;
        let negative = r#"{"sub":"ada","sid":"ses_1","aud":"gateway","exp":-1}"#;
        for claims in [twice, list, words, negative, "null", "[]", ""] {
            let token = signed(r#"{"alg":"HS256"}"#, claims);
            assert_eq!(refusal(&token), Refused::Malformed, "{claims}");
        }
    }

    #[test]
    fn a_code_is_not_a_token() {
        let code = Key::derive("secret", Purpose::Code).unwrap();
        assert_eq!(refusal(&claims().sign(&code)), Refused::Signature);
    }

    #[test]
    fn a_giant_is_refused_before_it_is_looked_at() {
        let giant = Claims {
            sub: "a".repeat(8 << 10),
            ..claims()
        };
        assert_eq!(refusal(&giant.sign(&key())), Refused::Malformed);
    }

    #[test]
    fn an_expired_token_is_still_known_as_ours() {
        let expired = Claims { exp: 1, ..claims() };
        assert!(is_ours(&expired.sign(&key()), &key()));
        assert!(!is_ours("a.b.c", &key()));
    }

    proptest! {
        #[test]
        fn a_token_changed_anywhere_does_not_let_in(at in 0usize..200, to in any::<char>()) {
            let token = claims().sign(&key());
            let at = at % token.len();
            let changed: String = token
                .char_indices()
                .map(|(i, old)| if i == at { to } else { old })
                .collect();
            prop_assume!(changed != token);
            prop_assert!(verify(&changed, &key(), HERE).is_err());
        }

        #[test]
        fn a_token_cut_short_does_not_let_in(length in 0usize..200) {
            let token = claims().sign(&key());
            let length = length % token.len();
            prop_assert!(verify(&token[..length], &key(), HERE).is_err());
        }

        #[test]
        fn nothing_makes_it_panic(token in "\\PC{0,200}") {
            prop_assert!(verify(&token, &key(), HERE).is_err());
        }
    }
}
