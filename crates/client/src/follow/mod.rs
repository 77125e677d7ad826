//! A session's socket that heals: every numbered frame once and in order.

mod dial;
mod drive;
mod line;
mod outbox;
mod pace;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use wire::link::Answer;
use wire::v1::{FromClient, NewPrompt};

use self::drive::{Drive, Order};
use crate::calls::new_prompt_id;
use crate::{Client, ClientError, Frame};

pub use self::dial::Socket;
pub use self::pace::Pace;

/// Frames that wait for whoever reads. When it is full the server is not read, and begins anew for
/// us (`resync`) if that takes too long.
const UPDATES: usize = 256;
const ORDERS: usize = 16;

/// How a session is followed.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// The number of the last frame that is known. None: everything as it is now comes first, in an
    /// `init`.
    pub since: Option<u64>,
    /// A paused session resumes when somebody follows it.
    pub wake: bool,
    pub pace: Pace,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self {
            since: None,
            wake: true,
            pace: Pace::default(),
        }
    }
}

/// What happens on the line.
#[derive(Debug)]
pub enum Update {
    /// Connected; frames follow.
    Online,
    Frame(Frame),
    /// The line is lost, and is tried again by itself.
    Offline {
        why: ClientError,
        again_in: Duration,
    },
    /// It would not help to try again. Nothing follows.
    Refused(ClientError),
}

/// A session that is followed, until this is dropped. A stream of [`Update`]s.
pub struct Follow {
    updates: mpsc::Receiver<Update>,
    commands: Commands,
    /// Ends with this.
    _task: JoinSet<()>,
}

impl Client {
    /// Goes on after the frame of that number, or begins with an `init`. A paused session resumes.
    pub fn follow(&self, session: &str, since: Option<u64>) -> Result<Follow, ClientError> {
        let options = FollowOptions {
            since,
            ..FollowOptions::default()
        };
        self.follow_with(session, options)
    }

    /// As [`Client::follow`]. Must be called in a tokio runtime.
    pub fn follow_with(
        &self,
        session: &str,
        options: FollowOptions,
    ) -> Result<Follow, ClientError> {
        let url = self.at(&["v1", "sessions", session, "connect"])?;
        let (to_reader, updates) = mpsc::channel(UPDATES);
        let (orders, from_writer) = mpsc::channel(ORDERS);
        let drive = Drive::new(self.clone(), url, options, to_reader, from_writer);
        let mut task = JoinSet::new();
        task.spawn(drive.run());
        Ok(Follow {
            updates,
            commands: Commands { orders },
            _task: task,
        })
    }
}

impl Follow {
    /// None after [`Update::Refused`].
    pub async fn next(&mut self) -> Option<Update> {
        self.updates.recv().await
    }

    /// Somebody's hand on the session; as many as are needed.
    pub fn commands(&self) -> Commands {
        self.commands.clone()
    }
}

impl Stream for Follow {
    type Item = Update;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Update>> {
        self.updates.poll_recv(context)
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follow").finish_non_exhaustive()
    }
}

/// What can be said to a session that is followed.
///
/// Prompts, answers and permissions have names: they are kept while there is no connection, and sent
/// again after one broke, until the session tells of them. Anything else is said now, or
/// [`ClientError::NotConnected`].
#[derive(Debug, Clone)]
pub struct Commands {
    orders: mpsc::Sender<Order>,
}

impl Commands {
    /// Its id: the caller's own, or one that is made here.
    pub async fn prompt(&self, mut prompt: NewPrompt) -> Result<String, ClientError> {
        let id = prompt.id.get_or_insert_with(new_prompt_id).clone();
        self.send(FromClient::Prompt(prompt)).await?;
        Ok(id)
    }

    /// No answer: the question is declined.
    pub async fn answer(
        &self,
        question_id: &str,
        item: usize,
        answer: Option<Answer>,
    ) -> Result<(), ClientError> {
        let question_id = question_id.to_owned();
        self.send(FromClient::Answer {
            question_id,
            item,
            answer,
        })
        .await
    }

    pub async fn allow(&self, permission: &str) -> Result<(), ClientError> {
        let (id, allow) = (permission.to_owned(), true);
        self.send(FromClient::Permission { id, allow }).await
    }

    pub async fn refuse(&self, permission: &str) -> Result<(), ClientError> {
        let (id, allow) = (permission.to_owned(), false);
        self.send(FromClient::Permission { id, allow }).await
    }

    /// Ends the running turns, on one channel or on all.
    pub async fn cancel(&self, channel: Option<&str>) -> Result<(), ClientError> {
        let channel = channel.map(str::to_owned);
        self.send(FromClient::Cancel { channel }).await
    }

    pub async fn pause(&self) -> Result<(), ClientError> {
        self.send(FromClient::Pause).await
    }

    /// Any of them.
    pub async fn send(&self, command: FromClient) -> Result<(), ClientError> {
        let (reply, answer) = oneshot::channel();
        let order = Order::Say { command, reply };
        let sent = self.orders.send(order).await;
        sent.map_err(|_| ClientError::Ended)?;
        answer.await.unwrap_or(Err(ClientError::Ended))
    }

    /// Does not wait for the next try: the machine woke up, or the network came back.
    pub async fn reconnect(&self) -> Result<(), ClientError> {
        let sent = self.orders.send(Order::Reconnect).await;
        sent.map_err(|_| ClientError::Ended)
    }
}
