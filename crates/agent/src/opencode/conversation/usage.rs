//! What answers take.

use super::Running;
use crate::event::{Usage, UsedBy};
use crate::opencode::wire;

impl Running {
    /// Of the attempt that counts.
    pub(super) fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for message in self.answers.values() {
            let usage = usage_of(message);
            sum.input += usage.input;
            sum.output += usage.output;
            sum.reasoning += usage.reasoning;
            sum.cache_read += usage.cache_read;
            sum.cache_write += usage.cache_write;
        }
        sum
    }

    /// Of the attempt's answers, those that took anything.
    pub(super) fn used(&self) -> Vec<UsedBy> {
        let answers = self.answers.values().map(|message| UsedBy {
            message: message.id.clone(),
            model: message.answered_by(),
            usage: usage_of(message),
        });
        answers
            .filter(|used| used.usage != Usage::default())
            .collect()
    }
}

fn usage_of(message: &wire::Message) -> Usage {
    let tokens = message.tokens;
    Usage {
        input: count(tokens.input),
        output: count(tokens.output),
        reasoning: count(tokens.reasoning),
        cache_read: count(tokens.cache.read),
        cache_write: count(tokens.cache.write),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count of tokens: casts saturate, and what is not a number is 0"
)]
pub(super) fn count(tokens: f64) -> u64 {
    tokens as u64
}
