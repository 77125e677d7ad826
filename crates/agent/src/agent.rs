use std::fmt;

use async_trait::async_trait;
use model::Id;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::channel::ChannelKey;
use crate::configuration::PermissionPolicy;
use crate::event::{ChangedFile, TurnError};
use crate::event::{
    Content, Mark, Part, Permission, PermissionId, Question, QuestionId, SessionRef, Status, Turn,
};
use crate::prompt::{ModelName, Prompt, PromptId, Unfit};
use crate::review::{Review, ReviewRequest};

/// A coding agent, whichever it is. Channels do not know of each other: each has one conversation
/// and at most one prompt at a time.
#[async_trait]
pub trait Agent: fmt::Debug + Send + Sync {
    /// Checks the prompt and takes its channel. The agent hears of it when [`Accepted::start`] is
    /// called, so that the caller can write down before that it was accepted.
    async fn accept(&self, prompt: Prompt) -> Result<Accepted, Refused>;

    /// Ends what runs there, and answers when the agent has confirmed it. Each turn is closed with
    /// the reason `canceled`. A prompt that comes meanwhile waits for that end.
    async fn cancel(&self, scope: Scope) -> Result<Vec<PromptId>, Failed>;

    /// Answers one item of a question. The agent gets the answers when all items have one.
    async fn answer(
        &self,
        question: QuestionId,
        item: usize,
        chosen: Vec<String>,
    ) -> Result<(), Failed>;

    async fn allow(&self, permission: PermissionId) -> Result<(), Failed>;

    async fn refuse(&self, permission: PermissionId) -> Result<(), Failed>;

    /// Takes back that prompt and all after it, with what they changed in files.
    async fn revert(&self, channel: ChannelKey, to: Mark) -> Result<Reverted, Failed>;

    /// What the prompt changed; without one, what differs in the working tree.
    async fn diff(&self, channel: ChannelKey, of: Option<Mark>) -> Result<Vec<FileDiff>, Failed>;

    /// Asks for a review in a conversation that is thrown away.
    async fn review(&self, request: ReviewRequest) -> Result<Review, Failed>;

    async fn command(
        &self,
        channel: ChannelKey,
        command: SlashCommand,
    ) -> Result<CommandDone, Failed>;

    /// Drops the channel's conversation and begins another.
    async fn new_session(&self, channel: ChannelKey) -> Result<SessionRef, Failed>;

    /// The channel's conversation from before, for whoever reverts before anybody prompts. One that
    /// the channel has already is kept.
    async fn remember(&self, channel: ChannelKey, session: SessionRef);

    async fn models(&self) -> Result<Vec<ModelInfo>, Failed>;

    /// What is open now, whole: for somebody who begins to listen.
    async fn held(&self) -> Result<Vec<Held>, Failed>;

    /// How its permissions are decided from now on.
    async fn decide_by(&self, policy: PermissionPolicy);

    /// The agent's process was started, at the place that was dialled before. Answers once it is
    /// healthy, or will not be. Its sessions are looked at again before they are used.
    async fn process_started(&self) -> Result<(), Failed>;

    /// The agent's process is gone. Open turns are closed with the reason `error`; prompts wait for
    /// [`Agent::process_started`].
    async fn process_ended(&self, how: String);

    /// There will be no process: whoever waits is told `why`.
    async fn process_given_up(&self, why: String);
}

/// A prompt whose channel is taken and whose agent has not been called. Dropping it gives the
/// channel back.
#[derive(Debug)]
pub struct Accepted {
    pub prompt: PromptId,
    start: oneshot::Sender<()>,
}

impl Accepted {
    /// For those who implement [`Agent`]: the receiver resolves when the prompt is started, and
    /// fails when it is dropped.
    pub fn new(prompt: PromptId) -> (Accepted, oneshot::Receiver<()>) {
        let (start, started) = oneshot::channel();
        (Accepted { prompt, start }, started)
    }

    /// From here on the agent may be called.
    pub fn start(self) {
        // A driver that is gone has nobody to tell.
        let _ = self.start.send(());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the channel {0} is busy with another prompt; send this one when that turn is done, or cancel it"
    )]
    Busy(ChannelKey),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("there are {0} busy channels already; wait until one is idle")]
    TooManyChannels(usize),
    #[error("the agent is not there: {0}")]
    AgentGone(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    #[error("no question or permission {0} is open; it may have expired or been answered")]
    NotOpen(String),
    #[error("this answer does not fit the question: {0}")]
    BadAnswer(String),
    #[error("the channel {0} is busy; cancel its turn first")]
    Busy(ChannelKey),
    #[error("the channel {0} has no conversation yet; send it a prompt first")]
    NoSession(ChannelKey),
    #[error("there is nothing to {0}")]
    Nothing(&'static str),
    #[error("this agent cannot {0}")]
    Unsupported(&'static str),
    #[error("the agent refused to {operation}: {message} (HTTP {status})")]
    Agent {
        operation: &'static str,
        status: u16,
        message: String,
    },
    #[error("the agent could not be asked to {operation}: {message}")]
    Unreachable {
        operation: &'static str,
        message: String,
    },
    #[error("{operation} took longer than {seconds} s and was ended")]
    TimedOut {
        operation: &'static str,
        seconds: u64,
    },
    #[error("the agent's answer cannot be used: {0}")]
    BadReply(String),
    #[error("{0}")]
    Unhealthy(String),
    #[error("the agent is not there: {0}")]
    AgentGone(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Channel(ChannelKey),
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlashCommand {
    /// Take back the last prompt.
    Undo,
    /// Bring back what was taken back last.
    Redo,
    /// Replace the conversation so far by a summary of it.
    Compact,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandDone {
    Undone(Reverted),
    Redone,
    Compacted,
}

/// The prompts that were taken back, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reverted {
    pub marks: Vec<Mark>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDiff {
    #[serde(flatten)]
    pub file: ChangedFile,
    pub patch: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    pub model: ModelName,
    /// As people call its provider.
    pub provider_name: String,
    pub name: String,
    pub context: Option<u64>,
    pub output: Option<u64>,
}

/// What a channel holds open.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub channel: ChannelKey,
    pub session: Option<SessionRef>,
    /// Conversations that it holds with itself for the prompt under way.
    pub subagents: Vec<SessionRef>,
    pub status: Status,
    pub prompt: Option<PromptId>,
    pub turn: Option<Id<Turn>>,
    /// Parts that deltas still go to, and tools that still run.
    pub open_parts: Vec<(Id<Part>, Content)>,
    pub questions: Vec<Question>,
    pub permissions: Vec<Permission>,
    pub last_error: Option<TurnError>,
}
