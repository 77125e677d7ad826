//! The transcript told a second time, in memory and in the plainest words, to compare with.

use std::collections::BTreeMap;

use nacre_store::Event;
use nacre_store::transcript::{Done, Message, Part};
use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) messages: BTreeMap<String, Message>,
    /// Those that were asked, and whether they are open.
    pub(crate) questions: BTreeMap<String, bool>,
}

impl Oracle {
    pub(crate) fn of(log: &[Event]) -> Self {
        let mut oracle = Self::default();
        for event in log {
            assert!(
                oracle.hear(event),
                "the log has what does not fit: {event:?}"
            );
        }
        oracle
    }

    /// Whether it fits; what does not changes nothing.
    pub(crate) fn hear(&mut self, event: &Event) -> bool {
        let body: Value = serde_json::from_str(&event.body).unwrap();
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let message = text("message_id");
        match event.kind.as_str() {
            "message" => {
                if self
                    .messages
                    .get(&message)
                    .is_some_and(|m| m.removed_seq.is_none())
                {
                    return false;
                }
                let opened = opened(event, &body);
                self.messages.insert(message, opened);
                true
            }
            "part" => self.with_open(&message, |message| {
                let content = body["content"].clone();
                let kind = content["kind"].as_str().unwrap().to_owned();
                let id = text("part_id");
                match message.parts.iter_mut().find(|part| part.id == id) {
                    Some(part) => (part.kind, part.content) = (kind, content),
                    None => message.parts.push(Part {
                        id,
                        position: event.seq,
                        kind,
                        content,
                    }),
                }
            }),
            "part.removed" => self.with_open(&message, |message| {
                message.parts.retain(|part| part.id != text("part_id"));
            }),
            "message.done" => self.with_open(&message, |message| {
                message.done = Some(Done {
                    at: event.at,
                    reason: text("reason"),
                    error: body["error"].as_str().map(str::to_owned),
                    usage: body.get("usage").cloned(),
                });
            }),
            "message.removed" => match self.messages.get_mut(&message) {
                Some(message) => {
                    message.removed_seq.get_or_insert(event.seq);
                    true
                }
                None => false,
            },
            "reverted" => {
                for id in body["message_ids"].as_array().unwrap() {
                    if let Some(message) = self.messages.get_mut(id.as_str().unwrap()) {
                        message.reverted_seq.get_or_insert(event.seq);
                    }
                }
                true
            }
            "question" => {
                let id = text("question_id");
                let new = !self.questions.contains_key(&id);
                self.questions.entry(id).or_insert(true);
                new
            }
            "question_closed" => match self.questions.get_mut(&text("question_id")) {
                Some(open) => std::mem::replace(open, false),
                None => false,
            },
            _ => true,
        }
    }

    fn with_open(&mut self, id: &str, change: impl FnOnce(&mut Message)) -> bool {
        match self.messages.get_mut(id) {
            Some(message) if message.done.is_none() && message.removed_seq.is_none() => {
                change(message);
                true
            }
            _ => false,
        }
    }

    /// In the order in which they were opened.
    pub(crate) fn transcript(&self) -> Vec<Message> {
        let mut all: Vec<Message> = self.messages.values().cloned().collect();
        all.sort_by_key(|message| message.position);
        all
    }

    pub(crate) fn open_questions(&self) -> Vec<&str> {
        let open = self.questions.iter().filter(|(_, open)| **open);
        open.map(|(id, _)| id.as_str()).collect()
    }
}

fn opened(event: &Event, body: &Value) -> Message {
    let word = |key: &str| body[key].as_str().map(str::to_owned);
    let role = word("role").unwrap_or_else(|| "assistant".to_owned());
    let parts = body["parts"].as_array().cloned().unwrap_or_default();
    Message {
        id: word("message_id").unwrap(),
        position: event.seq,
        role: serde_json::from_value(Value::String(role.clone())).unwrap(),
        channel: word("channel").unwrap(),
        prompt_id: word("prompt_id"),
        author: body.get("author").cloned(),
        agent_session: word("agent_session"),
        created_at: event.at,
        done: (role != "assistant").then(|| Done {
            at: event.at,
            reason: "end_turn".to_owned(),
            error: None,
            usage: None,
        }),
        removed_seq: None,
        reverted_seq: None,
        inherited: false,
        parts: parts
            .into_iter()
            .map(|part| Part {
                id: part["part_id"].as_str().unwrap().to_owned(),
                position: event.seq,
                kind: part["content"]["kind"].as_str().unwrap().to_owned(),
                content: part["content"].clone(),
            })
            .collect(),
    }
}
