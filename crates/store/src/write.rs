//! What an owner says about its session at once.

use model::Timestamp;

use crate::audit;
use crate::channels::Channel;
use crate::frames::{Frame, Intake};
use crate::jobs::NewJob;
use crate::log::{Event, NewEvent};
use crate::prompts::{Destination, End, NewPrompt, Queued};
use crate::sandboxes;
use crate::snapshots::Snapshot;
use crate::{Fence, Result, StateColumns, Tx};

/// What an owner has to say about its session at once: all of it is committed, or none.
///
/// Changes are made in the order in which they are named, and events get their numbers last.
#[derive(Debug, Clone)]
pub struct Write {
    pub(crate) fence: Fence,
    at: Timestamp,
    frame: Option<Frame>,
    prompt: Option<NewPrompt>,
    changes: Vec<Change>,
    pub(crate) events: Vec<NewEvent>,
}

#[derive(Debug, Clone)]
enum Change {
    State(Box<StateColumns>),
    Touch,
    Title(String),
    Spec(String),
    Archived(Option<Timestamp>),
    SkipFrames(Frame),
    Edit(String, String),
    Dispatch(String, Destination),
    Accept(String, Destination),
    GiveBack(String, Destination),
    End(String, End, Option<String>),
    RequestSandbox(u64, String, String),
    MoveSandbox(u64, sandboxes::Status),
    Snapshot(Box<Snapshot>),
    Channel(Channel),
    Enqueue(Box<NewJob>),
    CancelJob(String, String),
    CancelJobs,
    Audit(Box<audit::Line>),
}

/// What came of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// With their numbers; none when the frame or the prompt was known already.
    pub events: Vec<Event>,
    /// The frame was committed before, and so was all that came with it.
    pub frame: Option<Intake>,
    pub prompt: Option<Queued>,
}

impl Write {
    pub fn new(fence: Fence, at: Timestamp) -> Self {
        Self {
            fence,
            at,
            frame: None,
            prompt: None,
            changes: Vec::new(),
            events: Vec::new(),
        }
    }

    /// All of this comes from a runner's frame: if it is known, nothing is written.
    #[must_use]
    pub fn frame(mut self, frame: Frame) -> Self {
        self.frame = Some(frame);
        self
    }

    /// All of this comes with a new prompt: if it is known, nothing is written.
    #[must_use]
    pub fn queue_prompt(mut self, prompt: NewPrompt) -> Self {
        self.prompt = Some(prompt);
        self
    }

    #[must_use]
    pub fn event(mut self, event: NewEvent) -> Self {
        self.events.push(event);
        self
    }

    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = NewEvent>) -> Self {
        self.events.extend(events);
        self
    }

    #[must_use]
    pub fn state(self, state: impl Into<StateColumns>) -> Self {
        self.with(Change::State(Box::new(state.into())))
    }

    /// Somebody used the session.
    #[must_use]
    pub fn touch(self) -> Self {
        self.with(Change::Touch)
    }

    #[must_use]
    pub fn title(self, title: impl Into<String>) -> Self {
        self.with(Change::Title(title.into()))
    }

    /// What it was asked to be, from now on.
    #[must_use]
    pub fn spec(self, spec: impl Into<String>) -> Self {
        self.with(Change::Spec(spec.into()))
    }

    /// Hides it from listings.
    #[must_use]
    pub fn archive(self) -> Self {
        let at = Some(self.at);
        self.with(Change::Archived(at))
    }

    /// Shows it again.
    #[must_use]
    pub fn unarchive(self) -> Self {
        self.with(Change::Archived(None))
    }

    /// A runner has lost what it said up to this frame.
    #[must_use]
    pub fn skip_frames(self, upto: Frame) -> Self {
        self.with(Change::SkipFrames(upto))
    }

    /// Of one that still waits.
    #[must_use]
    pub fn edit_prompt(self, prompt: impl Into<String>, body: impl Into<String>) -> Self {
        self.with(Change::Edit(prompt.into(), body.into()))
    }

    #[must_use]
    pub fn dispatch_prompt(self, prompt: impl Into<String>, to: Destination) -> Self {
        self.with(Change::Dispatch(prompt.into(), to))
    }

    #[must_use]
    pub fn accept_prompt(self, prompt: impl Into<String>, from: Destination) -> Self {
        self.with(Change::Accept(prompt.into(), from))
    }

    #[must_use]
    pub fn give_back_prompt(self, prompt: impl Into<String>, from: Destination) -> Self {
        self.with(Change::GiveBack(prompt.into(), from))
    }

    #[must_use]
    pub fn end_prompt(self, prompt: impl Into<String>, end: End, reason: Option<String>) -> Self {
        self.with(Change::End(prompt.into(), end, reason))
    }

    #[must_use]
    pub fn request_sandbox(
        self,
        generation: u64,
        sandbox: impl Into<String>,
        provider: impl Into<String>,
    ) -> Self {
        self.with(Change::RequestSandbox(
            generation,
            sandbox.into(),
            provider.into(),
        ))
    }

    #[must_use]
    pub fn move_sandbox(self, generation: u64, status: sandboxes::Status) -> Self {
        self.with(Change::MoveSandbox(generation, status))
    }

    #[must_use]
    pub fn snapshot(self, snapshot: Snapshot) -> Self {
        self.with(Change::Snapshot(Box::new(snapshot)))
    }

    #[must_use]
    pub fn channel(self, channel: Channel) -> Self {
        self.with(Change::Channel(channel))
    }

    #[must_use]
    pub fn enqueue(self, job: NewJob) -> Self {
        self.with(Change::Enqueue(Box::new(job)))
    }

    #[must_use]
    pub fn cancel_job(self, kind: impl Into<String>, key: impl Into<String>) -> Self {
        self.with(Change::CancelJob(kind.into(), key.into()))
    }

    /// All jobs of the session that wait.
    #[must_use]
    pub fn cancel_jobs(self) -> Self {
        self.with(Change::CancelJobs)
    }

    #[must_use]
    pub fn audit(self, line: audit::Line) -> Self {
        self.with(Change::Audit(Box::new(line)))
    }

    fn with(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// Makes it part of a transaction that does more.
    pub async fn apply(&self, tx: &mut Tx) -> Result<Committed> {
        let at = self.at;
        let mut session = tx.fenced(self.fence).await?;
        let mut done = Committed {
            events: Vec::new(),
            frame: None,
            prompt: None,
        };
        if let Some(frame) = &self.frame {
            done.frame = Some(session.take_frame(frame, at).await?);
            if done.frame == Some(Intake::Known) {
                return Ok(done);
            }
        }
        if let Some(prompt) = &self.prompt {
            let queued = session.queue_prompt(prompt, at).await?;
            let known = matches!(queued, Queued::Known(_));
            done.prompt = Some(queued);
            if known {
                return Ok(done);
            }
        }
        for change in &self.changes {
            match change {
                Change::State(state) => session.set_state(state).await?,
                Change::Touch => session.touch(at).await?,
                Change::Title(title) => session.set_title(title).await?,
                Change::Spec(spec) => session.set_spec(spec).await?,
                Change::Archived(at) => session.set_archived(*at).await?,
                Change::SkipFrames(upto) => session.skip_frames(upto, at).await?,
                Change::Edit(id, body) => session.edit_prompt(id, body).await?,
                Change::Dispatch(id, to) => session.dispatch_prompt(id, to, at).await?,
                Change::Accept(id, from) => session.accept_prompt(id, from, at).await?,
                Change::GiveBack(id, from) => session.give_back_prompt(id, from).await?,
                Change::End(id, end, reason) => {
                    session.end_prompt(id, *end, reason.as_deref(), at).await?;
                }
                Change::RequestSandbox(generation, sandbox, provider) => {
                    session
                        .request_sandbox(*generation, sandbox, provider, at)
                        .await?;
                }
                Change::MoveSandbox(generation, status) => {
                    session.move_sandbox(*generation, *status, at).await?;
                }
                Change::Snapshot(snapshot) => session.record_snapshot(snapshot).await?,
                Change::Channel(channel) => session.set_channel(channel, at).await?,
                Change::Enqueue(job) => session.enqueue(job).await?,
                Change::CancelJob(kind, key) => {
                    session.cancel_job(kind, key).await?;
                }
                Change::CancelJobs => {
                    session.cancel_jobs().await?;
                }
                Change::Audit(line) => session.tx.record(line).await?,
            }
        }
        done.events = session.append(&self.events, at).await?;
        Ok(done)
    }
}
