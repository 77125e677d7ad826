//! What tools inside ask: carried out beside everything else, answered across a disconnection.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use wire::link::{Asked, ErrorFrame, Failed, FromHub};

use super::{Hub, Outcome};

/// Carried out at a time.
const AT_ONCE: usize = 64;
/// Answers that are said again to a runner that comes back: it drops what it has.
const KEPT: usize = 64;
/// Longer ones are asked for again by whoever wants them.
const KEPT_LENGTH: usize = 16 << 10;
const LONGEST_ID: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Asks {
    under_way: usize,
    answers: VecDeque<FromHub>,
}

impl Hub {
    pub(super) fn carry_out(&mut self, asked: Asked) {
        let id = asked.id.clone();
        if id.len() > LONGEST_ID {
            // Whoever calls it that is not worth an answer.
            return;
        }
        if self.asks.under_way >= AT_ONCE {
            let failed = Failed {
                code: ErrorFrame::OVERLOADED.to_owned(),
                message: "too much is asked for at once: try again later".to_owned(),
            };
            return self.answer_tool(id, Err(failed));
        }
        self.asks.under_way += 1;
        let (outside, handle) = (Arc::clone(&self.shared.outside), self.handle());
        self.work.spawn(async move {
            let answer = outside.answer(handle, asked).await;
            Outcome::Answered { id, answer }
        });
    }

    pub(super) fn is_answered(&mut self, id: String, answer: Result<Value, Failed>) {
        self.asks.under_way = self.asks.under_way.saturating_sub(1);
        self.answer_tool(id, answer);
    }

    fn answer_tool(&mut self, id: String, answer: Result<Value, Failed>) {
        let (ok, error) = match answer {
            Ok(ok) => (Some(ok), None),
            Err(failed) => (None, Some(failed)),
        };
        let length = ok.as_ref().map_or(0, |ok| ok.to_string().len());
        let result = FromHub::Result { id, ok, error };
        if length <= KEPT_LENGTH {
            if self.asks.answers.len() == KEPT {
                self.asks.answers.pop_front();
            }
            self.asks.answers.push_back(result.clone());
        }
        self.say_now(result);
    }

    pub(super) fn answers(&self) -> Vec<FromHub> {
        self.asks.answers.iter().cloned().collect()
    }
}
