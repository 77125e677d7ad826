use serde::{Deserialize, Serialize};

/// What a session's sandboxes may reach. Private addresses are refused under each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EgressPolicy {
    /// Every public host, on ports 80 and 443. For owners.
    Open,
    /// What is on the server's list and on the session's own.
    #[default]
    Proxy,
    /// Nothing. Models and git are reached all the same: they have doors of their own.
    None,
}

/// What a new session's sandboxes may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewEgress {
    /// The organisation's, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<EgressPolicy>,
    /// Under `proxy`, beyond what every sandbox may: `host`, `host:port`, `*.domain`.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// What a session's sandboxes may reach, and what they were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Egress {
    pub policy: EgressPolicy,
    /// For good, beyond what every sandbox may.
    pub allow: Vec<String>,
    /// For a time that is not over.
    pub once: Vec<EgressPass>,
    /// The newest first, each host and port once.
    pub blocked: Vec<EgressBlocked>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressPass {
    /// `host` or `host:port`.
    pub rule: String,
    pub until: String,
}

/// As `egress_blocked` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressBlocked {
    pub at: String,
    pub host: String,
    pub port: u16,
    /// `not-listed`, `port-not-listed`, or what its address is: `private`, `metadata`, `loopback`, …
    pub reason: String,
    /// Whether letting it through would help.
    pub can_allow: bool,
    /// More attempts that nobody was told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<u64>,
}

/// Lets a session's sandboxes reach a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AllowEgress {
    /// A name, or a public address.
    pub host: String,
    /// 80 and 443, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 65535))]
    pub port: Option<u16>,
    pub allow: Allow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Allow {
    /// For five minutes, in the sandbox that serves. What is open then is ended.
    Once,
    /// For as long as the session lives, and in its forks.
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AllowedEgress {
    /// `host` or `host:port`.
    pub rule: String,
    pub allow: Allow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether the sandbox that serves has it. If not, it gets it as soon as it can be reached.
    pub applied: bool,
}
