use std::time::Duration;

use wire::v1::Problem;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why something was not done. [`ClientError::can_retry`] says whether it may yet be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    #[error("`{0}` is no address of a server; one looks like http://127.0.0.1:7070")]
    BadUrl(String),
    #[error("the token has characters that no token has; make another: `nacre token create`")]
    BadToken,
    #[error("`{0}` cannot be the name of anything there")]
    BadName(String),
    #[error("no cryptography is installed; the program installs rustls's `ring` provider first")]
    NoCryptography,
    #[error("the http client cannot be made")]
    Setup(#[source] BoxError),
    /// The server said no, and why.
    #[error("{}", .problem.detail)]
    Refused {
        problem: Box<Problem>,
        retry_after: Option<Duration>,
    },
    #[error("cannot reach {url}; if nothing runs there, start it: `nacre up`")]
    Unreachable {
        url: String,
        /// Something of it may have arrived.
        sent: bool,
        #[source]
        source: BoxError,
    },
    #[error("{url} did not answer within {} s", .waited.as_secs())]
    Silent { url: String, waited: Duration },
    #[error("what answers at {url} does not speak /v1: {detail}")]
    Protocol { url: String, detail: String },
    #[error("the answer is longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error("there is no connection, and this command is not kept for later")]
    NotConnected,
    #[error("{limit} commands wait for a connection already")]
    TooManyWaiting { limit: usize },
    #[error("the session is not followed any more")]
    Ended,
}

impl ClientError {
    /// Whether the same again can end better, without anybody changing anything.
    pub fn can_retry(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::NotConnected
            | Self::TooManyWaiting { .. } => true,
            Self::Refused { problem, .. } => is_passing(problem.status) || problem.code == RUNNING,
            _ => false,
        }
    }

    /// What the server said.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// The stable code of what the server said.
    pub fn code(&self) -> Option<&str> {
        Some(self.problem()?.code.as_str())
    }

    /// When the server wants to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Nothing of the request left this machine, so that sending it again does nothing twice.
    pub(crate) fn was_not_sent(&self) -> bool {
        matches!(self, Self::Unreachable { sent: false, .. })
    }
}

/// The first sending of the same call is still being done.
const RUNNING: &str = "request-running";

/// Of a server that is busy, starting or broken for now.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// What a refusal says; made up from the status where whoever answers does not speak of problems.
pub(crate) fn problem_of(status: u16, body: &[u8]) -> Problem {
    if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
        // The status that was really sent is the one that counts.
        return Problem { status, ..problem };
    }
    let title = reqwest::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("refused");
    Problem {
        r#type: "about:blank".to_owned(),
        title: title.to_owned(),
        status,
        detail: format!("the server answered {status} ({title}) and did not say why"),
        code: format!("http_{status}"),
        request_id: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &[u8]) -> ClientError {
        ClientError::Refused {
            problem: Box::new(problem_of(status, body)),
            retry_after: None,
        }
    }

    #[test]
    fn what_the_server_says_is_what_people_read() {
        let body = br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"it is stopped; fork it","code":"stopped"}"#;
        let error = refused(409, body);
        assert_eq!(error.to_string(), "it is stopped; fork it");
        assert_eq!(error.code(), Some("stopped"));
        assert!(!error.can_retry());
    }

    #[test]
    fn a_call_whose_first_sending_is_being_done_is_sent_again() {
        let body = br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"wait","code":"request-running"}"#;
        assert!(refused(409, body).can_retry());
    }

    #[test]
    fn a_page_of_somebody_else_is_not_shown() {
        let error = refused(502, b"<html>bad gateway</html>");
        assert_eq!(error.code(), Some("http_502"));
        assert!(!error.to_string().contains("html"));
        assert!(error.can_retry());
    }
}
