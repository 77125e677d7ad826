//! Who gets in. What lets in is kept elsewhere; here it is read from requests, and taken out.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use hyper::{Response, StatusCode, Uri};

use super::Address;
use super::page::page;
use crate::answer::Body;

/// In an address: good once.
const CODE: &str = "nacre_code";
/// In an address that was given away: good until it expires.
const SHARE: &str = "nacre_share";

/// What somebody shows to be let in. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Cookie(String),
    Code(String),
    Share(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cookie(_) => "Cookie",
            Self::Code(_) => "Code",
            Self::Share(_) => "Share",
        })
    }
}

#[derive(Debug, Clone)]
pub struct Admitted {
    /// As the sandbox's own gateway is to know them.
    pub user: String,
    /// Whether a session that sleeps is woken for them.
    pub wakes: bool,
    /// For a code or a share: what lets in from now on, at this address alone.
    pub cookie: Option<NewCookie>,
}

#[derive(Clone)]
pub struct NewCookie {
    /// Of letters, digits, `.`, `_` and `-`.
    pub value: String,
    pub lasts: Duration,
}

impl fmt::Debug for NewCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewCookie")
            .field("lasts", &self.lasts)
            .finish_non_exhaustive()
    }
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was shown.
    SignIn,
    /// What was shown is not good, or not any more, or not here.
    Unknown,
    /// Too many bad tries.
    TooMany,
    /// Who decides cannot be asked now.
    Unavailable,
}

/// Decides who sees a preview.
#[async_trait]
pub trait Access: Send + Sync + fmt::Debug {
    /// A session that the credential does not belong to is [`Refusal::Unknown`], as one that does
    /// not exist.
    async fn admit(&self, to: Address, by: &Credential, from: IpAddr) -> Result<Admitted, Refusal>;
}

impl Refusal {
    pub(super) fn page(self) -> Response<Body> {
        let (status, message) = match self {
            Self::SignIn => (
                StatusCode::UNAUTHORIZED,
                "This preview is not public. Open it from Nacre, or by a link that was shared with you.",
            ),
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                "This link is not good any more. Open the preview from Nacre again.",
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too many tries. Wait a minute.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Nobody can be let in just now. Try again in a moment.",
            ),
        };
        page(status, message)
    }
}

pub(super) fn code_in(uri: &Uri) -> Option<Credential> {
    let pairs = uri.query()?.split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| {
            let value = value.to_owned();
            match name {
                CODE => Some(Credential::Code(value)),
                SHARE => Some(Credential::Share(value)),
                _ => None,
            }
        })
}

/// The same place, without what lets in. A path that begins with two slashes would lead elsewhere.
pub(super) fn without_code(uri: &Uri) -> String {
    let ours = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        name == CODE || name == SHARE
    };
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let rest: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty() && !ours(pair))
        .collect();
    if rest.is_empty() {
        path
    } else {
        format!("{path}?{}", rest.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_and_taken_out() {
        let uri: Uri = "/a/b?x=1&nacre_code=c0de&y=%20".parse().unwrap();
        assert_eq!(code_in(&uri), Some(Credential::Code("c0de".to_owned())));
        assert_eq!(without_code(&uri), "/a/b?x=1&y=%20");
        let alone: Uri = "/?nacre_share=s".parse().unwrap();
        assert_eq!(code_in(&alone), Some(Credential::Share("s".to_owned())));
        assert_eq!(without_code(&alone), "/");
    }

    #[test]
    fn nobody_is_led_to_another_host() {
        let uri: Uri = "//evil.example/?nacre_code=c".parse().unwrap_or_default();
        assert!(!without_code(&uri).starts_with("//"));
    }

    #[test]
    fn what_lets_in_is_not_printed() {
        let shown = format!("{:?}", Credential::Cookie("canary".to_owned()));
        assert!(!shown.contains("canary"));
    }
}
