//! What comes out of an agent, in our words.
//!
//! Within a turn: [`Happening::TurnOpened`] first, parts after it, [`Happening::TurnDone`] last, and
//! nothing of that turn after it. Text comes as deltas with the byte offset at which each begins;
//! a whole part replaces whatever was known of it.

use std::fmt;

use model::{Id, Kind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::ChannelKey;
use crate::failure::Failure;
use crate::prompt::{ModelName, PromptId};

/// One answer of an agent.
#[derive(Debug, Clone, Copy)]
pub enum Turn {}
impl Kind for Turn {
    const PREFIX: &'static str = "msg";
}

/// A piece of an answer: a run of text or a tool call.
#[derive(Debug, Clone, Copy)]
pub enum Part {}
impl Kind for Part {
    const PREFIX: &'static str = "prt";
}

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

opaque! {
    /// The agent's own name of a conversation. Kept by the caller, given back with later prompts.
    SessionRef;
    /// The agent's own name of a prompt it took. Kept by the caller, given back to revert or diff.
    Mark;
    /// A question that waits for an answer.
    QuestionId;
    /// A permission that waits for a decision.
    PermissionId;
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    pub channel: ChannelKey,
    /// What the channel was at.
    #[serde(skip)]
    pub prompt: Option<PromptId>,
    #[serde(skip)]
    pub session: Option<SessionRef>,
    #[serde(flatten)]
    pub happening: Happening,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happening {
    /// The channel has another conversation with the agent from now on.
    SessionStarted {
        session: SessionRef,
        why: NewSession,
    },
    /// The agent has taken the prompt.
    PromptTaken {
        prompt: PromptId,
        mark: Mark,
        model: Option<ModelName>,
    },
    /// What was said in an audio attachment; belongs to the stored prompt.
    Transcribed {
        prompt: PromptId,
        text: String,
    },
    AgentStatus {
        status: Status,
    },
    TurnOpened {
        turn: Id<Turn>,
        prompt: PromptId,
    },
    PartDelta {
        turn: Id<Turn>,
        part: Id<Part>,
        kind: TextKind,
        /// Bytes of UTF-8 before this text. A delta never splits a character.
        offset: u64,
        text: String,
    },
    /// A part as it is now. Text parts come whole once, tool parts at each change of state.
    PartWhole {
        turn: Id<Turn>,
        part: Id<Part>,
        content: Content,
    },
    /// A picture that a tool brought: once, after the part of its call.
    Image {
        turn: Id<Turn>,
        prompt: PromptId,
        image: Image,
    },
    /// What was shown of this part does not count.
    PartRemoved {
        turn: Id<Turn>,
        part: Id<Part>,
    },
    /// What the answers to a prompt cost, those that failed too. Just before the end of the turn.
    Used {
        prompt: PromptId,
        by: Vec<UsedBy>,
    },
    TurnDone {
        turn: Id<Turn>,
        prompt: PromptId,
        reason: Reason,
        /// The text parts, joined in order.
        text: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        usage: Usage,
    },
    ModelSwitched {
        prompt: PromptId,
        from: ModelName,
        to: ModelName,
        why: Failure,
    },
    Question(Question),
    QuestionClosed {
        question: QuestionId,
        outcome: Outcome,
    },
    Permission(Permission),
    /// Also of those that were never shown, because the policy allows everything.
    PermissionClosed {
        permission: PermissionId,
        action: String,
        targets: Vec<String>,
        outcome: Outcome,
        by: DecidedBy,
    },
    FilesChanged {
        turn: Id<Turn>,
        files: Vec<ChangedFile>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewSession {
    /// The channel had none.
    First,
    /// The agent no longer knew the one it had; what we remember was told to the new one.
    Lost,
    Asked,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Status {
    Idle,
    Thinking,
    ToolCalling {
        tool: String,
    },
    Streaming,
    /// For a person: a question or a permission is open.
    Waiting,
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    Text,
    /// What the model said to itself. Not part of the answer.
    Reasoning,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Content {
    Text { text: String },
    Reasoning { text: String },
    Tool(Tool),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// Stable through the call's life.
    pub call: String,
    pub name: String,
    pub state: ToolState,
    pub args: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of the command that the tool ran, where it ran one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The part of the call that started a subagent, when it was that subagent that called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<Id<Part>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    pub media_type: String,
    /// Base 64.
    pub data: String,
    pub description: String,
}

/// Only ever goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    Pending,
    Running,
    Completed,
    Error,
}

impl ToolState {
    pub fn is_open(self) -> bool {
        matches!(self, ToolState::Pending | ToolState::Running)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    EndTurn,
    Error,
    Canceled,
}

/// Why a turn failed, and what was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnError {
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    pub failure: Failure,
}

/// One answer of the agent's, and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsedBy {
    /// The agent's own name of it.
    pub message: String,
    pub model: Option<ModelName>,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub reasoning: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    pub question: QuestionId,
    /// All of them are answered before the agent gets any.
    pub items: Vec<QuestionItem>,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QuestionItem {
    pub header: String,
    pub text: String,
    pub options: Vec<Choice>,
    pub choose: Choose,
    /// Whether an answer may be none of the options.
    pub free_text: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    One,
    Several,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub label: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Permission {
    pub permission: PermissionId,
    /// What kind of thing the agent wants to do, in its own word: `bash`, `edit`, …
    pub action: String,
    pub targets: Vec<String>,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    Answered {
        answers: Vec<Vec<String>>,
    },
    Allowed,
    Refused,
    Expired,
    /// The turn ended, or the agent forgot about it.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    Policy,
    Person,
    /// Nobody: time ran out, or the turn ended.
    Nobody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    pub path: String,
    pub change: Change,
    pub added: u64,
    pub removed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Added,
    Modified,
    Deleted,
}
