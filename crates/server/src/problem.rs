//! Errors as clients see them: `application/problem+json` with a stable code.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::session::{FaultCode, Refused};
use provider::ProviderError;
use sessions::HubError;
use wire::v1;

pub(crate) type Answer<T> = Result<T, Problem>;

/// Why a request was not done. What is internal is logged and not told.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            retry_after: None,
        }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    pub(crate) fn unauthorised() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorised",
            "send a token: `Authorization: Bearer nac_…`; `nacre token create` makes one",
        )
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// Also for what belongs to another organisation: whether it exists is not told.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not-found",
            format!("there is no such {what}"),
        )
    }

    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        problem.retry_after = Some(1);
        problem
    }

    pub(crate) fn throttled(seconds: u64, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", detail);
        problem.retry_after = Some(seconds);
        problem
    }

    /// For where there is no status any more: a socket that is open.
    pub(crate) fn refusal(self) -> gateway::Refusal {
        gateway::Refusal {
            code: self.code.to_owned(),
            message: self.detail,
        }
    }

    /// A fault of ours. The caller learns that it is one; the log learns which.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed for a reason of ours");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the server failed; its log says why",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = v1::Problem {
            r#type: "about:blank".to_owned(),
            title: title.to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.to_owned(),
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (self.status, [(header::CONTENT_TYPE, kind)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::conflict(refused.code(), refused.to_string())
    }
}

impl From<HubError> for Problem {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Refused(refused) => refused.into(),
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
            HubError::Store(error) => error.into(),
            HubError::NoProvider(name) => Self::invalid(format!(
                "no provider is called `{name}`: see GET /v1/providers"
            )),
            HubError::BadSpec(error) => Self::internal(error),
        }
    }
}

impl From<store::Error> for Problem {
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

impl From<ProviderError> for Problem {
    fn from(error: ProviderError) -> Self {
        match &error {
            ProviderError::NotFound { .. } => Self::not_found("sandbox or file in it"),
            ProviderError::Unsupported(_) => Self::new(
                StatusCode::NOT_IMPLEMENTED,
                "unsupported",
                error.to_string(),
            ),
            ProviderError::Refused { .. } => Self::conflict("provider-refused", error.to_string()),
            ProviderError::Throttled { .. } => Self::throttled(5, error.to_string()),
            ProviderError::Unavailable { .. } => Self::unavailable(error.to_string()),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large("the body is too long"),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "not-json",
                "send `Content-Type: application/json`",
            ),
            _ => Self::invalid(rejection.body_text()),
        }
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid(rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(_: PathRejection) -> Self {
        Self::not_found("thing")
    }
}
