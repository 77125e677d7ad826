use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::api::Api;
use super::conversation::changed_file;
use super::driver::Waiting;
use super::http::HttpError;
use super::wire::{self, PartBody, Role};
use super::{Settings, health};
use crate::agent::{
    Accepted, Agent, CommandDone, Failed, FileDiff, Held, ModelInfo, Refused, Reverted, Scope,
    SlashCommand,
};
use crate::channel::ChannelKey;
use crate::configuration::PermissionPolicy;
use crate::event::{Mark, Outcome, PermissionId, QuestionId, SessionRef};
use crate::prompt::{ModelName, Prompt, PromptId};
use crate::review::{self, Review, ReviewRequest};

const REVIEW: Duration = Duration::from_mins(2);
const COMPACTION: Duration = Duration::from_mins(5);
const GONE: &str = "its driver has ended";

/// A handle; all its clones are of one agent.
#[derive(Debug, Clone)]
pub struct OpenCode {
    commands: mpsc::Sender<Command>,
    api: Api,
    model: Option<ModelName>,
    health_limit: Duration,
}

#[derive(Debug)]
pub(super) enum Command {
    Accept {
        prompt: Box<Prompt>,
        reply: oneshot::Sender<Result<Accepted, Refused>>,
    },
    Cancel {
        scope: Scope,
        reply: oneshot::Sender<(Vec<PromptId>, Waiting)>,
    },
    Answer {
        question: QuestionId,
        item: usize,
        chosen: Vec<String>,
        reply: oneshot::Sender<Result<(), Failed>>,
    },
    Decide {
        permission: PermissionId,
        outcome: Outcome,
        reply: oneshot::Sender<Result<(), Failed>>,
    },
    Held {
        reply: oneshot::Sender<Vec<Held>>,
    },
    Borrow {
        channel: ChannelKey,
        reply: oneshot::Sender<Result<Borrowed, Failed>>,
    },
    Adopt {
        channel: ChannelKey,
        session: String,
    },
    Remember {
        channel: ChannelKey,
        session: String,
    },
    DecideBy(PermissionPolicy),
    ProcessStarted,
    ProcessEnded(String),
    ProcessGivenUp(String),
}

/// A channel that nothing else is done on while this lives.
#[derive(Debug)]
pub(super) struct Borrowed {
    pub(super) session: Option<String>,
    pub(super) _hold: oneshot::Sender<()>,
}

impl OpenCode {
    pub(super) fn new(commands: mpsc::Sender<Command>, api: Api, settings: &Settings) -> OpenCode {
        OpenCode {
            commands,
            api,
            model: settings.model.clone(),
            health_limit: settings.health_limit,
        }
    }

    async fn tell(&self, command: Command) -> Result<(), Failed> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| Failed::AgentGone(GONE.to_owned()))
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Failed> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply)).await?;
        answer.await.map_err(|_| Failed::AgentGone(GONE.to_owned()))
    }

    async fn borrow(&self, channel: &ChannelKey) -> Result<Borrowed, Failed> {
        let channel = channel.clone();
        self.ask(|reply| Command::Borrow { channel, reply }).await?
    }

    /// The channel's session, and the channel for as long as it is used.
    async fn borrow_session(&self, channel: &ChannelKey) -> Result<(String, Borrowed), Failed> {
        let borrowed = self.borrow(channel).await?;
        let session = borrowed.session.clone();
        let session = session.ok_or_else(|| Failed::NoSession(channel.clone()))?;
        Ok((session, borrowed))
    }

    /// Prompts from that one on, oldest first.
    async fn prompts_from(&self, session: &str, mark: &str) -> Result<Vec<Mark>, Failed> {
        let messages = self.api.messages(session).await?;
        let prompts = messages
            .iter()
            .filter(|message| message.info.role == Role::User)
            .map(|message| message.info.id.as_str());
        Ok(prompts
            .skip_while(|id| *id != mark)
            .map(|id| Mark(id.to_owned()))
            .collect())
    }

    async fn undo(&self, session: &str) -> Result<Reverted, Failed> {
        let at = self.api.session(session).await?.revert;
        let messages = self.api.messages(session).await?;
        let last = messages
            .iter()
            .filter(|message| message.info.role == Role::User)
            .map(|message| message.info.id.as_str())
            .rfind(|id| at.as_ref().is_none_or(|at| *id < at.message.as_str()));
        let last = last.ok_or(Failed::Nothing("undo"))?;
        self.api.revert(session, last).await?;
        Ok(Reverted {
            marks: vec![Mark(last.to_owned())],
        })
    }

    async fn redo(&self, session: &str) -> Result<(), Failed> {
        if self.api.session(session).await?.revert.is_none() {
            return Err(Failed::Nothing("redo"));
        }
        self.api.unrevert(session).await?;
        Ok(())
    }

    async fn compact(&self, session: &str) -> Result<(), Failed> {
        let model = match &self.model {
            Some(model) => model.clone(),
            None => self.last_model(session).await?,
        };
        Ok(self.api.summarize(session, &model, COMPACTION).await?)
    }

    async fn last_model(&self, session: &str) -> Result<ModelName, Failed> {
        let messages = self.api.messages(session).await?;
        let last = messages
            .iter()
            .rev()
            .find_map(|message| message.info.answered_by());
        last.ok_or(Failed::Nothing("compact"))
    }

    async fn review_in(&self, session: &str, request: &ReviewRequest) -> Result<Review, Failed> {
        let text = review::instructions(request);
        let asking = self.api.ask(session, &text, request.model.as_ref(), REVIEW);
        let limit = Failed::TimedOut {
            operation: "review",
            seconds: REVIEW.as_secs(),
        };
        let answer = match tokio::time::timeout(REVIEW, asking).await {
            Ok(answer) => answer?,
            Err(_) => return Err(limit),
        };
        if let Some(error) = &answer.info.error {
            let message = error.data["message"].as_str().unwrap_or(&error.name);
            return Err(Failed::BadReply(message.to_owned()));
        }
        review::read(&text_of(&answer)).map_err(|error| Failed::BadReply(error.to_string()))
    }
}

#[async_trait]
impl Agent for OpenCode {
    async fn accept(&self, prompt: Prompt) -> Result<Accepted, Refused> {
        let prompt = Box::new(prompt);
        let answer = self.ask(|reply| Command::Accept { prompt, reply }).await;
        answer.map_err(|failed| Refused::AgentGone(failed.to_string()))?
    }

    async fn cancel(&self, scope: Scope) -> Result<Vec<PromptId>, Failed> {
        let (prompts, waiting) = self.ask(|reply| Command::Cancel { scope, reply }).await?;
        for end in waiting {
            // A driver that ends has ended the turn too.
            let _ = end.await;
        }
        Ok(prompts)
    }

    async fn answer(
        &self,
        question: QuestionId,
        item: usize,
        chosen: Vec<String>,
    ) -> Result<(), Failed> {
        self.ask(|reply| Command::Answer {
            question,
            item,
            chosen,
            reply,
        })
        .await?
    }

    async fn allow(&self, permission: PermissionId) -> Result<(), Failed> {
        self.ask(|reply| Command::Decide {
            permission,
            outcome: Outcome::Allowed,
            reply,
        })
        .await?
    }

    async fn refuse(&self, permission: PermissionId) -> Result<(), Failed> {
        self.ask(|reply| Command::Decide {
            permission,
            outcome: Outcome::Refused,
            reply,
        })
        .await?
    }

    async fn revert(&self, channel: ChannelKey, to: Mark) -> Result<Reverted, Failed> {
        let (session, _hold) = self.borrow_session(&channel).await?;
        let marks = self.prompts_from(&session, &to.0).await?;
        if marks.is_empty() {
            return Err(Failed::Nothing("revert"));
        }
        self.api.revert(&session, &to.0).await?;
        Ok(Reverted { marks })
    }

    async fn diff(&self, channel: ChannelKey, of: Option<Mark>) -> Result<Vec<FileDiff>, Failed> {
        let diffs = match of {
            None => self.api.diff_of_tree().await?,
            Some(mark) => {
                let held = self.held().await?;
                let ours = held.into_iter().find(|held| held.channel == channel);
                let session = ours.and_then(|held| held.session);
                let session = session.ok_or(Failed::NoSession(channel))?;
                self.api.diff_of(&session.0, &mark.0).await?
            }
        };
        let each = diffs.into_iter().map(|diff| FileDiff {
            file: changed_file(&diff),
            patch: diff.patch,
        });
        Ok(each.collect())
    }

    async fn review(&self, request: ReviewRequest) -> Result<Review, Failed> {
        let session = self.api.create_session("nacre review").await?.id;
        let review = self.review_in(&session, &request).await;
        if review.is_err() {
            // Deleting a session does not stop what runs in it.
            let _ = self.api.abort(&session).await;
        }
        if let Err(error) = self.api.delete_session(&session).await {
            tracing::warn!(%error, "a session of a review stays behind");
        }
        review
    }

    async fn command(
        &self,
        channel: ChannelKey,
        command: SlashCommand,
    ) -> Result<CommandDone, Failed> {
        let (session, _hold) = self.borrow_session(&channel).await?;
        Ok(match command {
            SlashCommand::Undo => CommandDone::Undone(self.undo(&session).await?),
            SlashCommand::Redo => {
                self.redo(&session).await?;
                CommandDone::Redone
            }
            SlashCommand::Compact => {
                self.compact(&session).await?;
                CommandDone::Compacted
            }
        })
    }

    async fn new_session(&self, channel: ChannelKey) -> Result<SessionRef, Failed> {
        let borrowed = self.borrow(&channel).await?;
        let title = format!("nacre {channel}");
        let session = self.api.create_session(&title).await?.id;
        if let Some(old) = &borrowed.session
            && let Err(error) = self.api.delete_session(old).await
        {
            tracing::warn!(%error, "an old session stays behind");
        }
        let adopted = Command::Adopt {
            channel,
            session: session.clone(),
        };
        self.tell(adopted).await?;
        Ok(SessionRef(session))
    }

    async fn remember(&self, channel: ChannelKey, session: SessionRef) {
        let session = session.0;
        let _ = self.tell(Command::Remember { channel, session }).await;
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, Failed> {
        Ok(models_in(&self.api.providers().await?))
    }

    async fn held(&self) -> Result<Vec<Held>, Failed> {
        self.ask(|reply| Command::Held { reply }).await
    }

    async fn decide_by(&self, policy: PermissionPolicy) {
        let _ = self.tell(Command::DecideBy(policy)).await;
    }

    async fn process_started(&self) -> Result<(), Failed> {
        let healthy = health::wait(&self.api, self.health_limit).await;
        healthy.map_err(|unhealthy| Failed::Unhealthy(unhealthy.to_string()))?;
        self.tell(Command::ProcessStarted).await
    }

    async fn process_ended(&self, how: String) {
        let _ = self.tell(Command::ProcessEnded(how)).await;
    }

    async fn process_given_up(&self, why: String) {
        let _ = self.tell(Command::ProcessGivenUp(why)).await;
    }
}

fn text_of(answer: &wire::MessageWithParts) -> String {
    let texts = answer.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn models_in(value: &Value) -> Vec<ModelInfo> {
    let providers = value["providers"].as_array().into_iter().flatten();
    let mut models: Vec<ModelInfo> = providers
        .flat_map(|provider| {
            let id = provider["id"].as_str().unwrap_or_default();
            let of = provider["name"].as_str().unwrap_or(id);
            let models = provider["models"].as_object().into_iter().flatten();
            models.map(move |(model, about)| ModelInfo {
                provider_name: of.to_owned(),
                model: ModelName {
                    provider: id.to_owned(),
                    model: model.clone(),
                },
                name: about["name"].as_str().unwrap_or(model).to_owned(),
                context: about["limit"]["context"].as_u64(),
                output: about["limit"]["output"].as_u64(),
            })
        })
        .collect();
    models.sort_by(|a, b| a.model.cmp(&b.model));
    models
}

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Failed {
        match error.status {
            0 => Failed::Unreachable {
                operation: error.operation,
                message: error.message,
            },
            status => Failed::Agent {
                operation: error.operation,
                status,
                message: error.message,
            },
        }
    }
}
