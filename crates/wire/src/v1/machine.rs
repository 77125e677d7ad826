//! What goes on in a session's sandbox, and what the server has to offer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    pub argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecAnswer {
    pub exit_code: i32,
    pub stdout: String,
    pub stderr: String,
    pub timed_out: bool,
    /// Not all that was printed is here.
    #[serde(default)]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileEntry {
    pub name: String,
    /// `file`, `directory`, `link` or `other`.
    pub kind: String,
    pub size: u64,
    pub mode: u32,
    pub modified_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileList {
    pub entries: Vec<FileEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortInfo {
    pub port: u16,
    /// `loopback` or `all`.
    pub reach: String,
    /// Where a browser finds it.
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortList {
    pub ports: Vec<PortInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_port: Option<u16>,
}

/// A port that somebody in the sandbox gave a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TunnelInfo {
    pub name: String,
    pub port: u16,
    /// `http`, `ws` or `auto`.
    pub protocol: String,
    /// Where a browser finds it.
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TunnelList {
    pub tunnels: Vec<TunnelInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceInfo {
    pub name: String,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `running`, `stopped`, `failed` or `restarting`.
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceList {
    pub services: Vec<ServiceInfo>,
}

/// Terminals that run in a sandbox, whether anybody looks or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TerminalList {
    pub terminals: Vec<TerminalInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TerminalInfo {
    pub name: String,
    pub rows: u16,
    pub columns: u16,
    /// How many look at it.
    pub viewers: usize,
    pub started_at: String,
    /// When somebody last typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_at: Option<String>,
}

/// Values that somebody was asked for. They never enter the transcript.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EnvValues {
    /// Of the `env_request` that is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub values: BTreeMap<String, String>,
    /// Those that are kept as secrets of the session.
    #[serde(default)]
    pub persist: Vec<String>,
}

impl std::fmt::Debug for EnvValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EnvValues")
            .field("id", &self.id)
            .field("keys", &self.values.keys())
            .finish_non_exhaustive()
    }
}

/// Something that was sent to be used later: a git bundle, an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Upload {
    pub upload_id: String,
    pub size: u64,
    /// SHA-256, in hexadecimal digits.
    pub digest: String,
    pub expires_at: String,
}

/// Something that runs sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderInfo {
    pub name: String,
    pub is_default: bool,
    pub healthy: bool,
    pub detail: String,
    /// `shared-kernel`, `user-kernel` or `microvm`.
    pub isolation: String,
    pub capabilities: Vec<String>,
    /// How long a sandbox lives at most, where the provider ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lifetime_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    pub providers: Vec<ProviderInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelInfo {
    /// As in `anthropic/claude-sonnet-4-5`.
    pub id: String,
    pub name: String,
    /// A key is there, or none is needed.
    pub available: bool,
    pub is_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    pub models: Vec<ModelInfo>,
}

/// Where a browser finds a part of a session, good once, for a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Endpoint {
    pub url: String,
    pub expires_at: String,
}

/// A link that lets anybody in who has it, to one port, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub port: u16,
    /// From now on; at most a week.
    pub expires_in_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareMade {
    pub id: String,
    pub url: String,
    pub expires_at: String,
}

/// What is known of a link that was given away; never the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareInfo {
    pub id: String,
    pub port: u16,
    /// Absent where a service made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}
