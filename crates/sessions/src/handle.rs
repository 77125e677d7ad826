use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::session::{
    ClientStatus, Fault, PauseReason, Place, Refused, Rest, StopReason, SuspendReason,
};
use model::{Id, Origin, Session, SnapshotId};
use provider::Pass;
use store::NewEvent;
use store::audit::Line;
use store::prompts::{NewPrompt, Prompt};
use store::snapshots::Snapshot as Receipt;
use telemetry::Span;
use tokio::sync::{mpsc, oneshot, watch};

use wire::link::{Answer, FromHub};

use crate::hub::{Command, Letter, Reply, Wish};
use crate::lease::Lease;
use crate::{Ask, Watch};

/// For a provider to agree that something is let through.
const AGREEING: Duration = Duration::from_secs(5);

/// A live session. Clones lead to the same hub, which ends when it is told to or loses its term.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) session: Id<Session>,
    pub(crate) term: u64,
    /// The name of the provider whose sandboxes it has.
    pub(crate) provider: Arc<str>,
    pub(crate) lease: Lease,
    pub(crate) clients: Arc<AtomicUsize>,
    pub(crate) inbox: mpsc::Sender<Letter>,
    pub(crate) seen: watch::Receiver<Seen>,
}

/// What is to be seen of a session from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub status: ClientStatus,
    pub place: Option<Place>,
    pub snapshot: Option<SnapshotId>,
    /// It is stopped, and its sandboxes are ended.
    pub is_over: bool,
}

/// See [`Handle::attend`].
#[derive(Debug)]
pub struct Attendance(Arc<AtomicUsize>);

impl Drop for Attendance {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It was tried, and did not come about. The session is as before, or rests.
    #[error("{}", .0.message)]
    Failed(Fault),
    /// This process does not own the session any more: open it again.
    #[error("the session has another owner")]
    Gone,
    #[error("this process takes up no sessions: ask one with the role `gateway`")]
    NotHere,
    #[error("the session cannot be written")]
    Store(#[from] store::Error),
    #[error("no provider is called `{0}`")]
    NoProvider(String),
    #[error("what the session was asked to be cannot be read: {0}")]
    BadSpec(String),
}

impl Handle {
    pub fn session(&self) -> Id<Session> {
        self.session
    }

    /// The name of the provider whose sandboxes it has.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Under which it owns the session.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The sandbox that serves the session. Whoever asks while one is on its way waits for that.
    pub async fn ensure_ready(&self) -> Result<Place, HubError> {
        self.ask(Command::EnsureReady).await
    }

    /// Has it run: answered when that is written. From then on it comes about, whoever dies.
    pub async fn begin(&self) -> Result<(), HubError> {
        self.ask(Command::Begin).await
    }

    /// Answered with the receipt for what was kept.
    pub async fn pause(&self, reason: PauseReason) -> Result<Receipt, HubError> {
        let kept = self.ask(|reply| Command::Rest(Rest::Paused(reason), reply));
        kept.await?.ok_or(Refused::NotRunning.into())
    }

    /// One that never ran has nothing to keep.
    pub async fn suspend(&self, reason: SuspendReason) -> Result<Option<Receipt>, HubError> {
        self.ask(|reply| Command::Rest(Rest::Suspended(reason), reply))
            .await
    }

    /// What suspended it is gone.
    pub async fn clear(&self) -> Result<(), HubError> {
        self.ask(Command::Clear).await
    }

    /// Consents to what a degraded session lost, and starts it from `origin`.
    pub async fn recover(&self, origin: Origin) -> Result<Place, HubError> {
        self.ask(|reply| Command::Recover(origin, reply)).await
    }

    /// To another sandbox, with all it has on its disk.
    pub async fn migrate(&self) -> Result<Place, HubError> {
        self.ask(Command::Migrate).await
    }

    /// A snapshot of the running sandbox, which goes on.
    pub async fn snapshot(&self) -> Result<SnapshotId, HubError> {
        self.take(Some(Wish::default())).await
    }

    /// The same, with what is to be said of it.
    pub async fn snapshot_called(&self, message: &str) -> Result<SnapshotId, HubError> {
        let message = Some(message.to_owned());
        self.take(Some(Wish { message })).await
    }

    /// The same, for a fork to begin from: nobody asked for it to be kept beyond that.
    pub(crate) async fn fork_point(&self) -> Result<SnapshotId, HubError> {
        self.take(None).await
    }

    async fn take(&self, wish: Option<Wish>) -> Result<SnapshotId, HubError> {
        self.ask(|reply| Command::Snapshot(wish, reply)).await
    }

    /// For good. Answered when that is written; its sandbox is ended and its disk sealed after.
    pub async fn stop(&self, reason: StopReason) -> Result<(), HubError> {
        self.ask(|reply| Command::Stop(reason, reply)).await
    }

    /// Until it is stopped and its last sandbox is ended.
    pub async fn is_over(&self) -> Result<(), HubError> {
        let mut seen = self.seen.clone();
        let over = seen.wait_for(|seen| seen.is_over).await;
        over.map(drop).map_err(|_| HubError::Gone)
    }

    /// Now, and whenever it changes.
    pub fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.clone()
    }

    /// Asks the agent something. The same id again answers what became of the first.
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<Prompt, HubError> {
        self.ask(|reply| Command::Prompt(prompt, None, reply)).await
    }

    /// The same, and who asked is written down with it: both, or neither.
    pub async fn prompt_by(&self, prompt: NewPrompt, line: Line) -> Result<Prompt, HubError> {
        let line = Some(Box::new(line));
        self.ask(|reply| Command::Prompt(prompt, line, reply)).await
    }

    /// Puts another text in the place of one that still waits.
    pub async fn edit(&self, prompt: &str, ask: &Ask) -> Result<(), HubError> {
        let (prompt, ask) = (prompt.to_owned(), Box::new(ask.clone()));
        self.ask(|reply| Command::Edit { prompt, ask, reply }).await
    }

    /// Takes one back that still waits.
    pub async fn withdraw(&self, prompt: &str) -> Result<(), HubError> {
        self.ask(|reply| Command::Withdraw(prompt.to_owned(), reply))
            .await
    }

    /// Ends the turn of a channel, or all.
    pub async fn cancel(&self, channel: Option<&str>) -> Result<(), HubError> {
        let channel = channel.map(str::to_owned);
        self.say(FromHub::Cancel { channel }).await
    }

    pub async fn answer(
        &self,
        question_id: &str,
        item: usize,
        answer: Option<Answer>,
    ) -> Result<(), HubError> {
        let question_id = question_id.to_owned();
        self.say(FromHub::Answer {
            question_id,
            item,
            answer,
        })
        .await
    }

    pub async fn permit(&self, id: &str, allow: bool) -> Result<(), HubError> {
        let id = id.to_owned();
        self.say(FromHub::Permission { id, allow }).await
    }

    /// Undoes a message, what it did to files, and all that came after it.
    pub async fn revert(
        &self,
        message_id: String,
        request_id: Option<String>,
        channel: Option<String>,
    ) -> Result<(), HubError> {
        self.say(FromHub::Revert {
            message_id,
            request_id,
            channel,
        })
        .await
    }

    /// What the agent changed; told as `diff_result`.
    pub async fn diff(&self, request_id: String, channel: Option<String>) -> Result<(), HubError> {
        self.say(FromHub::Diff {
            request_id,
            channel,
        })
        .await
    }

    /// Told as `review_result`.
    pub async fn review(
        &self,
        request_id: String,
        focus: Option<String>,
        model: Option<String>,
    ) -> Result<(), HubError> {
        self.say(FromHub::Review {
            request_id,
            focus,
            model,
        })
        .await
    }

    /// A slash command of the agent; told as `command_result`.
    pub async fn command(
        &self,
        request_id: String,
        command: String,
        args: Option<String>,
        channel: Option<String>,
    ) -> Result<(), HubError> {
        self.say(FromHub::Command {
            request_id,
            command,
            args,
            channel,
        })
        .await
    }

    /// The channel's next prompt begins a new conversation.
    pub async fn new_conversation(
        &self,
        request_id: String,
        channel: String,
    ) -> Result<(), HubError> {
        self.say(FromHub::NewSession {
            request_id,
            channel,
        })
        .await
    }

    /// To the runner as it is; what comes of it is told.
    pub(crate) async fn say(&self, frame: FromHub) -> Result<(), HubError> {
        self.ask(|reply| Command::Say(frame, reply)).await
    }

    /// Puts something into the log that all who watch are told: an object with a `type`.
    pub async fn announce(&self, frame: &serde_json::Value) -> Result<(), HubError> {
        let event = NewEvent::from_json(frame.to_string())?;
        self.ask(|reply| Command::Announce(event, reply)).await
    }

    /// Lets its sandboxes reach something: with an end the one that serves, until then, and without
    /// one all that follow. `frame` is put into the log. Answered whether the sandbox has it: if
    /// not, it will.
    pub async fn let_out(&self, pass: Pass, frame: &serde_json::Value) -> Result<bool, HubError> {
        let event = NewEvent::from_json(frame.to_string())?;
        let granted = self
            .ask(|reply| Command::LetOut(pass, event, reply))
            .await?;
        let Some((mut agreed, number)) = granted.agreed else {
            return Ok(false);
        };
        let agreeing = agreed.wait_for(|agreed| *agreed >= number);
        let agreed = tokio::time::timeout(AGREEING, agreeing).await;
        Ok(matches!(agreed, Ok(Ok(_))))
    }

    /// Gives it another title, and says so.
    pub async fn rename(&self, title: &str) -> Result<(), HubError> {
        let title = title.to_owned();
        self.ask(|reply| Command::Rename(title, reply)).await
    }

    /// Hides it from listings, or shows it again.
    pub async fn archive(&self, archived: bool) -> Result<(), HubError> {
        self.ask(|reply| Command::Archive(archived, reply)).await
    }

    /// Gives up the memory of a session that is paused in place; its disk stays.
    pub async fn store(&self) -> Result<(), HubError> {
        self.ask(Command::Store).await
    }

    /// All that is told from now on.
    pub async fn watch(&self) -> Result<Watch, HubError> {
        self.ask(Command::Watch).await
    }

    /// Somebody is there for as long as this is held: a sandbox that ends is moved then, and not
    /// paused.
    pub fn attend(&self) -> Attendance {
        self.clients.fetch_add(1, Ordering::Relaxed);
        Attendance(Arc::clone(&self.clients))
    }

    pub fn is_gone(&self) -> bool {
        self.inbox.is_closed()
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, HubError> {
        let (reply, answer) = oneshot::channel();
        let (command, asked) = (command(reply), telemetry::current());
        // What nobody traces is not worth a trace of its own.
        let mut span = match asked.trace {
            Some(trace) => telemetry::span(command.name(), Some(trace))
                .with("nacre.session", self.session.to_string()),
            None => Span::none(),
        };
        let context = span.context(&asked);
        let letter = Letter { command, context };
        let sent = self.inbox.send(letter).await;
        sent.map_err(|_| HubError::Gone)?;
        let answered = answer.await.unwrap_or(Err(HubError::Gone));
        if let Err(error) = &answered {
            span.fail(error.to_string());
        }
        answered
    }
}
