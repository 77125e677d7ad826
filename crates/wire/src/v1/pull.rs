use serde::{Deserialize, Serialize};

/// A pull request that came out of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pull {
    pub number: u64,
    pub title: String,
    pub url: String,
    pub state: PullState,
    /// As in `github.com/owner/name`.
    pub repo: String,
    pub branch: String,
    pub base: String,
    pub created_at: String,
    /// When its forge was last asked.
    pub seen_at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PullState {
    Open,
    Closed,
    Merged,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPull {
    /// Below the workspace; not needed where the session has one repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// One that its forge has. If it is not said: the one that is checked out, which is pushed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The repository's default branch, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    pub title: String,
    #[serde(default)]
    pub body: String,
}
