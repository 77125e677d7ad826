//! The server that commands talk to, and what its refusals mean to who typed them.

use client::{Bearer, Client, ClientError};

use crate::config;
use crate::error::{CommandError, Kind};

/// A client of the server that the environment names, or of the one on this machine.
pub(crate) fn connect() -> Result<Client, CommandError> {
    // Installed already by whoever came first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let remote = config::remote()?;
    let bearer = Bearer::new(remote.token.expose());
    Ok(Client::new(&remote.url, bearer)?)
}

/// A client of a server whose token is in a file.
pub(crate) fn connect_to(url: &str, token_file: &str) -> Result<Client, CommandError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let token = fs_err::read_to_string(token_file)?;
    Ok(Client::new(url, Bearer::new(token))?)
}

/// The exit code of a client's error, and the next step where its message has none.
pub(crate) fn classify(error: &ClientError) -> (Kind, Option<String>) {
    let (kind, hint) = match error {
        ClientError::BadUrl(_) => (Kind::Usage, "NACRE_URL names the server"),
        ClientError::BadToken => (Kind::Usage, "NACRE_TOKEN has it, if it is set"),
        ClientError::BadName(_) => (Kind::Usage, ""),
        ClientError::Refused { problem, .. } => refused(problem.status, &problem.code),
        ClientError::Unreachable { .. } => (
            Kind::Unavailable,
            "start one with `nacre up`; NACRE_URL names another",
        ),
        ClientError::Silent { .. }
        | ClientError::NotConnected
        | ClientError::TooManyWaiting { .. }
        | ClientError::Ended => (Kind::Unavailable, "try again"),
        ClientError::Protocol { .. } => (
            Kind::Failed,
            "is it another program? NACRE_URL names the server",
        ),
        _ => (Kind::Failed, ""),
    };
    (
        kind,
        Some(hint)
            .filter(|hint| !hint.is_empty())
            .map(str::to_owned),
    )
}

fn refused(status: u16, code: &str) -> (Kind, &'static str) {
    match status {
        400 | 415 | 422 => (Kind::Usage, ""),
        401 => (
            Kind::Refused,
            "NACRE_TOKEN has the token; without it, the one that `nacre up` stored is used",
        ),
        404 => (Kind::NotFound, ""),
        408 | 425 | 429 | 503 | 504 => (Kind::Unavailable, "try again in a moment"),
        500 => (Kind::Failed, "the server's own output says more"),
        502 if code.starts_with("http_") => (Kind::Unavailable, "try again in a moment"),
        502 => (Kind::Failed, "`nacre session why ID` tells what happened"),
        _ => (Kind::Refused, ""),
    }
}

#[cfg(test)]
mod tests {
    use wire::v1::Problem;

    use super::*;

    fn code_of(status: u16) -> u8 {
        let problem = Problem {
            r#type: "about:blank".to_owned(),
            title: "No".to_owned(),
            status,
            detail: "because".to_owned(),
            code: "no".to_owned(),
            request_id: None,
        };
        let error = ClientError::Refused {
            problem: Box::new(problem),
            retry_after: None,
        };
        CommandError::from(error).exit_code()
    }

    #[test]
    fn a_refusal_keeps_its_meaning_in_the_exit_code() {
        let cases = [
            (400, 2),
            (401, 4),
            (403, 4),
            (404, 3),
            (409, 4),
            (413, 4),
            (429, 5),
            (500, 1),
            (501, 4),
            (502, 1),
            (503, 5),
        ];
        for (status, code) in cases {
            assert_eq!(code_of(status), code, "{status}");
        }
    }

    #[test]
    fn no_server_says_what_to_start() {
        let error = ClientError::Unreachable {
            url: "http://127.0.0.1:7070".to_owned(),
            sent: false,
            source: "refused".into(),
        };
        let error = CommandError::from(error);
        assert_eq!(error.exit_code(), 5);
        assert!(error.hints()[0].contains("nacre up"));
    }
}
