use serde::{Deserialize, Serialize};

use super::PromptUsage;
use crate::link::Attachment;

/// Something to ask the agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPrompt {
    /// The client's own: the same again is the same prompt, and never a second run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub content: String,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<serde_json::Value>))]
    pub attachments: Vec<Attachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tried in this order when the model fails.
    #[serde(default)]
    pub model_preferences: Vec<String>,
    /// As in `web:default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PromptMode>,
}

/// What a prompt does while another runs on its channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PromptMode {
    /// Waits.
    #[default]
    Followup,
    /// Ends the running one.
    Steer,
    /// Waits for others to be sent with.
    Collect,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PromptStatus {
    Queued,
    Dispatched,
    Accepted,
    /// Also when it was cancelled.
    Finished,
    Failed,
    /// Nobody knows how far it came; it is not run again under this id.
    Interrupted,
    /// A word that is newer than the reader.
    #[serde(other)]
    Unknown,
}

impl PromptStatus {
    pub fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Interrupted)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Prompt {
    pub id: String,
    pub status: PromptStatus,
    pub channel: String,
    pub mode: PromptMode,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What it took of models so far. Only where one prompt is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<PromptUsage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EditPrompt {
    pub content: String,
}
