//! What turns cost, as their agents count them. What was charged is the model door's to say; this is
//! for whoever watches.

use std::collections::BTreeMap;

use store::NewEvent;
use wire::link::{FromRunner, UsageEntry};

use super::Hub;

/// Turns that are over for their agents, and not told yet.
const KEPT: usize = 64;

/// By prompt; `None` where a price is not known.
#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<String, Option<u64>>);

impl Hub {
    pub(super) fn count_cost(&mut self, prompt: &str, entries: &[UsageEntry]) {
        if self.costs.0.len() >= KEPT {
            self.costs.0.clear();
        }
        let outside = &self.shared.outside;
        let cost = entries.iter().try_fold(0_u64, |sum, entry| {
            let cost = outside.cost(&entry.model, &entry.usage)?;
            Some(sum.saturating_add(cost))
        });
        self.costs.0.insert(prompt.to_owned(), cost);
    }

    /// `message.done`, with the cost of its turn where that is known.
    pub(super) fn done_event(&self, body: &FromRunner) -> store::Result<NewEvent> {
        let FromRunner::MessageDone {
            prompt_id: Some(prompt),
            usage: Some(_),
            ..
        } = body
        else {
            return NewEvent::new(body);
        };
        let Some(Some(cost)) = self.costs.0.get(prompt) else {
            return NewEvent::new(body);
        };
        let mut told = serde_json::to_value(body).unwrap_or_default();
        told["usage"]["cost_micros"] = (*cost).into();
        NewEvent::from_json(told.to_string())
    }
}

impl Costs {
    pub(super) fn forget(&mut self, prompt: Option<&str>) {
        if let Some(prompt) = prompt {
            self.0.remove(prompt);
        }
    }
}
