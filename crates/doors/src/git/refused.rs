//! What the git door says itself, so that git shows it.

use std::time::Duration;

use hyper::StatusCode;

use super::address::{Address, AddressError, Verb};
use crate::content::{self, Answer};
use crate::gate::Full;

#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) message: String,
    wait: Option<Duration>,
    kind: &'static str,
}

/// Git shows a body of this kind after `remote:`.
const TEXT: &str = "text/plain; charset=utf-8";

impl Refused {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            wait: None,
            kind: TEXT,
        }
    }

    pub(super) fn answer(&self) -> Answer {
        let text = match self.kind {
            TEXT => format!("{}\n", self.message),
            _ => serde_json::json!({ "message": self.message }).to_string(),
        };
        let mut answer = content::say(self.status, self.kind, text);
        if let Some(wait) = self.wait {
            content::retry_after(&mut answer, wait);
        }
        answer
    }
}

impl From<AddressError> for Refused {
    fn from(error: AddressError) -> Self {
        let status = match error {
            AddressError::Form => StatusCode::NOT_FOUND,
            AddressError::LargeFiles => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::FORBIDDEN,
        };
        let mut refused = Refused::new(status, error.to_string());
        if error == AddressError::LargeFiles {
            refused.kind = "application/vnd.git-lfs+json";
        }
        refused
    }
}

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        let mut refused = Refused::new(StatusCode::TOO_MANY_REQUESTS, full.reason);
        refused.wait = Some(full.wait);
        refused
    }
}

/// The host said no: what that means here, and what to do.
pub(super) fn by_host(
    status: StatusCode,
    address: &Address,
    verb: Verb,
    had_token: bool,
    words: &str,
) -> Refused {
    let Address { host, repo, .. } = address;
    let what = match verb {
        Verb::Fetch => "fetch from",
        Verb::Push => "push to",
    };
    let set = format!("`nacre secret set --git {host}`");
    let (status, mut message) = match (status.as_u16(), had_token) {
        // Told 401, git would ask for a password, which nobody in a sandbox has.
        (401, false) => (
            StatusCode::FORBIDDEN,
            format!("{host} wants a token to {what} {repo}, and there is none; set one with {set}"),
        ),
        (401, true) => (
            StatusCode::FORBIDDEN,
            format!("{host} does not accept the token for {repo}; set a new one with {set}"),
        ),
        (403, false) => (
            StatusCode::FORBIDDEN,
            format!("{host} does not let everybody {what} {repo}; set a token with {set}"),
        ),
        (403, true) => (
            StatusCode::FORBIDDEN,
            format!(
                "the token for {host} may not {what} {repo}; give it that right, or set another with {set}"
            ),
        ),
        (404, false) => (
            StatusCode::NOT_FOUND,
            format!(
                "{host} has no repository {repo} for everybody; check its name, or set a token with {set}"
            ),
        ),
        (404, true) => (
            StatusCode::NOT_FOUND,
            format!(
                "{host} has no repository {repo} that the token can see; check its name, or the token's rights"
            ),
        ),
        _ => (
            status,
            format!("{host} answered {status} when asked to {what} {repo}"),
        ),
    };
    if !words.is_empty() {
        message = format!("{message}\n{host} says: {words}");
    }
    Refused::new(status, message)
}
