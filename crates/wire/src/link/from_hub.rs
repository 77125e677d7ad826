//! What a hub says to its runner.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AgentConfig, Answer, Author, Boot, Close, Content, ErrorFrame, Prompt};

/// Those with a `request_id` are answered by it: with their own result, or with an `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromHub {
    Hello(HubHello),
    Init(Box<Boot>),
    /// Everything up to this number is committed and need not be kept.
    Ack {
        seq: u64,
        /// Of the boot whose numbers those are, when it is an earlier one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    Pong,
    Prompt(Box<Prompt>),
    /// Asked after a reconnect for each prompt that was dispatched and not accepted.
    PromptState {
        prompt_id: String,
    },
    /// Without a channel: on all of them.
    Cancel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    Answer {
        question_id: String,
        /// Which of several questions that were asked together.
        #[serde(default)]
        item: usize,
        /// Absent: nobody answered in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
    Permission {
        id: String,
        allow: bool,
    },
    Revert {
        message_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    Diff {
        request_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    Review {
        request_id: String,
        /// What to look for, besides the usual.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    Command {
        request_id: String,
        command: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    NewSession {
        request_id: String,
        channel: String,
    },
    AgentConfig(Box<AgentConfig>),
    Content(Content),
    /// Which repositories the git door gives, and for what; in place of what was said before.
    GitAccess {
        repos: Vec<GitRepo>,
    },
    TunnelDelete {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        actor: Option<Author>,
    },
    WorkflowExecute {
        execution_id: String,
        /// Run or resume, with its hash, token and decision.
        payload: Value,
        #[serde(default)]
        chain: Vec<String>,
    },
    /// Ends the turn, the agent and the services, and sends what is left. The sandbox is ended by
    /// its provider.
    Stop {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Answers a `request` of the runner.
    Result {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ok: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<super::Failed>,
    },
    /// The answer to a `request` takes a person: wait so much longer.
    Pending {
        id: String,
        wait_ms: u64,
    },
    /// A frame of the runner was refused.
    Error(ErrorFrame),
    Close(Close),
}

/// Answers a runner's hello. The term is the frame's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HubHello {
    pub session: String,
    pub generation: u64,
    /// The runner's, as it said it.
    pub boot: String,
    /// The lower of both.
    pub protocol: u32,
    /// How far the hub has what the runner offers; nothing of a boot that is not listed.
    #[serde(default)]
    pub seen: Vec<Seen>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Seen {
    pub boot: String,
    /// Everything up to this number.
    pub seq: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GitRepo {
    pub url: String,
    pub verbs: Vec<GitVerb>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GitVerb {
    Fetch,
    Push,
}

impl FromHub {
    /// What an answer has to name, whatever is asked.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::Diff { request_id, .. }
            | Self::Review { request_id, .. }
            | Self::Command { request_id, .. }
            | Self::NewSession { request_id, .. } => Some(request_id),
            Self::Revert { request_id, .. } => request_id.as_deref(),
            _ => None,
        }
    }
}
