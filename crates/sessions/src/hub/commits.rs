use std::collections::VecDeque;
use std::sync::Arc;

use store::prompts::{Destination, Prompt};
use store::{Committed, Pending};
use telemetry::Context;
use wire::link::{Asked, FromHub};

use super::Reply;

/// What is on its way into the log, in order, and what is done once it is there. What is not kept
/// takes its place among it, so that nobody hears of it too early.
#[derive(Debug, Default)]
pub(super) struct Commits {
    line: VecDeque<Item>,
}

#[derive(Debug)]
enum Item {
    Write { pending: Pending, then: Then },
    Passing(Arc<str>),
}

/// What is done after a commit.
#[derive(Debug, Default)]
pub(super) struct Then {
    /// The frame that is acknowledged.
    pub(super) frame: Option<Taken>,
    pub(super) says: Vec<Say>,
    /// Whoever asked for a new prompt.
    pub(super) asked: Option<Reply<Prompt>>,
    pub(super) cause: Context,
    /// Whoever wanted something written.
    pub(super) wanted: Option<Reply<()>>,
}

impl Then {
    pub(super) fn wanted(reply: Reply<()>) -> Self {
        Self {
            wanted: Some(reply),
            ..Self::default()
        }
    }
}

/// A runner's numbered frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) connection: u64,
    /// Of an earlier boot.
    pub(super) from_boot: Option<String>,
    pub(super) boot: String,
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) enum Say {
    Prompt {
        id: String,
        to: Destination,
    },
    Frame(FromHub),
    /// What a tool inside asks is carried out, and answered when that is done.
    Answer(Box<Asked>),
}

#[derive(Debug)]
pub(super) enum Settled {
    Committed(Box<store::Result<Committed>>, Then),
    Passing(Arc<str>),
}

impl Commits {
    pub(super) fn put(&mut self, pending: Pending, then: Then) {
        self.line.push_back(Item::Write { pending, then });
    }

    pub(super) fn pass(&mut self, text: Arc<str>) {
        self.line.push_back(Item::Passing(text));
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    /// The next that is there; never when nothing is on its way. May be dropped and asked again.
    pub(super) async fn next(&mut self) -> Settled {
        let committed = match self.line.front_mut() {
            None => return std::future::pending().await,
            Some(Item::Passing(_)) => None,
            Some(Item::Write { pending, .. }) => Some(pending.await),
        };
        match (self.line.pop_front(), committed) {
            (Some(Item::Write { then, .. }), Some(committed)) => {
                Settled::Committed(Box::new(committed), then)
            }
            (Some(Item::Passing(text)), _) => Settled::Passing(text),
            _ => unreachable!("the first was looked at just now"),
        }
    }
}
