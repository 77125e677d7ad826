//! Between hub and agent: what the hub wants is asked of the agent, what the agent does is told to
//! the hub. Nothing is queued here; a prompt that cannot be begun is given back as `busy`.

mod attachments;
mod marks;
mod repositories;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use agent::event::{PermissionId, QuestionId};
use agent::link::{self as of_link, frames};
use agent::{Agent, ChannelKey, Event, Happening, Mark, Refused, Scope, SessionRef, SlashCommand};
use camino::Utf8PathBuf;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use wire::link::{Answer, ErrorFrame, FileDiff, FromHub, FromRunner, Prompt};

pub use self::marks::Marks;
pub use self::repositories::Repositories;
use crate::agent_process::State;
use crate::files::Files;
use crate::link::Handle;
pub use agent::opencode::Contexts;

/// Cheap to clone: what takes long is done on a clone, beside the rest.
#[derive(Debug, Clone)]
pub struct Turns {
    link: Handle,
    agent: watch::Receiver<State>,
    marks: Rc<RefCell<Marks>>,
    surroundings: Surroundings,
    /// Channels whose prompt waits for what it brings by reference.
    fetching: Rc<RefCell<BTreeMap<String, CancellationToken>>>,
}

/// What turns touch besides the agent.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub workspace: Utf8PathBuf,
    /// Of the workspace.
    pub files: Files,
    /// Told at the end of each turn: the agent may have committed something.
    pub moved: Rc<Notify>,
    pub contexts: Contexts,
    pub repositories: Repositories,
}

impl Turns {
    pub fn new(
        link: Handle,
        agent: watch::Receiver<State>,
        marks: Marks,
        surroundings: Surroundings,
    ) -> Self {
        Self {
            link,
            agent,
            marks: Rc::new(RefCell::new(marks)),
            surroundings,
            fetching: Rc::default(),
        }
    }

    /// The agent works in the directory above these repositories; none when it works in its own.
    pub fn work_above(&self, folders: Vec<String>) {
        self.surroundings.repositories.set(folders);
    }

    /// The agent's process knows its conversations; which channel each was of, it is told here. What
    /// the hub knows comes first, and what is known already is kept.
    pub async fn remind(&self, agent: &dyn Agent, known: &BTreeMap<String, String>) {
        for (channel, session) in known {
            if let Ok(channel) = channel.parse() {
                agent.remember(channel, SessionRef(session.clone())).await;
            }
        }
        let sessions = self.marks.borrow().sessions();
        for (channel, session) in sessions {
            agent.remember(channel, session).await;
        }
    }

    /// Tells the hub what the agent did. Waits while the hub is too far behind, and with it the
    /// agent's stream.
    pub async fn tell(&self, event: Event) {
        self.note(&event);
        if let Happening::TurnDone { .. } = event.happening {
            self.surroundings.moved.notify_one();
        }
        for frame in frames(event) {
            self.say(frame).await;
        }
    }

    /// Does what the hub wants of the agent. `None` when it was something else, which is given back.
    pub async fn hear(&self, frame: FromHub) -> Option<FromHub> {
        match frame {
            FromHub::Prompt(prompt) => self.prompt(*prompt).await,
            FromHub::Cancel { channel } => self.cancel(channel).await,
            FromHub::Answer {
                question_id,
                item,
                answer,
            } => self.answer(question_id, item, answer).await,
            FromHub::Permission { id, allow } => self.decide(id, allow).await,
            FromHub::Revert {
                message_id,
                request_id,
                ..
            } => self.revert(message_id, request_id).await,
            FromHub::Diff {
                request_id,
                channel,
            } => self.diff(request_id, channel).await,
            FromHub::Review {
                request_id,
                focus,
                model,
            } => self.review(request_id, focus, model).await,
            FromHub::Command {
                request_id,
                command,
                channel,
                ..
            } => self.command(request_id, command, channel).await,
            FromHub::NewSession {
                request_id,
                channel,
            } => self.new_session(request_id, channel).await,
            other => return Some(other),
        }
        None
    }

    async fn prompt(&self, mut prompt: Prompt) {
        let (prompt_id, channel) = (prompt.id.clone(), prompt.channel.clone());
        let state = self.agent.borrow().clone();
        let agent = match state {
            State::Running(agent) => agent,
            State::Starting | State::Down { .. } => {
                let reason = Some("the agent is starting".to_owned());
                return self.busy(prompt_id, channel, reason).await;
            }
            State::GivenUp { why } => {
                let why = format!("the agent cannot be started: {why}");
                return self.failed("agent_fatal", why, prompt_id, channel).await;
            }
        };
        match self.fetch(&mut prompt).await {
            Fetched::Whole => {}
            Fetched::Busy => return self.busy(prompt_id, channel, None).await,
            Fetched::Canceled => {
                return self.say(FromRunner::Canceled { prompt_id, channel }).await;
            }
            Fetched::Failed(why) => {
                return self.failed("bad_prompt", why, prompt_id, channel).await;
            }
        }
        let contexts = &self.surroundings.contexts;
        let context = prompt.context.take();
        let taken = match of_link::prompt(prompt) {
            Ok(taken) => {
                contexts.note(&taken.channel, context);
                taken
            }
            Err(why) => return self.failed("bad_prompt", why, prompt_id, channel).await,
        };
        let accepted = agent.accept(taken).await;
        if accepted.is_ok() {
            let trees = self.surroundings.repositories.trees().await;
            if !trees.is_empty() {
                self.marks.borrow_mut().stood(&prompt_id, trees);
            }
        }
        match accepted {
            // It is ours once it is on the disk, and the agent hears of it after that.
            Ok(accepted) => match self.link.accept(&prompt_id, &channel).await {
                Ok(()) => accepted.start(),
                Err(error) => {
                    drop(accepted);
                    self.busy(prompt_id, channel, Some(error.to_string())).await;
                }
            },
            Err(Refused::Busy(_)) => self.busy(prompt_id, channel, None).await,
            Err(refused @ Refused::TooManyChannels(_)) => {
                self.busy(prompt_id, channel, Some(refused.to_string()))
                    .await;
            }
            // It was given up, and nobody should wait for it.
            Err(refused @ Refused::AgentGone(_)) => {
                self.failed("agent_fatal", refused.to_string(), prompt_id, channel)
                    .await;
            }
            Err(refused @ Refused::Unfit(_)) => {
                self.failed("bad_prompt", refused.to_string(), prompt_id, channel)
                    .await;
            }
        }
    }

    /// Has the prompt bring what it only names. The channel is taken meanwhile.
    async fn fetch(&self, prompt: &mut Prompt) -> Fetched {
        let channel = prompt.channel.clone();
        if self.fetching.borrow().contains_key(&channel) {
            return Fetched::Busy;
        }
        if prompt.attachments.is_empty() {
            return Fetched::Whole;
        }
        let canceled = CancellationToken::new();
        self.fetching
            .borrow_mut()
            .insert(channel.clone(), canceled.clone());
        let Surroundings {
            workspace, files, ..
        } = &self.surroundings;
        let attachments = std::mem::take(&mut prompt.attachments);
        let fetched = tokio::select! {
            brought = attachments::bring(attachments, workspace, files, &self.link) => match brought {
                Ok(brought) => {
                    prompt.attachments = brought;
                    Fetched::Whole
                }
                Err(why) => Fetched::Failed(why),
            },
            () = canceled.cancelled() => Fetched::Canceled,
        };
        self.fetching.borrow_mut().remove(&channel);
        fetched
    }

    async fn cancel(&self, channel: Option<String>) {
        for (fetching, canceled) in self.fetching.borrow().iter() {
            if channel.as_ref().is_none_or(|channel| channel == fetching) {
                canceled.cancel();
            }
        }
        let Some(agent) = self.agent() else { return };
        let scope = match channel.map(|channel| channel.parse::<ChannelKey>()) {
            None => Scope::All,
            Some(Ok(channel)) => Scope::Channel(channel),
            Some(Err(error)) => return self.wrong("cancel", error.to_string(), None).await,
        };
        // The turns' own ends tell the hub; without a turn there is nothing to tell.
        if let Err(error) = agent.cancel(scope).await {
            self.wrong("cancel", error.to_string(), None).await;
        }
    }

    async fn answer(&self, question: String, item: usize, answer: Option<Answer>) {
        let Some(agent) = self.agent() else { return };
        // Nobody answered: the agent's own time for it runs out, and says so.
        let Some(answer) = answer else { return };
        let chosen = match answer {
            Answer::YesNo(true) => vec!["yes".to_owned()],
            Answer::YesNo(false) => vec!["no".to_owned()],
            Answer::Text(text) => vec![text],
            Answer::Several(several) => several,
        };
        if let Err(error) = agent.answer(QuestionId(question), item, chosen).await {
            self.wrong("answer", error.to_string(), None).await;
        }
    }

    async fn decide(&self, id: String, allow: bool) {
        let Some(agent) = self.agent() else { return };
        let id = PermissionId(id);
        let decided = if allow {
            agent.allow(id).await
        } else {
            agent.refuse(id).await
        };
        if let Err(error) = decided {
            self.wrong("permission", error.to_string(), None).await;
        }
    }

    async fn revert(&self, message_id: String, request_id: Option<String>) {
        let found = self.marks.borrow().find(&message_id);
        let reverted = match (self.agent(), found) {
            (None, _) => Err("the agent is not running".to_owned()),
            (_, None) => Err(format!("no answer {message_id} is known here")),
            (Some(agent), Some((channel, mark))) => agent
                .revert(channel, mark)
                .await
                .map_err(|error| error.to_string()),
        };
        let (message_ids, error) = match reverted {
            Ok(reverted) => self.took_back(&reverted.marks).await,
            Err(error) => (Vec::new(), Some(error)),
        };
        let reverted = FromRunner::Reverted {
            request_id,
            message_ids,
            error,
        };
        self.say(reverted).await;
    }

    /// The agent has taken these back: the files of repositories that it does not know follow, and
    /// the hub hears which answers are gone.
    async fn took_back(&self, taken: &[Mark]) -> (Vec<String>, Option<String>) {
        let trees = self.marks.borrow().trees_before(taken);
        let restored = self.surroundings.repositories.take_back(trees).await;
        let gone = self.marks.borrow_mut().forget(taken);
        for message_id in &gone {
            let message_id = message_id.clone();
            self.say(FromRunner::MessageRemoved { message_id }).await;
        }
        (gone, restored.err())
    }

    async fn diff(&self, request_id: String, channel: Option<String>) {
        let result = self.ask_for_diff(channel).await;
        let (files, error) = match result {
            Ok(files) => (files, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let result = FromRunner::DiffResult {
            request_id,
            files,
            error,
        };
        self.say(result).await;
    }

    async fn ask_for_diff(&self, channel: Option<String>) -> Result<Vec<FileDiff>, String> {
        let channel = key(channel)?;
        if let Some(changes) = self.surroundings.repositories.changes().await? {
            return Ok(changes);
        }
        let agent = self.agent().ok_or("the agent is not running")?;
        let files = agent.diff(channel, None).await.map_err(|e| e.to_string())?;
        Ok(files.into_iter().map(of_link::file_diff).collect())
    }

    async fn review(&self, request_id: String, focus: Option<String>, model: Option<String>) {
        let result = self.ask_for_review(focus, model).await;
        let (review, error) = match result {
            Ok(review) => (Some(review), None),
            Err(error) => (None, Some(error)),
        };
        let result = FromRunner::ReviewResult {
            request_id,
            review,
            error,
        };
        self.say(result).await;
    }

    async fn ask_for_review(
        &self,
        focus: Option<String>,
        model: Option<String>,
    ) -> Result<wire::link::Review, String> {
        let agent = self.agent().ok_or("the agent is not running")?;
        let files = self.ask_for_diff(None).await?;
        let patch: String = files.into_iter().filter_map(|file| file.patch).collect();
        if patch.is_empty() {
            return Err("nothing has changed, so there is nothing to review".to_owned());
        }
        let model = model.map(|model| model.parse()).transpose();
        let request = agent::review::ReviewRequest {
            patch,
            focus,
            model: model.map_err(|error: agent::prompt::ModelNameError| error.to_string())?,
        };
        let review = agent.review(request).await.map_err(|e| e.to_string())?;
        Ok(of_link::review(review))
    }

    async fn command(&self, request_id: String, command: String, channel: Option<String>) {
        let result = self.run_command(&command, channel).await;
        let (result, error) = match result {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        let result = FromRunner::CommandResult {
            request_id,
            command,
            result,
            error,
        };
        self.say(result).await;
    }

    async fn run_command(&self, command: &str, channel: Option<String>) -> Result<String, String> {
        let command = match command.trim_start_matches('/') {
            "undo" => SlashCommand::Undo,
            "redo" => SlashCommand::Redo,
            "compact" => SlashCommand::Compact,
            other => {
                return Err(format!(
                    "there is no command {other:?}; there are undo, redo and compact"
                ));
            }
        };
        let agent = self.agent().ok_or("the agent is not running")?;
        let done = agent
            .command(key(channel)?, command)
            .await
            .map_err(|e| e.to_string())?;
        Ok(match done {
            agent::CommandDone::Undone(reverted) => {
                let (gone, error) = self.took_back(&reverted.marks).await;
                match error {
                    None => format!("{} answers taken back", gone.len()),
                    Some(error) => return Err(error),
                }
            }
            agent::CommandDone::Redone => {
                self.surroundings.repositories.bring_back().await?;
                "brought back".to_owned()
            }
            agent::CommandDone::Compacted => "summed up".to_owned(),
        })
    }

    async fn new_session(&self, request_id: String, channel: String) {
        let begun = match (self.agent(), channel.parse::<ChannelKey>()) {
            (None, _) => Err("the agent is not running".to_owned()),
            (_, Err(error)) => Err(error.to_string()),
            (Some(agent), Ok(key)) => agent.new_session(key).await.map_err(|e| e.to_string()),
        };
        match begun {
            Ok(_) => {
                let request_id = Some(request_id);
                self.say(FromRunner::Break {
                    channel,
                    request_id,
                })
                .await;
            }
            Err(why) => self.wrong("new_session", why, Some(request_id)).await,
        }
    }

    fn agent(&self) -> Option<Arc<dyn Agent>> {
        match &*self.agent.borrow() {
            State::Running(agent) => Some(Arc::clone(agent)),
            _ => None,
        }
    }

    /// Which message of the agent's a turn answers, so that it can be taken back by our name of it.
    fn note(&self, event: &Event) {
        let mut marks = self.marks.borrow_mut();
        match &event.happening {
            Happening::PromptTaken { prompt, mark, .. } => {
                marks.taken(&event.channel, prompt, mark);
            }
            Happening::TurnOpened { turn, prompt } => marks.opened(&turn.to_string(), prompt),
            Happening::SessionStarted { session, .. } => marks.began(&event.channel, session),
            _ => {}
        }
    }

    async fn busy(&self, prompt_id: String, channel: String, reason: Option<String>) {
        let busy = FromRunner::Busy {
            prompt_id,
            channel,
            reason,
        };
        self.say(busy).await;
    }

    async fn failed(&self, code: &str, message: String, prompt_id: String, channel: String) {
        let error = ErrorFrame {
            code: code.to_owned(),
            message,
            prompt_id: Some(prompt_id),
            channel: Some(channel),
            request_id: None,
            frame: Some("prompt".to_owned()),
        };
        self.say(FromRunner::Error(error)).await;
    }

    async fn wrong(&self, frame: &str, message: String, request_id: Option<String>) {
        let error = ErrorFrame {
            code: "refused".to_owned(),
            message,
            prompt_id: None,
            channel: None,
            request_id,
            frame: Some(frame.to_owned()),
        };
        self.say(FromRunner::Error(error)).await;
    }

    /// A link that is over has nobody to tell.
    async fn say(&self, frame: FromRunner) {
        let _ = self.link.say(frame).await;
    }
}

/// How it went with what a prompt brings.
enum Fetched {
    Whole,
    /// Another prompt of the channel is being fetched.
    Busy,
    Canceled,
    Failed(String),
}

fn key(channel: Option<String>) -> Result<ChannelKey, String> {
    match channel {
        None => Ok(ChannelKey::web()),
        Some(channel) => channel
            .parse()
            .map_err(|error: agent::channel::ChannelKeyError| error.to_string()),
    }
}
