//! Which prompts this boot has seen, so that none runs twice.

use std::collections::{HashMap, VecDeque};

use wire::link::{FromRunner, PromptState};

/// More than a boot ever sees. Past it, what is not remembered is not claimed to be new.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Prompts {
    states: HashMap<String, PromptState>,
    order: VecDeque<String>,
    has_forgotten: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// It came before, and this is what became of it.
    Known(PromptState),
}

impl Prompts {
    pub(super) fn arrive(&mut self, id: &str) -> Arrival {
        if let Some(state) = self.states.get(id) {
            return Arrival::Known(*state);
        }
        self.set(id, PromptState::Received);
        Arrival::New
    }

    /// It was not taken in; it may come again.
    pub(super) fn forget(&mut self, id: &str) {
        self.states.remove(id);
        self.order.retain(|known| known != id);
    }

    pub(super) fn passing(&mut self, frame: &FromRunner) {
        match frame {
            FromRunner::Accepted { prompt_id, .. } => self.set(prompt_id, PromptState::Accepted),
            FromRunner::Complete { prompt_id, .. } => self.set(prompt_id, PromptState::Finished),
            FromRunner::Canceled { prompt_id, .. } => self.set(prompt_id, PromptState::Canceled),
            FromRunner::Error(error) => {
                if let Some(prompt_id) = &error.prompt_id {
                    self.set(prompt_id, PromptState::Failed);
                }
            }
            FromRunner::Busy { prompt_id, .. } => self.forget(prompt_id),
            _ => {}
        }
    }

    pub(super) fn state(&self, id: &str) -> PromptState {
        match self.states.get(id) {
            Some(state) => *state,
            None if self.has_forgotten => PromptState::Unknown,
            None => PromptState::NeverSeen,
        }
    }

    fn set(&mut self, id: &str, state: PromptState) {
        if self.states.insert(id.to_owned(), state).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.states.remove(&oldest);
            self.has_forgotten = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_arrives_once() {
        let mut prompts = Prompts::default();
        assert_eq!(prompts.state("p"), PromptState::NeverSeen);
        assert_eq!(prompts.arrive("p"), Arrival::New);
        assert_eq!(prompts.arrive("p"), Arrival::Known(PromptState::Received));
    }

    #[test]
    fn a_prompt_that_was_not_taken_may_come_again() {
        let mut prompts = Prompts::default();
        prompts.arrive("p");
        prompts.passing(&FromRunner::Busy {
            prompt_id: "p".to_owned(),
            channel: "web:default".to_owned(),
            reason: None,
        });
        assert_eq!(prompts.arrive("p"), Arrival::New);
    }

    #[test]
    fn what_was_forgotten_is_not_called_new() {
        let mut prompts = Prompts::default();
        for n in 0..=MOST {
            prompts.arrive(&n.to_string());
        }
        assert_eq!(prompts.state("0"), PromptState::Unknown);
        assert_eq!(prompts.states.len(), MOST);
    }
}
