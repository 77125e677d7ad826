use serde::{Deserialize, Serialize};

/// What was kept. `digest`, `bytes` and `files` follow when they are computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    pub snapshot: String,
    pub digest: Option<String>,
    pub bytes: Option<u64>,
    pub files: Option<u64>,
    /// `disk` or `memory`.
    pub kept: String,
    pub took_ms: Option<u64>,
    pub frozen_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotInfo {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    pub provider: String,
    /// `disk`, `base`, `memory` or `pause`.
    pub kind: String,
    /// Of a sandbox that died.
    pub recovered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub created_at: String,
    #[serde(flatten)]
    pub receipt: Receipt,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
