//! Hub to runner: the link. Either side may dial; the runner always speaks first.
//!
//! ```text
//! runner   hello                                        which session, generation and boot, and what
//!                                                       it has that nobody acknowledged
//! hub      hello · init · agent_config                  which term, and what it has of that already
//! runner   what is in the journal · open parts whole · agent_status
//! both     frames as they come; the hub acknowledges numbered ones after its commit
//! ```
//!
//! Every frame is one JSON object with a `type`, at most [`MAX_LINK_FRAME`] bytes. At the link door
//! each is a line; elsewhere each is a WebSocket text message. A frame of the hub carries the `term`
//! of its owner ([`HubFrame`]); a frame of the runner carries `seq`, unless it is a greeting, a ping,
//! a delta, an open part or a remark about the conversation itself ([`RunnerFrame`]).
//!
//! A runner may be older than its hub by months, or newer: these types only grow. A field is added
//! with a default; a type that the other side does not know is ignored, or answered `unsupported`
//! when it carries a request id. `schema/link-1.json` is what protocol 1 looks like; a test compares.

mod boot;
mod change;
#[cfg(test)]
mod examples;
mod from_hub;
mod from_runner;
mod part;
mod prompt;
mod question;
mod read;
mod request;
#[cfg(test)]
mod schema;

pub use boot::{
    AgentConfig, Boot, Content, CustomProvider, EnvFile, EnvFormat, EnvKey, Freshness, GitIdentity,
    Instruction, Kind, Mcp, McpTransport, Model, ModelProvider, Permissions, Persona, Policy, Repo,
    Service, Skill, SkillFile, Transcriber,
};
pub use change::{Change, ChangedFile, Counts, FileDiff, FileFindings, Finding, Review, Severity};
pub use from_hub::{FromHub, GitRepo, GitVerb, HubHello, Seen};
pub use from_runner::{
    AgentStatus, FromRunner, Health, HealthKind, Hello, Offer, Phase, PhaseState, Port,
    PromptState, ServiceState, Standing, Tunnel, Usage, UsageEntry, Use, WorkflowResult,
    WorkflowStatus,
};
pub use part::{Image, Part, PartContent, Reason, Tool, ToolState, Whence};
pub use prompt::{Answer, Attachment, Author, Prompt, Source};
pub use question::{Choice, Choose, DecidedBy, Outcome, Permission, Question, QuestionItem};
pub use read::{Unreadable, Wrong, read, read_hub, read_runner, write};
pub use request::{
    Action, ActionAnswer, ActionsCall, Asked, Call, CreatePr, CreatedPr, EnvVariable, Failed,
    ReadUpload, RequestEnvVariables, SaveEnvFiles, SaveServiceCommands, SaveSnapshot,
    SavedSnapshot, Suggestion, UploadPiece, Verified, Verify, patience,
};

use serde::{Deserialize, Serialize};

/// Raised when a change cannot be understood by the other side; both settle on the lower.
pub const PROTOCOL: u32 = 1;

/// The largest frame, in bytes, either way. A longer one is refused, and the link lives.
pub const MAX_LINK_FRAME: usize = 1 << 20;

/// A prompt whose frame would be longer, in characters, brings its attachments by reference.
pub const MAX_INLINE: usize = 800_000;

/// The channel of a person who named none.
pub const DEFAULT_CHANNEL: &str = "web:default";

/// What a hub says, and by which right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HubFrame {
    /// Which owner of the session speaks. A runner does not hear a lower one than it has heard.
    pub term: u64,
    #[serde(flatten)]
    pub body: FromHub,
}

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunnerFrame {
    /// From 1, within a boot. Absent on what is neither kept nor acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The boot whose number that is, when it is an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_boot: Option<String>,
    #[serde(flatten)]
    pub body: FromRunner,
}

/// Why a connection was closed. At the link door it is the last line; elsewhere it goes into the
/// WebSocket's own close frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Close {
    pub code: u16,
    pub reason: String,
}

impl Close {
    pub const NORMAL: u16 = 1000;
    pub const REFUSED: u16 = 1008;
    pub const INTERNAL: u16 = 1011;

    pub const REPLACED: &str = "replaced";
    pub const STOPPED: &str = "session stopped";
    pub const PAUSING: &str = "pausing";
    pub const GONE: &str = "sandbox already gone";
    pub const SHUTTING_DOWN: &str = "runner shutting down";
    pub const INTERNAL_ERROR: &str = "internal error";
    pub const OTHER_SESSION: &str = "another session";
    pub const OLDER_GENERATION: &str = "older generation";
    pub const OLDER_TERM: &str = "older term";
    pub const OTHER_PROTOCOL: &str = "protocol not spoken here";
    pub const NO_HELLO: &str = "hello expected";

    pub fn normal(reason: &str) -> Self {
        Self {
            code: Self::NORMAL,
            reason: reason.to_owned(),
        }
    }

    pub fn refused(reason: &str) -> Self {
        Self {
            code: Self::REFUSED,
            reason: reason.to_owned(),
        }
    }
}

/// Something went wrong: with a prompt, or, without a number, with a frame of the other side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorFrame {
    /// Stable, for programs: one of the constants here, or the agent's own.
    pub code: String,
    /// For people.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Of the request that cannot be answered otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The `type` of the frame that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<String>,
}

impl ErrorFrame {
    pub const BAD_JSON: &str = "bad_json";
    pub const BAD_FRAME: &str = "bad_frame";
    pub const TOO_LONG: &str = "too_long";
    pub const UNSUPPORTED: &str = "unsupported";
    pub const OLDER_TERM: &str = "older_term";
    pub const OVERLOADED: &str = "overloaded";
    pub const JOURNAL_FULL: &str = "journal_full";
    pub const UNKNOWN_TURN: &str = "unknown_turn";

    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            prompt_id: None,
            channel: None,
            request_id: None,
            frame: None,
        }
    }
}

impl HubFrame {
    pub fn new(term: u64, body: FromHub) -> Self {
        Self { term, body }
    }
}

impl RunnerFrame {
    pub fn passing(body: FromRunner) -> Self {
        Self {
            seq: None,
            from_boot: None,
            body,
        }
    }

    pub fn numbered(seq: u64, body: FromRunner) -> Self {
        Self {
            seq: Some(seq),
            from_boot: None,
            body,
        }
    }
}
