//! What the rest of the workplace holds of the link.

use carrier::{Connection, Io};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use wire::link::{Call, FromRunner, MAX_LINK_FRAME};

use super::Role;
use super::fit::{fit, length};
use super::journal::Room;
use super::pending::{Answer, AskError};

/// Speaks to the hub, whether it is there or not. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) adopted: mpsc::Sender<Connection>,
    /// Apart from commands, which wait while the journal is full.
    pub(super) end: mpsc::Sender<oneshot::Sender<()>>,
    pub(super) state: watch::Receiver<State>,
}

#[derive(Debug)]
pub(super) enum Command {
    Say(FromRunner),
    /// Answered when it survives the machine.
    SayDurably(FromRunner, oneshot::Sender<Result<(), SayError>>),
    Ask {
        kind: String,
        payload: Value,
        who: Who,
        reply: oneshot::Sender<Answer>,
    },
    /// Answered when the hub has everything.
    Drain(oneshot::Sender<()>),
}

/// Where the agent was when it asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    pub channel: Option<String>,
    pub prompt_id: Option<String>,
}

/// How the link stands. Something to look at and to wait for, not to decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The hub is there and has answered our hello.
    pub is_connected: bool,
    /// How often that has come about.
    pub connections: u64,
    pub room: Room,
    /// Frames that the hub has not acknowledged.
    pub unacknowledged: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SayError {
    #[error("a frame has at most {MAX_LINK_FRAME} bytes; this one has {0}, cut its content")]
    TooLong(usize),
    #[error("it could not be written to the disk; nothing may be begun on its strength")]
    NotDurable,
    #[error("the link has been shut down")]
    Over,
}

impl Handle {
    /// Says something to the hub, now or when it is back. Waits while the journal is full: whoever
    /// produces what is said has to wait, too. What is too long for a frame is cut, and says so.
    pub async fn say(&self, frame: FromRunner) -> Result<(), SayError> {
        let (frame, remark) = fit(frame)?;
        for frame in [Some(frame), remark].into_iter().flatten() {
            let said = self.commands.send(Command::Say(frame)).await;
            said.map_err(|_| SayError::Over)?;
        }
        Ok(())
    }

    /// As [`Handle::say`], and returns when it survives a crash of this machine. Without a journal
    /// on disk it survives nothing, and returns at once. With a disk that fails it may have been said
    /// nevertheless: say next what became of it.
    pub async fn say_durably(&self, frame: FromRunner) -> Result<(), SayError> {
        let (frame, _) = fit(frame)?;
        let (reply, done) = oneshot::channel();
        let said = self.commands.send(Command::SayDurably(frame, reply)).await;
        said.map_err(|_| SayError::Over)?;
        done.await.unwrap_or(Err(SayError::Over))
    }

    /// The prompt is ours. Only after this the agent may be called; if it fails, `busy` takes it back.
    pub async fn accept(&self, prompt_id: &str, channel: &str) -> Result<(), SayError> {
        self.say_durably(FromRunner::Accepted {
            prompt_id: prompt_id.to_owned(),
            channel: channel.to_owned(),
        })
        .await
    }

    /// Asks the hub for something and waits for its answer, across disconnections.
    pub async fn ask<C: Call>(&self, call: &C, who: Who) -> Result<C::Answer, AskError> {
        let bad = |error: serde_json::Error| AskError::BadAnswer {
            kind: C::KIND.to_owned(),
            reason: error.to_string(),
        };
        let payload = serde_json::to_value(call).map_err(bad)?;
        let answer = self.ask_for(C::KIND, payload, who).await?;
        serde_json::from_value(answer).map_err(bad)
    }

    /// As [`Handle::ask`], for a kind without types of its own.
    pub async fn ask_for(&self, kind: &str, payload: Value, who: Who) -> Answer {
        let length = length(&payload) + kind.len() + 1024;
        if length > MAX_LINK_FRAME {
            return Err(AskError::TooLong(length));
        }
        let (reply, answer) = oneshot::channel();
        let ask = Command::Ask {
            kind: kind.to_owned(),
            payload,
            who,
            reply,
        };
        // A full journal makes speakers wait; a request is refused instead.
        if self.state().room >= Room::Tight {
            return Err(AskError::JournalFull);
        }
        let asking = self.commands.send(ask);
        match tokio::time::timeout(wire::link::patience(kind), asking).await {
            Ok(Ok(())) => answer.await.unwrap_or(Err(AskError::ShuttingDown)),
            Ok(Err(_)) => Err(AskError::ShuttingDown),
            Err(_) => Err(AskError::JournalFull),
        }
    }

    /// Takes a connection that the hub made to our port: upgraded, and let in. It replaces the one
    /// before. `read` is what came after the upgrade already.
    pub async fn adopt(&self, io: impl Io + 'static, read: Vec<u8>) -> Result<(), SayError> {
        let connection = Connection::upgraded(io, read, Role::Server).await;
        let adopted = self.adopted.send(connection).await;
        adopted.map_err(|_| SayError::Over)
    }

    /// Returns when the hub has everything that was said.
    pub async fn drain(&self) -> Result<(), SayError> {
        let (reply, done) = oneshot::channel();
        let asked = self.commands.send(Command::Drain(reply)).await;
        asked.map_err(|_| SayError::Over)?;
        done.await.map_err(|_| SayError::Over)
    }

    /// Answers everybody who waits, says goodbye, and ends the link. What the hub does not have
    /// stays in the journal.
    pub async fn shut_down(&self) {
        let (reply, done) = oneshot::channel();
        if self.end.send(reply).await.is_ok() {
            let _ = done.await;
        }
    }

    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Returns when the state is as asked, or the link is over.
    pub async fn wait_until(&self, is_so: impl FnMut(&State) -> bool) {
        let _ = self.state.clone().wait_for(is_so).await;
    }
}
