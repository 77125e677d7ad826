//! What a workplace is to become: sent with `init`, and changed later by `agent_config`, `content`
//! and `git_access`. Nothing in it is a key, a token or a value of a secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GitRepo;

/// The body of `init`. The same again changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Boot {
    #[serde(default)]
    pub kind: Kind,
    #[serde(default)]
    pub repos: Vec<Repo>,
    /// Of commits that no prompt's author made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_identity: Option<GitIdentity>,
    /// What the git door gives at first.
    #[serde(default)]
    pub git_access: Vec<GitRepo>,
    #[serde(default)]
    pub freshness: Freshness,
    #[serde(default)]
    pub content: Content,
    #[serde(default)]
    pub agent: AgentConfig,
    #[serde(default)]
    pub services: Vec<Service>,
    #[serde(default)]
    pub env_files: Vec<EnvFile>,
    /// Dependencies are installed: services may be started by themselves.
    #[serde(default)]
    pub has_deps: bool,
    /// Whose pages may open sockets and change things at the gateway, and show its own in a frame,
    /// beside those of the gateway's own host: `https://host:port`.
    #[serde(default)]
    pub origins: Vec<String>,
    /// The agent's conversation of each channel, as far as the hub knows.
    #[serde(default)]
    pub agent_sessions: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Coding,
    /// Makes a prebuild; it alone has the tools for that.
    Setup,
    Cli,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Repo {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A commit or tag to stand on.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "ref")]
    pub reference: Option<String>,
    /// An upload to clone from instead of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Below the workspace. Default: the last name of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GitIdentity {
    pub name: String,
    pub email: String,
}

/// Whether repositories are brought up to date when the workplace starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Freshness {
    #[serde(default)]
    pub pull_on_restore: bool,
    /// Not more often than this.
    #[serde(default)]
    pub cadence_s: u64,
    /// From a snapshot, so that there is something to bring up to date.
    #[serde(default)]
    pub restored: bool,
}

/// What the agent is given to read, besides its configuration. As the body of `content` it takes
/// the place of what was there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Content {
    #[serde(default)]
    pub personas: Vec<Persona>,
    #[serde(default)]
    pub skills: Vec<Skill>,
    #[serde(default)]
    pub instructions: Vec<Instruction>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Persona {
    pub name: String,
    pub content: String,
    #[serde(default)]
    pub order: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Skill {
    pub name: String,
    pub files: Vec<SkillFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SkillFile {
    /// Below the skill's own folder.
    pub path: String,
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Instruction {
    pub name: String,
    pub content: String,
}

/// How the agent is set up; the body of `agent_config`, too. It is restarted only when this makes a
/// difference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentConfig {
    /// Which agent: `opencode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model of prompts that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// For titles and other small things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// What the model door serves.
    #[serde(default)]
    pub providers: Vec<ModelProvider>,
    #[serde(default)]
    pub custom_providers: Vec<CustomProvider>,
    /// By the tool's name: on or off. Those not named are as the agent has them.
    #[serde(default)]
    pub tools: BTreeMap<String, bool>,
    #[serde(default)]
    pub permissions: Permissions,
    #[serde(default)]
    pub mcp: Vec<Mcp>,
    #[serde(default)]
    pub orchestrator: bool,
    /// What turns speech into text. Without it, audio is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcriber: Option<Transcriber>,
}

/// Something that speaks the transcription API of `OpenAI`. Its key, if it has one, is put on by the
/// model door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Transcriber {
    /// Up to and with the version, as in `http://127.0.0.1:4002/openai/v1`.
    pub base_url: String,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelProvider {
    /// The part of a model's name before the first slash.
    pub id: String,
    pub name: String,
    pub models: Vec<Model>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Model {
    /// As the provider calls it.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// In tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<u64>,
}

/// A provider with an address of its own. Its key, if it has one, is put on by the model door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CustomProvider {
    pub id: String,
    pub name: String,
    pub base_url: String,
    pub models: Vec<Model>,
}

/// What the agent may do without asking. A courtesy to the person, never a boundary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Permissions {
    #[serde(default)]
    pub default: Policy,
    /// By action, in the agent's own word: `bash`, `edit`, …
    #[serde(default)]
    pub by_action: BTreeMap<String, Policy>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    #[default]
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mcp {
    pub name: String,
    pub transport: McpTransport,
    #[serde(default)]
    pub options: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// A program inside the sandbox.
    Command {
        argv: Vec<String>,
    },
    Http {
        url: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Service {
    pub name: String,
    pub command: String,
    /// Below the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A file of secrets to be made at boot: which keys, never which values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvFile {
    /// The repository's folder below the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    pub path: String,
    #[serde(default)]
    pub format: EnvFormat,
    pub keys: Vec<EnvKey>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EnvFormat {
    #[default]
    Dotenv,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvKey {
    pub key: String,
    #[serde(default)]
    pub required: bool,
}
