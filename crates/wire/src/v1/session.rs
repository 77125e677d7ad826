use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FaultInfo, NewEgress, Next, Receipt, SessionUsage};

/// What a user has, whatever happens to the sandboxes under it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    pub id: String,
    pub org_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    pub title: String,
    pub status: Status,
    /// What people are shown: a projection of the status and of what is under way.
    pub client_status: ClientStatus,
    /// What its agent does. Absent where none will ever do anything again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<AgentState>,
    pub r#type: SessionType,
    pub channel: String,
    pub provider: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default)]
    pub repos: Vec<NewRepo>,
    /// What its sandbox was started from: `session`, `prebuild`, `repo`, `base` or `bare`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    pub generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prebuild_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The snapshot that a fork began from. It stays, whatever becomes of either session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_snapshot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Degraded>,
    /// What of a session at rest is kept: `memory` (it wakes as it was) or `disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_url: Option<String>,
    /// How to log in while it runs: `nacre session ssh ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// Why the last start failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub created_at: String,
    pub last_active_at: String,
    /// The number of its newest event.
    pub last_seq: u64,
    /// Of its last start.
    #[serde(default)]
    pub phases: Vec<PhaseInfo>,
    /// What went wrong last, the newest first. Only where one session is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultInfo>,
    /// What to do now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// What it took of models, in answers to requests: frames do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<SessionUsage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Starting,
    Running,
    Migrating,
    Paused,
    Suspended,
    Stopped,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClientStatus {
    Creating,
    Resuming,
    Running,
    Migrating,
    Paused,
    Suspended,
    Degraded,
    Stopped,
    Error,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// A turn is under way.
    Busy,
    /// It has asked something, and goes on when a person answers.
    Waiting,
    Idle,
    /// Somebody wants something that it has not begun.
    Queued,
    /// Its sandbox is on its way.
    Waking,
    Sleeping,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SessionType {
    #[default]
    Coding,
    /// Makes a prebuild.
    Setup,
    Cli,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

/// A session that is less than it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Degraded {
    /// The snapshot that is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    pub lost: String,
    pub since: String,
}

/// A step of a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PhaseInfo {
    pub name: String,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// `started`, `done`, `failed` or `skipped`.
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What a session is to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSession {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<SessionType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prebuild_id: Option<String>,
    #[serde(default)]
    pub repos: Vec<NewRepo>,
    /// `local`, if nothing else is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// `opencode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// As in `anthropic/claude-sonnet-4-5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tried in this order when the model fails.
    #[serde(default)]
    pub model_preferences: Vec<String>,
    /// Runs once, when the session first runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// `web`, `cli`, `api`, `slack`, `discord`, `telegram` or `automation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// What its sandboxes may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<NewEgress>,
    /// Make its sandbox at once, and not when somebody connects.
    #[serde(default)]
    pub start: bool,
    /// For automations: written to `.nacre/trigger-context.json` in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
}

/// A repository to clone: from an address, or from an uploaded bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewRepo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A commit or tag to stand on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#ref: Option<String>,
    /// The id of an upload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Below the workspace; the last name of the address, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeSession {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// The answer of `pause` and `stop`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionWithReceipt {
    #[serde(flatten)]
    pub session: Session,
    /// Absent where nothing was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// One of the session's; its files as they are now, if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Consent to what a degraded session lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Recover {
    pub accept: bool,
}
