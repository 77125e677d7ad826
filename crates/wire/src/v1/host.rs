//! The machine under the sessions, for those who look after it.

use serde::{Deserialize, Serialize};

use super::EgressPolicy;

/// What is on the disk of the machine that runs sandboxes, of all organisations together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Storage {
    pub sandboxes: StoragePart,
    pub layers: StoragePart,
    pub snapshots: StoragePart,
    /// What was removed and is not gone yet.
    pub trash: StoragePart,
    pub programs: StoragePart,
    pub records: StoragePart,
    pub total_bytes: u64,
    pub free_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoragePart {
    pub count: u64,
    pub bytes: u64,
}

/// Whether the machine can run sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Doctor {
    /// Nothing is missing.
    pub ok: bool,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    pub name: String,
    pub status: FindingStatus,
    pub found: String,
    /// What to do, when something is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FindingStatus {
    Ok,
    /// Neither good nor bad: sandboxes run with it and without it.
    Info,
    /// Works, with less.
    Warning,
    /// Sandboxes cannot run.
    Missing,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

/// What sessions of an organisation reach that say nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressDefaults {
    pub policy: EgressPolicy,
    /// On the list of every session, as the server is configured.
    pub allow: Vec<String>,
    /// What every sandbox with a list reaches: package registries, git hosts, and what the machine is
    /// configured with.
    pub everywhere: Vec<String>,
}
