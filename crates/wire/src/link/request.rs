//! Questions of a runner that the hub answers: one shape for all kinds, with types for those that
//! exist now. A kind without a type is a name and JSON both ways.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EnvFile, Service};

/// The body of `request`. The same id again has no second effect, whatever the kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Asked {
    /// Never used twice.
    pub id: String,
    pub kind: String,
    #[serde(default)]
    pub payload: Value,
    /// Where the agent was when it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failed {
    /// Stable, for programs: `unsupported`, `refused`, `not_found`, …
    pub code: String,
    /// For the agent and people.
    pub message: String,
}

/// A kind of request with types of its own.
pub trait Call: Serialize + DeserializeOwned {
    const KIND: &'static str;
    type Answer: Serialize + DeserializeOwned;
}

/// How long an answer to this kind is waited for.
pub fn patience(kind: &str) -> Duration {
    let seconds = match kind {
        // A snapshot of a large workspace, and evidence on its way out, take their time.
        SaveSnapshot::KIND => 300,
        Verify::KIND => 120,
        "spawn_child" => 60,
        "terminate_child"
        | CreatePr::KIND
        | "update_pr"
        | RequestEnvVariables::KIND
        | SaveServiceCommands::KIND
        | SaveEnvFiles::KIND
        | ActionsCall::KIND
        | "list_tools"
        | "call_tool" => 30,
        _ => 15,
    };
    Duration::from_secs(seconds)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SaveSnapshot {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SavedSnapshot {
    pub snapshot_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

impl Call for SaveSnapshot {
    const KIND: &'static str = "save_snapshot";
    type Answer = SavedSnapshot;
}

/// Evidence that the work is done. The hub fetches the files itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verify {
    /// Below the workspace. Default: `.nacre/.verification`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    pub files: Vec<String>,
}

impl Call for Verify {
    const KIND: &'static str = "verify";
    type Answer = Verified;
}

/// Asks the person for values. They come into the sandbox by another way, later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestEnvVariables {
    pub keys: Vec<EnvVariable>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EnvVariable {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kept as a secret.
    #[serde(default)]
    pub secret: bool,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub suggestions: Vec<Suggestion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Suggestion {
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Call for RequestEnvVariables {
    const KIND: &'static str = "request_env_variables";
    type Answer = Value;
}

/// In setup sessions alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SaveServiceCommands {
    pub commands: Vec<Service>,
}

impl Call for SaveServiceCommands {
    const KIND: &'static str = "save_service_commands";
    type Answer = Value;
}

/// In setup sessions alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SaveEnvFiles {
    pub files: Vec<EnvFile>,
}

impl Call for SaveEnvFiles {
    const KIND: &'static str = "save_env_files";
    type Answer = Value;
}

/// A piece of something that was uploaded to the hub: large attachments are fetched in pieces, so
/// that no frame is long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadUpload {
    pub upload: String,
    /// In bytes.
    pub offset: u64,
    /// At most; the answer may be shorter.
    pub length: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UploadPiece {
    /// Base 64. Empty at the end.
    pub data: String,
    /// Of the whole, in bytes.
    pub size: u64,
}

impl Call for ReadUpload {
    const KIND: &'static str = "read_upload";
    type Answer = UploadPiece;
}

/// A pull request for a branch that its forge has. The hub opens it, with a token that stays outside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CreatePr {
    /// Below the workspace; not needed where the session has one repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    pub branch: String,
    pub title: String,
    #[serde(default)]
    pub body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CreatedPr {
    pub number: u64,
    pub url: String,
    pub title: String,
    /// `open`, `closed` or `merged`.
    pub state: String,
}

impl Call for CreatePr {
    const KIND: &'static str = "create_pr";
    type Answer = CreatedPr;
}

/// What the organisation lets an agent do outside. Some of it waits for a person's approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ActionsCall {
    List,
    Guide {
        integration: String,
    },
    Run(Action),
    /// Of one that waited for approval.
    Status {
        invocation: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Action {
    pub integration: String,
    pub action: String,
    #[serde(default)]
    pub params: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ActionAnswer {
    Completed {
        #[serde(default)]
        result: Value,
    },
    /// Ask for its status later.
    Pending {
        invocation: String,
    },
    Denied {
        message: String,
    },
    Failed {
        message: String,
    },
    Expired,
    #[serde(other)]
    Unknown,
}

impl Call for ActionsCall {
    const KIND: &'static str = "actions";
    type Answer = ActionAnswer;
}
