//! Cookies that were given out, and to whom. In memory alone: after a restart everybody comes again
//! with a code or a token.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

pub(super) const COOKIE: &str = "__Host-gateway_session";

pub(super) const LIFE_SECONDS: u64 = 15 * 60;

const MAX_SESSIONS: usize = 1024;
/// A user with more of them loses the oldest, and nobody else does.
const MAX_OF_ONE_USER: usize = 32;

type Fingerprint = [u8; 32];

/// What a browser is to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cookie {
    pub(super) value: String,
    /// Seconds.
    left: u64,
}

impl Cookie {
    /// Previews are shown inside pages of another site, so it must come along from there; partitioned,
    /// it does so for the site alone in which it was set.
    pub(super) fn header(&self) -> String {
        format!(
            "{COOKIE}={}; Path=/; Max-Age={}; HttpOnly; Secure; SameSite=None; Partitioned",
            self.value, self.left
        )
    }
}

#[derive(Debug)]
struct Session {
    user: String,
    expires: u64,
    cookie: String,
    token: Option<Fingerprint>,
}

/// Sessions in the order in which they were opened, which is that in which they end.
///
/// They are looked up by fingerprint: how long that takes says nothing about a cookie.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    next: u64,
    open: BTreeMap<u64, Session>,
    by_cookie: HashMap<Fingerprint, u64>,
    by_token: HashMap<Fingerprint, u64>,
}

impl Sessions {
    pub(super) fn find(&self, cookie: &str, now: u64) -> Option<&str> {
        let number = self.by_cookie.get(&fingerprint(cookie))?;
        let session = self.open.get(number)?;
        (session.expires > now).then_some(session.user.as_str())
    }

    /// A token that comes again, as it does with every request of a client that keeps no cookies,
    /// gets the session that it opened.
    pub(super) fn open(
        &mut self,
        user: &str,
        token: Option<&str>,
        now: u64,
        random: [u8; 32],
    ) -> Cookie {
        self.sweep(now);
        let token = token.map(fingerprint);
        if let Some(cookie) = token.and_then(|token| self.opened_by(&token, now)) {
            return cookie;
        }
        self.make_room_for(user);
        let value = hex(&random);
        let number = self.next;
        self.next += 1;
        self.by_cookie.insert(fingerprint(&value), number);
        if let Some(token) = token {
            self.by_token.insert(token, number);
        }
        let session = Session {
            user: user.to_owned(),
            expires: now + LIFE_SECONDS,
            cookie: value.clone(),
            token,
        };
        self.open.insert(number, session);
        Cookie {
            value,
            left: LIFE_SECONDS,
        }
    }

    pub(super) fn sweep(&mut self, now: u64) {
        while let Some((number, session)) = self.open.first_key_value()
            && session.expires <= now
        {
            self.close(*number);
        }
    }

    fn opened_by(&self, token: &Fingerprint, now: u64) -> Option<Cookie> {
        let session = self.open.get(self.by_token.get(token)?)?;
        Some(Cookie {
            value: session.cookie.clone(),
            left: session.expires.checked_sub(now)?,
        })
    }

    fn make_room_for(&mut self, user: &str) {
        let mut theirs = self.open.iter().filter(|(_, session)| session.user == user);
        let oldest = theirs.next().map(|(number, _)| *number);
        if theirs.count() + 1 >= MAX_OF_ONE_USER
            && let Some(oldest) = oldest
        {
            self.close(oldest);
        }
        if self.open.len() >= MAX_SESSIONS
            && let Some((oldest, _)) = self.open.first_key_value()
        {
            self.close(*oldest);
        }
    }

    fn close(&mut self, number: u64) {
        let Some(session) = self.open.remove(&number) else {
            return;
        };
        self.by_cookie.remove(&fingerprint(&session.cookie));
        if let Some(token) = session.token {
            self.by_token.remove(&token);
        }
    }
}

fn fingerprint(text: &str) -> Fingerprint {
    Sha256::digest(text.as_bytes()).into()
}

fn hex(bytes: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn random(n: usize) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_be_bytes());
        bytes
    }

    fn sizes(sessions: &Sessions) -> [usize; 3] {
        [
            sessions.open.len(),
            sessions.by_cookie.len(),
            sessions.by_token.len(),
        ]
    }

    #[test]
    fn a_cookie_is_32_bytes_kept_from_scripts_and_other_hosts() {
        let cookie = Sessions::default().open("ada", None, NOW, [0xab; 32]);
        assert_eq!(cookie.value, "ab".repeat(32));
        insta::assert_snapshot!(
            cookie.header().replace(&cookie.value, "VALUE"),
            @"__Host-gateway_session=VALUE; Path=/; Max-Age=900; HttpOnly; Secure; SameSite=None; Partitioned"
        );
    }

    #[test]
    fn a_session_is_not_prolonged_by_use() {
        let mut sessions = Sessions::default();
        let cookie = sessions.open("ada", None, NOW, [1; 32]);
        for second in 0..LIFE_SECONDS {
            assert!(sessions.find(&cookie.value, NOW + second).is_some());
        }
        assert!(sessions.find(&cookie.value, NOW + LIFE_SECONDS).is_none());
    }

    #[test]
    fn the_same_token_again_gets_the_same_session_and_no_more_time() {
        let mut sessions = Sessions::default();
        let first = sessions.open("ada", Some("token"), NOW, [1; 32]);
        let second = sessions.open("ada", Some("token"), NOW + 10, [2; 32]);
        assert_eq!(second.value, first.value);
        assert_eq!(second.left, LIFE_SECONDS - 10);
        assert_eq!(sizes(&sessions), [1, 1, 1]);
    }

    #[test]
    fn ten_thousand_logins_later_nothing_is_left() {
        let mut sessions = Sessions::default();
        for n in 0..10_000 {
            let user = format!("user {n}");
            sessions.open(&user, Some(&user), NOW + n as u64 / 100, random(n));
            assert!(sizes(&sessions).iter().all(|size| *size <= MAX_SESSIONS));
        }
        sessions.sweep(NOW + 100 + LIFE_SECONDS);
        assert_eq!(sizes(&sessions), [0, 0, 0]);
    }

    #[test]
    fn a_user_with_many_sessions_pushes_out_none_but_their_own() {
        let mut sessions = Sessions::default();
        let other = sessions.open("grace", None, NOW, random(0));
        let first = sessions.open("ada", None, NOW, random(1));
        for n in 2..5_000 {
            sessions.open("ada", None, NOW, random(n));
        }
        assert!(sessions.find(&other.value, NOW).is_some());
        assert!(sessions.find(&first.value, NOW).is_none());
        assert_eq!(sessions.open.len(), MAX_OF_ONE_USER + 1);
    }
}
