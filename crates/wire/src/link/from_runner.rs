//! What a runner says to its hub. To the hub it is as hostile as the agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Asked, ChangedFile, Close, DecidedBy, ErrorFrame, FileDiff, Image, ModelProvider, Outcome,
    Part, PartContent, Permission, Question, Reason, Review,
};

/// Frames name their prompt and channel; nothing is said about "the active one".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromRunner {
    Hello(Hello),
    Ping,

    /// Opens an answer, empty.
    Message {
        message_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<String>,
        channel: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_session: Option<String>,
    },
    /// From memory, neither numbered nor kept.
    #[serde(rename = "part.delta")]
    PartDelta {
        message_id: String,
        part_id: String,
        /// Bytes of UTF-8 before this text. No character is split.
        offset: u64,
        text: String,
    },
    Part(Part),
    #[serde(rename = "part.removed")]
    PartRemoved {
        message_id: String,
        part_id: String,
    },
    #[serde(rename = "message.removed")]
    MessageRemoved {
        message_id: String,
    },
    /// Nothing is added to it after this.
    #[serde(rename = "message.done")]
    MessageDone {
        message_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<String>,
        reason: Reason,
        /// The text parts, joined in order.
        #[serde(default)]
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },

    AgentStatus {
        status: AgentStatus,
        /// The tool's name, or what is wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<String>,
        /// Absent: of the whole workplace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    /// On the sandbox's disk before the agent is called.
    Accepted {
        prompt_id: String,
        channel: String,
    },
    /// The prompt was not taken; it waits at the hub.
    Busy {
        prompt_id: String,
        channel: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    PromptState {
        prompt_id: String,
        state: PromptState,
    },
    /// The one true end of a prompt.
    Complete {
        prompt_id: String,
        channel: String,
    },
    Canceled {
        prompt_id: String,
        channel: String,
    },
    Error(ErrorFrame),

    Question(Question),
    QuestionClosed {
        question_id: String,
        outcome: Outcome,
    },
    Permission(Permission),
    PermissionClosed {
        id: String,
        outcome: Outcome,
        by: DecidedBy,
        /// What it was about: one that the policy decides was never asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        targets: Vec<String>,
    },

    Image {
        image: Image,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    AudioTranscript {
        prompt_id: String,
        text: String,
    },
    Models {
        providers: Vec<ModelProvider>,
    },
    ModelSwitched {
        prompt_id: String,
        channel: String,
        from: String,
        to: String,
        reason: String,
    },
    ChannelSessionCreated {
        channel: String,
        agent_session: String,
    },
    Break {
        channel: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    Usage {
        prompt_id: String,
        entries: Vec<UsageEntry>,
    },

    Tunnels {
        tunnels: Vec<Tunnel>,
    },
    Services {
        services: Vec<ServiceState>,
    },
    Ports {
        ports: Vec<Port>,
    },
    /// What the sandbox is used for, apart from the agent's turns; said at each change. Nothing in
    /// it, and no turn under way: it is idle.
    Activity {
        uses: Vec<Use>,
    },
    AutoStartOutput {
        service: String,
        output: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    GitState {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit_count: Option<u64>,
    },
    FilesChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        files: Vec<ChangedFile>,
    },
    PullRequest {
        number: u64,
        title: String,
        url: String,
        status: String,
    },
    ChildSession {
        session_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    Title {
        title: String,
    },

    DiffResult {
        request_id: String,
        #[serde(default)]
        files: Vec<FileDiff>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    ReviewResult {
        request_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Review>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    CommandResult {
        request_id: String,
        command: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    Reverted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        message_ids: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },

    WorkflowChatMessage {
        role: String,
        content: String,
        #[serde(default)]
        parts: Vec<PartContent>,
        channel: String,
    },
    WorkflowExecutionResult(WorkflowResult),
    AgentConfigApplied {
        success: bool,
        restarted: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The session is to end: its work is done.
    SelfTerminate {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    RunnerHealth(Health),
    WaitSubscription {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default)]
        sessions: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notify_on: Option<String>,
        #[serde(default)]
        statuses: Vec<String>,
    },
    Phase(Phase),
    CloneComplete {
        repos: Vec<String>,
    },
    /// After `stop`: what was running has ended, and nothing follows.
    Stopped,

    /// Answered by `result`.
    Request(Asked),
    Close(Close),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hello {
    pub session: String,
    pub generation: u64,
    pub boot: String,
    pub protocol: u32,
    /// The highest it has seen; 0 at first.
    pub term: u64,
    /// What it holds and nobody acknowledged, the oldest boot first.
    #[serde(default)]
    pub offers: Vec<Offer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Offer {
    pub boot: String,
    pub first: u64,
    pub last: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Idle,
    Thinking,
    ToolCalling,
    Streaming,
    /// For a person: a question or a permission is open.
    Waiting,
    Error,
}

/// What a runner knows of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// In this boot. The only answer after which it may be sent again.
    NeverSeen,
    /// It is here, and the agent has not been called.
    Received,
    Accepted,
    Finished,
    Failed,
    Canceled,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(default)]
    pub reasoning_tokens: u64,
    #[serde(default)]
    pub cache_read_tokens: u64,
    #[serde(default)]
    pub cache_write_tokens: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageEntry {
    /// The agent's own name of the message.
    pub agent_message: String,
    pub model: String,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tunnel {
    pub name: String,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServiceState {
    pub name: String,
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub standing: Standing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Running,
    Stopped,
    Failed,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Port {
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    #[serde(default)]
    pub exposed: bool,
}

/// Why a sandbox is not idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Use {
    /// It does more than nothing.
    Service { name: String },
    /// Somebody asked something of what runs here. Our own probes do not count.
    Request,
    /// Somebody typed.
    Terminal,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkflowResult {
    pub execution_id: String,
    pub status: WorkflowStatus,
    #[serde(default)]
    pub output: Value,
    #[serde(default)]
    pub steps: Vec<Value>,
    /// What a person has to decide, and the token to go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    Ok,
    NeedsApproval,
    Cancelled,
    Failed,
}

/// Something is wrong with the workplace itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    pub kind: HealthKind,
    pub message: String,
    /// How often in this boot.
    #[serde(default)]
    pub count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthKind {
    AgentCrash,
    AgentHealthTimeout,
    AgentFatal,
    /// The hub did not let us in.
    UpgradeRefused,
    JournalFull,
    /// A journal was damaged or not ours, and is set aside.
    JournalDamaged,
    /// The journal cannot be written; frames are kept in memory.
    JournalUnwritable,
    /// Tunnels that were registered before are not there any more.
    TunnelsDropped,
    /// The preview's server, the editor or a part of the desktop ended by itself.
    ProgramCrash,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Phase {
    pub name: String,
    pub state: PhaseState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    Started,
    Done,
    Failed,
    Skipped,
}

impl FromRunner {
    /// Whether a prompt ends with it, well or not.
    pub fn ends(&self, prompt: &str) -> bool {
        match self {
            Self::Complete { prompt_id, .. } | Self::Canceled { prompt_id, .. } => {
                prompt_id == prompt
            }
            Self::Error(error) => error.prompt_id.as_deref() == Some(prompt),
            _ => false,
        }
    }

    /// Whether it is kept until the hub has it. The rest is either said again in another way, or
    /// about the connection it is said on.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::Hello(_) | Self::Ping | Self::PartDelta { .. } | Self::Close(_) => false,
            Self::Part(part) => !part.open,
            _ => true,
        }
    }
}
