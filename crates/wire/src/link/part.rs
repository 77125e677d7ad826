//! Pieces of an answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Source;

/// A part as it is now. Without a number while it is `open`: deltas still go to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    pub message_id: String,
    pub part_id: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    pub content: PartContent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PartContent {
    Text {
        text: String,
    },
    /// What the model said to itself; not part of the answer.
    Reasoning {
        text: String,
    },
    Tool(Tool),
    /// Before the `finish` of a turn that failed.
    Error {
        message: String,
    },
    Finish {
        reason: Reason,
    },
    Image(Image),
    Audio {
        media_type: String,
        source: Source,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript: Option<String>,
    },
    Screenshot(Image),
    /// A new conversation begins here.
    Break,
    Forwarded(Whence),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tool {
    /// Stable through the call's life.
    pub call_id: String,
    pub name: String,
    pub status: ToolState,
    #[serde(default)]
    pub args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of the command that the tool ran, where it ran one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The part of the call that started the subagent that called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
}

/// Only ever goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    Pending,
    Running,
    Completed,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    EndTurn,
    Error,
    Canceled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Image {
    pub media_type: String,
    pub source: Source,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Where a forwarded message comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Whence {
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub role: String,
    /// RFC 3339.
    pub created_at: String,
    pub text: String,
}
