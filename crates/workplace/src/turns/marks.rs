//! Which prompt of the agent's each of our answers belongs to, so that an answer can be taken back
//! by its name, also after a restart.

use std::collections::VecDeque;

use agent::prompt::PromptId;
use agent::{ChannelKey, Mark};
use serde::{Deserialize, Serialize};

/// Older answers cannot be taken back by name.
const MOST: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marks {
    /// The oldest first.
    entries: VecDeque<Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    channel: ChannelKey,
    prompt: PromptId,
    mark: Mark,
    messages: Vec<String>,
}

impl Marks {
    /// The agent has taken the prompt, as the message it calls so.
    pub(super) fn taken(&mut self, channel: &ChannelKey, prompt: &PromptId, mark: &Mark) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.prompt == *prompt) {
            entry.mark = mark.clone();
            return;
        }
        if self.entries.len() == MOST {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry {
            channel: channel.clone(),
            prompt: prompt.clone(),
            mark: mark.clone(),
            messages: Vec::new(),
        });
    }

    pub(super) fn opened(&mut self, message: &str, prompt: &PromptId) {
        if let Some(entry) = self.entries.iter_mut().rev().find(|e| e.prompt == *prompt) {
            entry.messages.push(message.to_owned());
        }
    }

    pub(super) fn find(&self, message: &str) -> Option<(ChannelKey, Mark)> {
        let entry = self
            .entries
            .iter()
            .rev()
            .find(|entry| entry.messages.iter().any(|known| known == message))?;
        Some((entry.channel.clone(), entry.mark.clone()))
    }

    /// The answers to prompts that were taken back.
    pub(super) fn forget(&mut self, marks: &[Mark]) -> Vec<String> {
        let (gone, kept) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(|entry| marks.contains(&entry.mark));
        self.entries = kept;
        let gone: VecDeque<Entry> = gone;
        gone.into_iter().flat_map(|entry| entry.messages).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(number: usize) -> (PromptId, Mark) {
        (PromptId(format!("p{number}")), Mark(format!("m{number}")))
    }

    #[test]
    fn an_answer_leads_to_its_prompt_and_goes_with_it() {
        let mut marks = Marks::default();
        for number in 1..=3 {
            let (prompt, mark) = marked(number);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened(&format!("a{number}"), &prompt);
        }
        assert_eq!(marks.find("a2"), Some((ChannelKey::web(), marked(2).1)));
        let gone = marks.forget(&[marked(2).1, marked(3).1]);
        assert_eq!(gone, ["a2", "a3"]);
        assert_eq!(marks.find("a3"), None);
        assert!(marks.find("a1").is_some());
    }

    #[test]
    fn a_prompt_that_is_sent_again_to_another_model_is_still_one() {
        let mut marks = Marks::default();
        let (prompt, mark) = marked(1);
        marks.taken(&ChannelKey::web(), &prompt, &mark);
        marks.opened("a1", &prompt);
        marks.taken(&ChannelKey::web(), &prompt, &Mark("again".to_owned()));
        assert_eq!(
            marks.find("a1").map(|found| found.1.0),
            Some("again".to_owned())
        );
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut marks = Marks::default();
        for number in 0..=MOST {
            let (prompt, mark) = marked(number);
            marks.taken(&ChannelKey::web(), &prompt, &mark);
            marks.opened(&format!("a{number}"), &prompt);
        }
        assert_eq!(marks.find("a0"), None);
        assert!(marks.find("a1").is_some());
    }
}
