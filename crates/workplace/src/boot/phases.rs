//! What a boot is at, told as it goes.

use std::fmt::Display;
use std::time::Instant;

use wire::link::{FromRunner, Phase, PhaseState};

use crate::link::Handle;

/// An essential phase failed; those after it were not begun.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{phase} failed: {why}")]
pub struct Stopped {
    pub phase: &'static str,
    pub why: String,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Phases {
    /// Without a link there is nobody to tell.
    link: Option<Handle>,
}

/// Git tells its progress many times a second; a person reads a few of them.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(250);

impl Phases {
    pub fn new(link: Option<Handle>) -> Self {
        Self { link }
    }

    /// Whom to ask.
    pub(super) fn link(&self) -> Option<&Handle> {
        self.link.as_ref()
    }

    /// A phase without which there is no going on.
    pub async fn run<T, E: Display>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Stopped> {
        self.timed(name, work)
            .await
            .map_err(|why| Stopped { phase: name, why })
    }

    /// A phase that may fail; it says so.
    pub async fn try_to<T, E: Display>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.timed(name, work).await.ok()
    }

    pub async fn say(&self, frame: FromRunner) {
        if let Some(link) = &self.link {
            let _ = link.say(frame).await;
        }
    }

    /// For work that has something to tell on its way.
    pub(super) fn progress(&self, name: &'static str) -> Progress {
        Progress {
            phases: self.clone(),
            name,
            last: None,
            waiting: None,
        }
    }

    async fn timed<T, E: Display>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        let begun = Instant::now();
        self.tell(name, PhaseState::Started, None, None).await;
        let done = work.await.map_err(|error| error.to_string());
        let took = u64::try_from(begun.elapsed().as_millis()).ok();
        match &done {
            Ok(_) => self.tell(name, PhaseState::Done, took, None).await,
            Err(why) => {
                let why = Some(why.clone());
                self.tell(name, PhaseState::Failed, took, why).await;
            }
        }
        done
    }

    async fn tell(
        &self,
        name: &str,
        state: PhaseState,
        took_ms: Option<u64>,
        detail: Option<String>,
    ) {
        let phase = Phase {
            name: name.to_owned(),
            state,
            took_ms,
            detail,
        };
        self.say(FromRunner::Phase(phase)).await;
    }
}

/// The last line of something that talks much.
#[derive(Debug)]
pub(super) struct Progress {
    phases: Phases,
    name: &'static str,
    last: Option<Instant>,
    waiting: Option<String>,
}

impl Progress {
    pub(super) fn line(&mut self, line: &str) {
        self.waiting = Some(line.to_owned());
    }

    /// Tells the last line, if it is time for one.
    pub(super) async fn tell(&mut self) {
        if self.last.is_some_and(|last| last.elapsed() < BETWEEN) {
            return;
        }
        if let Some(line) = self.waiting.take() {
            self.last = Some(Instant::now());
            self.phases
                .tell(self.name, PhaseState::Started, None, Some(line))
                .await;
        }
    }
}
