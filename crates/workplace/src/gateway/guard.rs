//! Who comes in. Pure: what was shown, the time and fresh randomness come in, a decision comes out,
//! and there is nothing to wait for in between, so that a code shown twice at once is taken once.

use std::collections::HashMap;

use wire::keys::{Key, Purpose, Refused, code, token};
use wire::workplace::Order;

use super::sessions::{Cookie, Sessions};

/// The bad try from which on they are no longer heard.
const MAX_TRIES: u32 = 20;

/// How long it takes until one bad try is forgotten.
const SECONDS_PER_TRY: u64 = 3;

/// Codes that were taken and could still be shown again. They are signed by the host and live a
/// minute: more than this in one is no user.
const MAX_SPENT: usize = 4096;

/// What decides who comes in. Without it nobody does.
#[derive(Debug)]
pub struct Access {
    session: String,
    token: Key,
    code: Key,
}

impl Access {
    /// None without a session or a secret.
    pub fn of(order: &Order) -> Option<Self> {
        let secret = order.secret.as_deref()?;
        Some(Self {
            session: order
                .session
                .clone()
                .filter(|session| !session.is_empty())?,
            token: Key::derive(secret, Purpose::Token)?,
            code: Key::derive(secret, Purpose::Code)?,
        })
    }
}

/// What a request shows at the door.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) cookie: Option<&'a str>,
    pub(super) code: Option<&'a str>,
    pub(super) bearer: Option<&'a str>,
    pub(super) path: &'a str,
}

#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) user: String,
    pub(super) way: Way,
}

#[derive(Debug)]
pub(super) enum Way {
    Cookie,
    /// With the cookie it was exchanged for.
    Code(Cookie),
    Bearer(Cookie),
    /// With a token for the link, which opens nothing else.
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error("nothing shown")]
    Missing,
    #[error("{0}")]
    Invalid(Why),
    /// Bad once more, after too many.
    #[error("too many bad tries")]
    TooMany,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Why {
    #[error("the gateway has no secret")]
    Closed,
    #[error("unknown or expired cookie")]
    Cookie,
    #[error("code {0}")]
    Code(Refused),
    #[error("code already used")]
    Spent,
    #[error("code older than the gateway")]
    Older,
    #[error("token {0}")]
    Token(Refused),
}

#[derive(Debug)]
pub(super) struct Guard {
    access: Option<Access>,
    started: u64,
    sessions: Sessions,
    spent: HashMap<String, u64>,
    tries: Tries,
}

impl Guard {
    pub(super) fn new(access: Option<Access>, now: u64) -> Self {
        Self {
            access,
            started: now,
            sessions: Sessions::default(),
            spent: HashMap::new(),
            tries: Tries::default(),
        }
    }

    /// Whom a cookie was given to, if it is one that lets in.
    pub(super) fn user_of(&self, cookie: &str, now: u64) -> Option<&str> {
        self.sessions.find(cookie, now)
    }

    /// To what is proxied: by cookie, else code, else bearer.
    pub(super) fn admit(
        &mut self,
        shown: Shown<'_>,
        now: u64,
        random: impl FnOnce() -> [u8; 32],
    ) -> Result<Admitted, Denied> {
        let mut why = None;
        if let Some(cookie) = shown.cookie {
            match self.sessions.find(cookie, now) {
                Some(user) => {
                    let user = user.to_owned();
                    return Ok(Admitted {
                        user,
                        way: Way::Cookie,
                    });
                }
                None => why = Some(Why::Cookie),
            }
        }
        if let Some(code) = shown.code {
            match self.spend(code, shown.path, now) {
                Ok(user) => {
                    let cookie = self.sessions.open(&user, None, now, random());
                    return Ok(Admitted {
                        user,
                        way: Way::Code(cookie),
                    });
                }
                Err(reason) => why = Some(reason),
            }
        }
        if let Some(token) = shown.bearer {
            match self.verify(token, token::Audience::Gateway, now) {
                Ok(claims) => {
                    let user = claims.sub;
                    let cookie = self.sessions.open(&user, Some(token), now, random());
                    return Ok(Admitted {
                        user,
                        way: Way::Bearer(cookie),
                    });
                }
                Err(reason) => why = Some(reason),
            }
        }
        Err(self.deny(why, now))
    }

    /// To the link: by a bearer made for it, and by nothing that a browser sends of itself.
    pub(super) fn admit_link(
        &mut self,
        bearer: Option<&str>,
        now: u64,
    ) -> Result<Admitted, Denied> {
        let verified = bearer.map(|token| self.verify(token, token::Audience::Link, now));
        match verified {
            Some(Ok(claims)) => Ok(Admitted {
                user: claims.sub,
                way: Way::Link,
            }),
            Some(Err(why)) => Err(self.deny(Some(why), now)),
            None => Err(self.deny(None, now)),
        }
    }

    /// Makes a code worthless whose bearer was let in by a cookie.
    pub(super) fn discard(&mut self, code: &str, path: &str, now: u64) {
        // Whether it was good is of no interest.
        let _ = self.spend(code, path, now);
    }

    /// Whether this is a token of ours, which no backend may see.
    pub(super) fn is_our_token(&self, token: &str) -> bool {
        let access = self.access.as_ref();
        access.is_some_and(|access| token::is_ours(token, &access.token))
    }

    /// Forgets what time has made worthless.
    pub(super) fn sweep(&mut self, now: u64) {
        self.sessions.sweep(now);
        self.spent.retain(|_, expires| *expires > now);
    }

    fn verify(
        &self,
        token: &str,
        audience: token::Audience,
        now: u64,
    ) -> Result<token::Claims, Why> {
        let access = self.access.as_ref().ok_or(Why::Closed)?;
        let session = &access.session;
        let place = token::Place {
            session,
            audience,
            now,
        };
        token::verify(token, &access.token, place).map_err(Why::Token)
    }

    fn spend(&mut self, code: &str, path: &str, now: u64) -> Result<String, Why> {
        let access = self.access.as_ref().ok_or(Why::Closed)?;
        let session = &access.session;
        let place = code::Place { session, path, now };
        let claims = code::verify(code, &access.code, place).map_err(Why::Code)?;
        // Which codes were taken is known since the start alone.
        if claims.iat < self.started {
            return Err(Why::Older);
        }
        if self.spent.len() >= MAX_SPENT {
            self.spent.retain(|_, expires| *expires > now);
        }
        if self.spent.len() >= MAX_SPENT || self.spent.contains_key(&claims.jti) {
            return Err(Why::Spent);
        }
        self.spent.insert(claims.jti, claims.exp);
        Ok(claims.sub)
    }

    fn deny(&mut self, why: Option<Why>, now: u64) -> Denied {
        let Some(why) = why else {
            return Denied::Missing;
        };
        match self.tries.fail(now) {
            Heard::Yes => Denied::Invalid(why),
            Heard::No => Denied::TooMany,
        }
    }
}

/// Bad tries. Good ones are always let in, so that nobody can lock others out.
#[derive(Debug, Default)]
struct Tries {
    failed: u32,
    /// Up to when they were forgotten.
    settled: u64,
}

enum Heard {
    Yes,
    No,
}

impl Tries {
    fn fail(&mut self, now: u64) -> Heard {
        let forgotten = now.saturating_sub(self.settled) / SECONDS_PER_TRY;
        if forgotten > 0 {
            self.failed = self
                .failed
                .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
            self.settled = now;
        }
        if self.failed + 1 >= MAX_TRIES {
            return Heard::No;
        }
        self.failed += 1;
        Heard::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::sessions::LIFE_SECONDS;
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn order(secret: Option<&str>) -> Order {
        Order {
            sandbox: "sbx_1".to_owned(),
            generation: 1,
            boot: "boot_1".to_owned(),
            session: Some("ses_1".to_owned()),
            link: None,
            secret: secret.map(str::to_owned),
            journal_key: None,
        }
    }

    fn guard() -> Guard {
        Guard::new(Access::of(&order(Some("secret"))), NOW)
    }

    fn token(user: &str) -> String {
        let key = Key::derive("secret", Purpose::Token).unwrap();
        token::Claims::new(user, "ses_1", token::Audience::Gateway, NOW).sign(&key)
    }

    fn code(nonce: u128) -> String {
        let key = Key::derive("secret", Purpose::Code).unwrap();
        code::Claims::new("ada", "ses_1", "/vscode", nonce.to_be_bytes(), NOW).sign(&key)
    }

    const NOTHING: Shown<'static> = Shown {
        cookie: None,
        code: None,
        bearer: None,
        path: "/vscode/",
    };

    fn with_code(code: &str) -> Shown<'_> {
        Shown {
            code: Some(code),
            ..NOTHING
        }
    }

    fn with_bearer(bearer: &str) -> Shown<'_> {
        Shown {
            bearer: Some(bearer),
            ..NOTHING
        }
    }

    #[test]
    fn without_a_secret_nobody_comes_in() {
        for secret in [None, Some("")] {
            let mut guard = Guard::new(Access::of(&order(secret)), NOW);
            for shown in [with_bearer(&token("ada")), with_code(&code(1))] {
                let denied = guard.admit(shown, NOW, || [0; 32]).unwrap_err();
                assert_eq!(denied, Denied::Invalid(Why::Closed));
            }
            assert!(guard.admit_link(Some("x"), NOW).is_err());
        }
    }

    #[test]
    fn without_a_session_nobody_comes_in() {
        for session in [None, Some(String::new())] {
            let order = Order {
                session,
                ..order(Some("secret"))
            };
            assert!(Access::of(&order).is_none());
        }
    }

    #[test]
    fn a_cookie_is_good_for_its_time_and_no_longer() {
        let mut guard = guard();
        let bearer = token("ada");
        let admitted = guard.admit(with_bearer(&bearer), NOW, || [7; 32]).unwrap();
        let Way::Bearer(cookie) = admitted.way else {
            panic!("{admitted:?}");
        };
        let shown = Shown {
            cookie: Some(&cookie.value),
            ..NOTHING
        };
        let last = NOW + LIFE_SECONDS - 1;
        assert_eq!(guard.admit(shown, last, || [0; 32]).unwrap().user, "ada");
        let denied = guard.admit(shown, last + 1, || [0; 32]).unwrap_err();
        assert_eq!(denied, Denied::Invalid(Why::Cookie));
    }

    #[test]
    fn a_bad_cookie_does_not_spoil_a_good_bearer() {
        let bearer = token("ada");
        let shown = Shown {
            cookie: Some("bad"),
            ..with_bearer(&bearer)
        };
        assert!(guard().admit(shown, NOW, || [0; 32]).is_ok());
    }

    #[test]
    fn a_code_is_good_once() {
        let mut guard = guard();
        let code = code(1);
        assert!(guard.admit(with_code(&code), NOW, || [0; 32]).is_ok());
        let denied = guard
            .admit(with_code(&code), NOW + 1, || [0; 32])
            .unwrap_err();
        assert_eq!(denied, Denied::Invalid(Why::Spent));
    }

    #[test]
    fn a_code_from_before_the_start_may_have_been_used_and_is_refused() {
        let mut guard = Guard::new(Access::of(&order(Some("secret"))), NOW + 1);
        let denied = guard
            .admit(with_code(&code(1)), NOW + 1, || [0; 32])
            .unwrap_err();
        assert_eq!(denied, Denied::Invalid(Why::Older));
    }

    #[test]
    fn spent_codes_are_forgotten_once_they_are_worthless() {
        let mut guard = guard();
        for nonce in 0..100 {
            guard
                .admit(with_code(&code(nonce)), NOW, || [0; 32])
                .unwrap();
        }
        guard.sweep(NOW + code::LIFE_SECONDS);
        assert!(guard.spent.is_empty());
    }

    #[test]
    fn when_no_more_codes_can_be_remembered_none_is_taken() {
        let mut guard = guard();
        for nonce in 0..MAX_SPENT {
            guard.spent.insert(format!("{nonce}"), NOW + 60);
        }
        assert!(guard.admit(with_code(&code(1)), NOW, || [0; 32]).is_err());
    }

    #[test]
    fn the_link_opens_to_its_own_token_alone() {
        let mut guard = guard();
        let key = Key::derive("secret", Purpose::Token).unwrap();
        let link = token::Claims::new("hub", "ses_1", token::Audience::Link, NOW).sign(&key);
        assert!(guard.admit_link(Some(&link), NOW).is_ok());
        assert!(guard.admit_link(Some(&token("ada")), NOW).is_err());
        assert_eq!(guard.admit_link(None, NOW).unwrap_err(), Denied::Missing);
        assert!(guard.admit(with_bearer(&link), NOW, || [0; 32]).is_err());
    }

    #[test]
    fn the_twentieth_bad_try_is_no_longer_heard_and_a_good_one_still_is() {
        let mut guard = guard();
        for _ in 0..19 {
            let denied = guard
                .admit(with_bearer("bad"), NOW, || [0; 32])
                .unwrap_err();
            assert!(matches!(denied, Denied::Invalid(_)));
        }
        let denied = guard
            .admit(with_bearer("bad"), NOW, || [0; 32])
            .unwrap_err();
        assert_eq!(denied, Denied::TooMany);
        assert!(
            guard
                .admit(with_bearer(&token("ada")), NOW, || [0; 32])
                .is_ok()
        );
        let later = NOW + SECONDS_PER_TRY;
        let denied = guard
            .admit(with_bearer("bad"), later, || [0; 32])
            .unwrap_err();
        assert!(matches!(denied, Denied::Invalid(_)));
    }

    #[test]
    fn nothing_shown_is_no_try() {
        let mut guard = guard();
        for _ in 0..100 {
            let denied = guard.admit(NOTHING, NOW, || [0; 32]).unwrap_err();
            assert_eq!(denied, Denied::Missing);
        }
    }
}
