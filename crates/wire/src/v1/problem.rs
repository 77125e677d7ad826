use serde::{Deserialize, Serialize};

/// Why something was not done: `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `about:blank`: the code says which problem it is.
    pub r#type: String,
    /// The status in words.
    pub title: String,
    pub status: u16,
    /// For people: what is wrong, and what to do next.
    pub detail: String,
    /// Stable, for programs.
    pub code: String,
    /// Names the request in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Every `code` of a problem and of an `error` frame. One that is here stays, and means the same.
pub const CODES: &[&str] = &[
    "action-decided",
    "action-expired",
    "answer-not-kept",
    "bad-code",
    "bad-frame",
    "boot-failed",
    "busy",
    "deadline-passed",
    "egress-none",
    "egress-private",
    "forbidden",
    "foreign-host",
    "forge-unavailable",
    "idempotency-key-used",
    "inside-conflict",
    "inside-failed",
    "inside-unreadable",
    "internal",
    "invalid",
    "last-owner",
    "member-changed",
    "method-not-allowed",
    "no-remote",
    "not-a-forge",
    "not-a-repo",
    "not-configured",
    "not-found",
    "not-json",
    "not-prepared",
    "origin-gone",
    "other-role",
    "prompt-moved",
    "provider-failed",
    "provider-refused",
    "pull-refused",
    "rate-limited",
    "repository-known",
    "request-running",
    "sandbox-unreachable",
    "session-degraded",
    "session-migrating",
    "session-not-degraded",
    "session-not-in-place",
    "session-not-running",
    "session-not-suspended",
    "session-pausing",
    "session-stopped",
    "session-suspended",
    "session-waking",
    "shutting-down",
    "silent",
    "snapshot-in-use",
    "token-refused",
    "too-large",
    "too-many",
    "too-many-members",
    "too-many-organisations",
    "too-many-sockets",
    "too-many-tokens",
    "unauthorised",
    "unavailable",
    "unsupported",
    "upgrade-required",
    "which-repo",
];
