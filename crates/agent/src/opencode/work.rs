//! What the driver does for conversations, away from its loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::api::Api;
use super::conversation::{Call, Look, Prepared, Verified};
use super::http::HttpError;
use super::wire::{self, PartBody, Status};
use super::{Memory, Settings};
use crate::channel::ChannelKey;
use crate::event::NewSession;
use crate::prompt::{Attachment, Transcriber};

/// The longest that turning speech into text may take.
const TRANSCRIPTION: Duration = Duration::from_mins(2);
/// How long a prompt waits for an agent that is being started.
const FOR_THE_AGENT: Duration = Duration::from_secs(150);
/// An aborted session is idle within a third of a second.
const SETTLING: Duration = Duration::from_millis(100);
const MOST_SETTLING: u32 = 50;
const MOST_TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_secs(1);
const MOST_MEMORY: usize = 200_000;
const NOT_HEARD: &str = "(a voice note that could not be understood)";

/// Whether the agent can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Down,
    /// The process is up, its stream not yet.
    Up,
    Listening,
    GivenUp(String),
}

#[derive(Debug)]
pub(super) enum Done {
    Prepared(u64, Result<Prepared, HttpError>),
    Sent(u64, Result<(), HttpError>),
    Aborted(u64, Result<(), HttpError>),
    Looked(u64, Result<Look, HttpError>),
    Changes(
        model::Id<crate::event::Turn>,
        Result<Vec<wire::Diff>, HttpError>,
    ),
    Replied(Result<(), HttpError>),
}

#[derive(Debug, Clone)]
pub(super) struct Worker {
    pub(super) api: Api,
    pub(super) readiness: watch::Receiver<Readiness>,
    transcriber: Option<Arc<dyn Transcriber>>,
    memory: Option<Arc<dyn Memory>>,
}

impl Worker {
    pub(super) fn new(
        api: Api,
        settings: &Settings,
        readiness: watch::Receiver<Readiness>,
    ) -> Worker {
        Worker {
            api,
            readiness,
            transcriber: settings.transcriber.clone(),
            memory: settings.memory.clone(),
        }
    }

    pub(super) async fn perform(mut self, channel: ChannelKey, call: Call) -> Done {
        match call {
            Call::Prepare {
                serial,
                audio,
                known,
                verified,
            } => {
                let prepared = self.prepare(&channel, &audio, known, verified).await;
                Done::Prepared(serial, prepared)
            }
            Call::Send {
                serial,
                session,
                sending,
                model,
                forget,
                after,
            } => {
                sleep(after).await;
                for message in forget {
                    if let Err(error) = self.api.delete_message(&session, &message).await {
                        tracing::debug!(%error, "a failed answer stays in the history");
                    }
                }
                let sent = self.api.send(&session, &sending, model.as_ref()).await;
                Done::Sent(serial, sent)
            }
            Call::Abort { serial, session } => {
                Done::Aborted(serial, self.api.abort(&session).await)
            }
            Call::Look {
                serial,
                session,
                mark,
                after,
            } => {
                sleep(after).await;
                Done::Looked(serial, self.look(&session, &mark).await)
            }
            Call::Changes {
                session,
                mark,
                turn,
            } => Done::Changes(turn, self.api.diff_of(&session, &mark).await),
            Call::ReplyPermission { id, reply } => {
                Done::Replied(self.api.reply_permission(&id.0, reply).await)
            }
            Call::ReplyQuestion { id, answers } => {
                Done::Replied(self.api.reply_question(&id.0, &answers).await)
            }
            Call::RejectQuestion { id } => Done::Replied(self.api.reject_question(&id.0).await),
        }
    }

    async fn prepare(
        &mut self,
        channel: &ChannelKey,
        audio: &[Attachment],
        known: Option<String>,
        verified: Verified,
    ) -> Result<Prepared, HttpError> {
        self.agent_is_ready().await?;
        let mut heard = Vec::new();
        for attachment in audio {
            heard.push(self.transcribe(attachment).await);
        }
        let mut tries = 0;
        let (session, new) = loop {
            match self.session(channel, known.clone(), verified).await {
                // The process may have ended under it. The next one is waited for: nothing was sent.
                Err(error) if error.status == 0 && tries < MOST_TRIES => {
                    tries += 1;
                    sleep(BETWEEN_TRIES).await;
                    self.agent_is_ready().await?;
                }
                found => break found?,
            }
        };
        Ok(Prepared {
            session,
            new,
            heard,
        })
    }

    /// The channel's session: the one it had, if the agent still has it, else another that is told
    /// what was said in the first.
    async fn session(
        &self,
        channel: &ChannelKey,
        known: Option<String>,
        verified: Verified,
    ) -> Result<(String, Option<NewSession>), HttpError> {
        let Some(known) = known else {
            let session = self.api.create_session(&title(channel)).await?;
            // Something may have been said to another agent, or in a sandbox that is gone.
            self.remind(channel, &session.id).await;
            return Ok((session.id, Some(NewSession::First)));
        };
        if verified == Verified::Yes {
            return Ok((known, None));
        }
        match self.api.session(&known).await {
            Ok(_) => {
                self.settle(&known).await?;
                Ok((known, None))
            }
            Err(error) if error.is_gone() => {
                let session = self.api.create_session(&title(channel)).await?;
                self.remind(channel, &session.id).await;
                Ok((session.id, Some(NewSession::Lost)))
            }
            Err(error) => Err(error),
        }
    }

    /// A session that works or retries is not ours to add to: it is aborted. An idle one is left
    /// alone.
    async fn settle(&self, session: &str) -> Result<(), HttpError> {
        for round in 0..MOST_SETTLING {
            if !self.api.statuses().await?.contains_key(session) {
                return Ok(());
            }
            if round == 0 {
                self.api.abort(session).await?;
            }
            sleep(SETTLING).await;
        }
        Err(HttpError {
            operation: "adopt a session",
            status: 0,
            message: "it stays busy after an abort".to_owned(),
        })
    }

    async fn remind(&self, channel: &ChannelKey, session: &str) {
        let Some(memory) = &self.memory else {
            return;
        };
        let Some(before) = memory.recall(channel).await else {
            return;
        };
        // The end matters most.
        let from = before.len().saturating_sub(MOST_MEMORY);
        let before = &before[before.ceil_char_boundary(from)..];
        let text = format!(
            "You do not remember this conversation. What was said in it before, for your \
             information; do not answer it:\n\n{before}"
        );
        if let Err(error) = self.api.tell(session, &text).await {
            tracing::warn!(%error, "a new session could not be told what was said before");
        }
    }

    async fn transcribe(&self, audio: &Attachment) -> String {
        let Some(transcriber) = &self.transcriber else {
            return NOT_HEARD.to_owned();
        };
        match timeout(TRANSCRIPTION, transcriber.transcribe(audio)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                tracing::warn!(%error, "an audio attachment was not understood");
                NOT_HEARD.to_owned()
            }
            Err(_) => NOT_HEARD.to_owned(),
        }
    }

    async fn agent_is_ready(&mut self) -> Result<(), HttpError> {
        let failed = |message: String| HttpError {
            operation: "wait for the agent",
            status: 0,
            message,
        };
        let ready = self.readiness.wait_for(|readiness| {
            matches!(readiness, Readiness::Listening | Readiness::GivenUp(_))
        });
        match timeout(FOR_THE_AGENT, ready).await {
            Ok(Ok(readiness)) => match &*readiness {
                Readiness::GivenUp(why) => Err(failed(why.clone())),
                _ => Ok(()),
            },
            Ok(Err(_)) => Err(failed("its driver is gone".to_owned())),
            Err(_) => Err(failed(format!(
                "it did not come up within {} s",
                FOR_THE_AGENT.as_secs()
            ))),
        }
    }

    /// What was recorded after the given numbers, and of new subagents. Sessions that are not named
    /// would come whole, so that all others are named.
    pub(super) async fn history(
        &self,
        known: HashMap<String, u64>,
    ) -> Result<Vec<wire::Recorded>, HttpError> {
        let mut after = known;
        for session in self.api.sessions().await? {
            let is_subagent = session
                .parent
                .is_some_and(|parent| after.contains_key(&parent));
            if !is_subagent {
                after.entry(session.id).or_insert(u64::from(u32::MAX));
            }
        }
        self.api.history(&after).await
    }

    pub(super) async fn look(&self, session: &str, mark: &str) -> Result<Look, HttpError> {
        let begun = Instant::now();
        // First who is busy, then what was said: what an idle session said is its last word.
        let mut statuses = self.api.statuses().await?;
        let messages = self.api.messages_since(session, mark).await?;
        let mut children = HashMap::new();
        for child in subagents(&messages) {
            if let Ok(theirs) = self.api.messages(&child).await {
                children.insert(child, theirs);
            }
        }
        Ok(Look {
            begun,
            status: statuses.remove(session).unwrap_or(Status::Idle),
            messages,
            children,
            permissions: self.api.permissions().await?,
            questions: self.api.questions().await?,
        })
    }
}

fn title(channel: &ChannelKey) -> String {
    format!("nacre {channel}")
}

/// Of the last turn: earlier ones are over.
fn subagents(messages: &[wire::MessageWithParts]) -> Vec<String> {
    let last_prompt = messages
        .iter()
        .rposition(|message| message.info.role == wire::Role::User)
        .unwrap_or(0);
    let parts = messages[last_prompt..]
        .iter()
        .flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match &part.body {
            PartBody::Tool { state, .. } => state.metadata["sessionId"].as_str().map(str::to_owned),
            _ => None,
        })
        .collect()
}
