//! What a session's sandbox finds outside: whoever serves its doors, says what its workplace is to
//! become, and answers what its tools ask. Sessions know nothing of models, git hosts or secrets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::session::Place;
use model::{Id, Organisation, Session};
use provider::{Provider, SandboxId, Stream};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wire::link::{Asked, Boot, ErrorFrame, Failed, Usage};

use crate::Handle;
use crate::link::Patience;

/// Connections at one door of one sandbox at a time; whoever comes then waits at the door.
const VISITS: usize = 64;

/// Whose sandbox stands at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    pub organisation: Id<Organisation>,
    pub session: Id<Session>,
    pub generation: u64,
}

#[async_trait]
pub trait Outside: fmt::Debug + Send + Sync {
    /// Those that it serves, beside the link.
    fn doors(&self) -> &'static [&'static str] {
        &[]
    }

    /// A connection that the sandbox made at one of them, until its end.
    async fn visit(&self, _door: &'static str, _visitor: Visitor, _stream: Box<dyn Stream>) {}

    /// What its workplace is told to become, from what the session was asked to be.
    fn dress(&self, _visitor: &Visitor, boot: Boot) -> Boot {
        boot
    }

    /// The workplace in that sandbox was told what to become: it gets what it is to have before it is
    /// asked anything. People read why it did not, and it is tried again.
    async fn is_up(&self, _session: Handle, _place: Place) -> Result<(), String> {
        Ok(())
    }

    /// What so many tokens of a model (`provider/model`) cost in micro-dollars, where somebody knows.
    fn cost(&self, _model: &str, _usage: &Usage) -> Option<u64> {
        None
    }

    /// What a tool inside asks. It is asked once; an answer that is lost is not asked for again.
    async fn answer(&self, _session: Handle, _asked: Asked) -> Result<Value, Failed> {
        Err(unsupported())
    }
}

/// Nobody.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

#[async_trait]
impl Outside for Nothing {}

pub(crate) fn unsupported() -> Failed {
    Failed {
        code: ErrorFrame::UNSUPPORTED.to_owned(),
        message: "this server does not do that".to_owned(),
    }
}

/// Serves one door until it is dropped, and opens it again when it breaks.
pub(crate) async fn attend(
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    visitor: Visitor,
    door: &'static str,
    outside: Arc<dyn Outside>,
    patience: Patience,
) {
    let Patience { call, pauses } = patience;
    let last = pauses.last().copied().unwrap_or(Duration::from_secs(1));
    let mut waits = pauses.iter().copied();
    let mut visits = JoinSet::new();
    loop {
        match timeout(call, provider.serve(sandbox, door)).await {
            Ok(Ok(mut opened)) => {
                waits = pauses.iter().copied();
                while let Ok(stream) = opened.accept().await {
                    while visits.len() >= VISITS {
                        visits.join_next().await;
                    }
                    while visits.try_join_next().is_some() {}
                    let (outside, visitor) = (Arc::clone(&outside), visitor.clone());
                    visits.spawn(async move { outside.visit(door, visitor, stream).await });
                }
            }
            Ok(Err(error)) => tracing::debug!(%sandbox, door, %error, "a door cannot be opened"),
            Err(_) => tracing::debug!(%sandbox, door, "a door is not opened in time"),
        }
        sleep(waits.next().unwrap_or(last)).await;
    }
}
