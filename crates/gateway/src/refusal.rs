//! Why something is not done: one spelling, for answers and for frames.

use hyper::StatusCode;
use model::session::FaultCode;
use provider::ProviderError;
use sessions::HubError;

use crate::inside::InsideError;

/// What is internal is logged and not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    /// Stable, for programs.
    pub code: &'static str,
    pub message: String,
    /// In seconds, where trying again may help.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub fn not_found(what: &str) -> Self {
        let message = format!("there is no such {what}");
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub fn throttled(seconds: u64, message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
        }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::later("unavailable", message)
    }

    /// Not now, and perhaps soon.
    pub(crate) fn later(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
        }
    }

    pub fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed by a fault of ours");
        let message = "something is wrong inside: the server's log says what";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl From<HubError> for Refusal {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Refused(refused) => Self::conflict(refused.code(), refused.to_string()),
            HubError::Failed(fault) => {
                let code = match fault.code {
                    FaultCode::Provider => "provider-failed",
                    FaultCode::Boot => "boot-failed",
                    FaultCode::DeadlinePassed => "deadline-passed",
                    FaultCode::OriginGone => "origin-gone",
                };
                Self::new(StatusCode::BAD_GATEWAY, code, fault.message)
            }
            HubError::Gone => Self::unavailable("the session is changing hands: try again"),
            HubError::NotHere => Self::new(
                StatusCode::MISDIRECTED_REQUEST,
                "other-role",
                error.to_string(),
            ),
            HubError::Store(error) => error.into(),
            HubError::NoProvider(name) => Self::invalid(format!(
                "no provider is called `{name}`: see GET /v1/providers"
            )),
            HubError::BadSpec(error) => Self::internal(error),
        }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        use store::Error as E;
        match error {
            E::NotFound(what) => Self::not_found(what),
            E::TooLarge { .. } => Self::too_large(error.to_string()),
            E::Full(_) => Self::throttled(5, error.to_string()),
            E::Misfit(_) => Self::invalid(error.to_string()),
            E::PromptMoved(_) => Self::conflict("prompt-moved", error.to_string()),
            E::Held { .. } | E::Fenced { .. } | E::Busy { .. } => {
                Self::unavailable("another process has the session: try again")
            }
            E::Unavailable { .. } | E::Closed => {
                tracing::error!(%error, "the database does not answer");
                Self::unavailable("the database does not answer: try again")
            }
            error => Self::internal(error),
        }
    }
}

impl From<ProviderError> for Refusal {
    fn from(error: ProviderError) -> Self {
        match &error {
            ProviderError::NotFound { .. } => Self::not_found("sandbox or file in it"),
            ProviderError::Unsupported(_) => Self::new(
                StatusCode::NOT_IMPLEMENTED,
                "unsupported",
                error.to_string(),
            ),
            ProviderError::Refused { .. } | ProviderError::Damaged { .. } => {
                Self::conflict("provider-refused", error.to_string())
            }
            ProviderError::Throttled { .. } => Self::throttled(5, error.to_string()),
            ProviderError::Unavailable { .. } => Self::unavailable(error.to_string()),
        }
    }
}

impl From<InsideError> for Refusal {
    fn from(error: InsideError) -> Self {
        let message = error.to_string();
        match error {
            InsideError::Said { status, .. } => said(status, message),
            InsideError::NoEdge => Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message),
            InsideError::TooLong => Self::too_large(message),
            InsideError::Path => Self::invalid(message),
            InsideError::Unreadable => {
                Self::new(StatusCode::BAD_GATEWAY, "inside-unreadable", message)
            }
            // The sandbox runs, and what is asked for in it does not.
            InsideError::Dial {
                source: ProviderError::Refused { .. },
                ..
            } => Self::conflict("sandbox-unreachable", message),
            InsideError::Dial { .. } | InsideError::Http(_) | InsideError::Late => {
                tracing::info!(%message, "the tools inside a sandbox do not answer");
                Self::later("sandbox-unreachable", message)
            }
        }
    }
}

/// In the words of the tools inside, with a code that is ours: theirs could be any.
fn said(status: u16, words: String) -> Refusal {
    match StatusCode::from_u16(status) {
        Ok(StatusCode::NOT_FOUND) => Refusal::new(StatusCode::NOT_FOUND, "not-found", words),
        Ok(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) => Refusal::invalid(words),
        Ok(StatusCode::CONFLICT) => Refusal::conflict("inside-conflict", words),
        Ok(StatusCode::PAYLOAD_TOO_LARGE) => Refusal::too_large(words),
        Ok(StatusCode::FORBIDDEN) => Refusal::forbidden(words),
        _ => Refusal::new(StatusCode::BAD_GATEWAY, "inside-failed", words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_chooses_neither_code_nor_status() {
        for (status, code) in [
            (404, "not-found"),
            (400, "invalid"),
            (409, "inside-conflict"),
            (401, "inside-failed"),
            (200, "inside-failed"),
            (9999, "inside-failed"),
        ] {
            let refusal = Refusal::from(InsideError::Said {
                status,
                message: "words".to_owned(),
            });
            assert_eq!((refusal.code, &*refusal.message), (code, "words"));
        }
    }
}
