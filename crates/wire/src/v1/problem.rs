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
