//! Errors as clients see them: `application/problem+json` with a stable code.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gateway::{InsideError, Refusal};
use provider::ProviderError;
use sessions::HubError;
use wire::v1;

pub(crate) type Answer<T> = Result<T, Problem>;

/// Why a request was not done. What is internal is logged and not told.
#[derive(Debug)]
pub(crate) struct Problem(Refusal);

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Refusal::new(status, code, detail))
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self(Refusal::invalid(detail))
    }

    pub(crate) fn unauthorised() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorised",
            "send a token: `Authorization: Bearer nac_…`; `nacre token create` makes one",
        )
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self(Refusal::forbidden(detail))
    }

    /// Also for what belongs to another organisation: whether it exists is not told.
    pub(crate) fn not_found(what: &str) -> Self {
        Self(Refusal::not_found(what))
    }

    pub(crate) fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self(Refusal::conflict(code, detail))
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self(Refusal::too_large(detail))
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self(Refusal::unavailable(detail))
    }

    pub(crate) fn throttled(seconds: u64, detail: impl Into<String>) -> Self {
        Self(Refusal::throttled(seconds, detail))
    }

    /// For where there is no status any more: a socket that is open.
    pub(crate) fn refusal(self) -> Refusal {
        self.0
    }

    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self(Refusal::internal(error))
    }

    /// For those who hear of it in another way than by an answer.
    pub(crate) fn words(&self) -> &str {
        &self.0.message
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.0.status.canonical_reason().unwrap_or("Error");
        let body = v1::Problem {
            r#type: "about:blank".to_owned(),
            title: title.to_owned(),
            status: self.0.status.as_u16(),
            detail: self.0.message,
            code: self.0.code.to_owned(),
            request_id: telemetry::current().request.map(|id| id.to_string()),
        };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (self.0.status, [(header::CONTENT_TYPE, kind)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.0.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<HubError> for Problem {
    fn from(error: HubError) -> Self {
        Self(error.into())
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self(error.into())
    }
}

impl From<ProviderError> for Problem {
    fn from(error: ProviderError) -> Self {
        Self(error.into())
    }
}

impl From<InsideError> for Problem {
    fn from(error: InsideError) -> Self {
        Self(error.into())
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
