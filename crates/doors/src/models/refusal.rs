//! What we say ourselves, in the form of the API that was asked.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;

use super::Limited;
use super::config::Api;
use crate::content::{self, Answer};

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) api: Api,
    pub(super) status: StatusCode,
    pub(super) message: String,
    pub(super) wait: Option<Duration>,
}

impl Refusal {
    pub(super) fn new(api: Api, status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            api,
            status,
            message: message.into(),
            wait: None,
        }
    }

    pub(super) fn limited(api: Api, limited: Limited) -> Self {
        match limited {
            Limited::Slow {
                reason,
                retry_after,
            } => Self::new(api, StatusCode::TOO_MANY_REQUESTS, reason).waiting(retry_after),
            // Not 429: clients wait and try again at one.
            Limited::Spent { reason } => Self::new(api, StatusCode::PAYMENT_REQUIRED, reason),
        }
    }

    pub(super) fn waiting(mut self, wait: impl Into<Option<Duration>>) -> Self {
        self.wait = wait.into();
        self
    }

    pub(super) fn answer(&self) -> Answer {
        let kind = self.kind();
        let message = &self.message;
        let body = match self.api {
            Api::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
            Api::OpenAi => json!({ "error": {
                "message": message, "type": kind, "param": null, "code": kind,
            } }),
        };
        let mut answer = content::say(self.status, "application/json", body.to_string());
        if let Some(wait) = self.wait {
            content::retry_after(&mut answer, wait);
        }
        answer
    }

    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            402 if self.api == Api::Anthropic => "billing_error",
            402 => "insufficient_quota",
            403 => "permission_error",
            404 | 405 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        }
    }
}
