use std::collections::BTreeMap;
use std::sync::Arc;

use wire::link::{FromRunner, Part, PartContent};

/// More open parts, or longer ones, than an agent has. The whole part tells at its end.
const MOST: usize = 64;
const LONGEST: usize = 1 << 20;

/// Text that is still being said: what whoever comes in the middle of it is given whole.
#[derive(Debug, Default)]
pub struct OpenParts {
    /// By message and part.
    open: BTreeMap<(String, String), PartContent>,
}

impl OpenParts {
    /// More of one. False if it does not follow what is held: the sender is wrong.
    pub fn grow(&mut self, message: &str, part: &str, offset: u64, more: &str) -> bool {
        let key = (message.to_owned(), part.to_owned());
        if !self.open.contains_key(&key) && self.open.len() >= MOST {
            return true;
        }
        let content = self.open.entry(key).or_insert_with(|| PartContent::Text {
            text: String::new(),
        });
        let (PartContent::Text { text } | PartContent::Reasoning { text }) = content else {
            return false;
        };
        if offset != text.len() as u64 {
            return false;
        }
        if text.len() + more.len() <= LONGEST {
            text.push_str(more);
        }
        true
    }

    /// One as it is now.
    pub fn put(&mut self, part: &Part) {
        let key = (part.message_id.clone(), part.part_id.clone());
        if self.open.len() < MOST || self.open.contains_key(&key) {
            self.open.insert(key, part.content.clone());
        }
    }

    pub fn close(&mut self, message: &str, part: &str) {
        self.open.remove(&(message.to_owned(), part.to_owned()));
    }

    /// Those of a message, which is over.
    pub fn close_all(&mut self, message: &str) -> Vec<String> {
        let of_it = self.open.extract_if(.., |(of, _), _| of == message);
        of_it.map(|((_, part), _)| part).collect()
    }

    /// Each whole, as a frame for clients.
    pub fn whole(&self) -> Vec<Arc<str>> {
        let frames = self.open.iter().map(|((message, part), content)| {
            let part = FromRunner::Part(Part {
                message_id: message.clone(),
                part_id: part.clone(),
                open: true,
                content: content.clone(),
            });
            serde_json::to_string(&part).unwrap_or_default().into()
        });
        frames.collect()
    }
}
