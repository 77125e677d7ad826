use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::protocol::Frame;

/// What one client was told of a session, kept as a client keeps it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Book {
    /// By number, as it came.
    pub(crate) numbered: BTreeMap<u64, String>,
    /// The text of parts, as far as deltas and open parts told it. By message and part.
    pub(crate) texts: HashMap<(String, String), String>,
    pub(crate) deltas: u64,
    /// What should not have been told so.
    pub(crate) wrong: Vec<String>,
}

impl Book {
    pub(crate) fn last(&self) -> u64 {
        self.numbered.keys().next_back().copied().unwrap_or(0)
    }

    pub(crate) fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Numbered { seq, body } => {
                let next = self.last() + 1;
                match self.numbered.get(&seq) {
                    Some(before) if *before != body => {
                        self.wrong
                            .push(format!("{seq} was told twice, and differently"));
                    }
                    Some(_) => {}
                    None if seq != next => {
                        self.wrong.push(format!("{seq} came where {next} is next"));
                    }
                    None => {
                        self.numbered.insert(seq, body);
                    }
                }
            }
            Frame::Passing(text) => {
                let Ok(frame) = serde_json::from_str::<Value>(&text) else {
                    self.wrong.push(format!("not JSON: {text}"));
                    return;
                };
                self.pass(&frame);
            }
        }
    }

    fn pass(&mut self, frame: &Value) {
        let word = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
        let key = (word("message_id"), word("part_id"));
        if frame["type"] == "part" {
            let text = frame["content"]["text"].as_str().unwrap_or_default();
            self.texts.insert(key, text.to_owned());
            return;
        }
        self.deltas += 1;
        let held = self.texts.entry(key).or_default();
        // One that does not follow what is held is not applied.
        if frame["offset"] == held.len() as u64 {
            held.push_str(frame["text"].as_str().unwrap_or_default());
        }
    }
}
