use std::collections::BTreeSet;
use std::time::Duration;

use model::Timestamp;
use wire::link::{AgentStatus, Use};

use crate::registry::later;

/// Whether anybody or anything uses a sandbox, and since when not. Who merely looks does not, and
/// neither does our own traffic.
#[derive(Debug)]
pub(super) struct Idle {
    /// Channels whose agent is at work.
    busy: BTreeSet<String>,
    is_used: bool,
    since: Option<Timestamp>,
}

/// Channels that are remembered as busy, at most.
const MOST: usize = 1000;

impl Idle {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            busy: BTreeSet::new(),
            is_used: false,
            since: Some(now),
        }
    }

    /// The time runs anew: somebody did something.
    pub(super) fn touch(&mut self, now: Timestamp) {
        if self.since.is_some() {
            self.since = Some(now);
        }
    }

    pub(super) fn agent_is(&mut self, channel: Option<&str>, status: AgentStatus) {
        let is_busy = matches!(
            status,
            AgentStatus::Thinking | AgentStatus::ToolCalling | AgentStatus::Streaming
        );
        match channel {
            Some(channel) if is_busy && self.busy.len() < MOST => {
                self.busy.insert(channel.to_owned());
            }
            Some(channel) => {
                self.busy.remove(channel);
            }
            // Of the whole workplace.
            None if !is_busy => self.busy.clear(),
            None => {}
        }
    }

    pub(super) fn used_for(&mut self, uses: &[Use]) {
        self.is_used = !uses.is_empty();
    }

    /// Another sandbox, of which nothing is known.
    pub(super) fn begin_anew(&mut self, now: Timestamp) {
        *self = Self::new(now);
    }

    /// After everything that happened.
    pub(super) fn follow(&mut self, has_prompts: bool, now: Timestamp) {
        if has_prompts || self.is_used || !self.busy.is_empty() {
            self.since = None;
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// When it has been idle for so long.
    pub(super) fn until(&self, limit: Duration) -> Option<Timestamp> {
        self.since.map(|since| later(since, limit))
    }
}
