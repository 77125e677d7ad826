//! What an agent's tools left with the server: evidence, actions, what a setup found out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::link::{EnvFile, Service};

/// A file that a session showed for its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    pub id: String,
    /// Below the folder that was shown.
    pub path: String,
    pub media_type: String,
    pub size: u64,
    /// As in `sha256:…`.
    pub digest: String,
    pub created_at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActionRisk {
    /// Nobody is asked.
    Read,
    Write,
    Danger,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActionStatus {
    /// Waits for a person.
    Pending,
    /// Is being done.
    Approved,
    Completed,
    Denied,
    Failed,
    /// Nobody decided in time.
    Expired,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

/// Something that an agent asked to have done outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Action {
    pub id: String,
    pub integration: String,
    pub action: String,
    #[serde(default)]
    pub params: Value,
    pub risk: ActionRisk,
    pub status: ActionStatus,
    /// Of one that is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it was denied, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A user's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
}

/// Something that an agent may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActionOffer {
    pub integration: String,
    pub action: String,
    pub description: String,
    pub risk: ActionRisk,
}

/// What can be asked for, and what was, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActionList {
    pub available: Vec<ActionOffer>,
    pub items: Vec<Action>,
    /// Given as `cursor` it leads to the next ones. Absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a person says to an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// For the agent: why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a setup session found out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Setup {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub services: Vec<Service>,
    /// Which keys, never which values.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub env_files: Vec<EnvFile>,
    /// Absent where nothing was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}
