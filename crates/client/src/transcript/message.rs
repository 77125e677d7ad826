use std::iter::Sum;

use serde::Serialize;
use serde_json::{Value, json};
use wire::link::Reason;
use wire::v1::{EventPart, Message, Opened};

/// A message as it is now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldMessage {
    pub id: String,
    /// The number of the event that opened it.
    pub position: u64,
    /// `user`, `assistant` or `system`.
    pub role: String,
    pub channel: String,
    pub prompt_id: Option<String>,
    pub author: Option<Value>,
    /// Only an `init` knows when, and whoever told it again: frames have no time.
    #[serde(skip)]
    pub created_at: Option<String>,
    /// Nothing is added to it any more.
    pub done: bool,
    /// `end_turn`, `error` or `canceled`, when it is done.
    pub reason: Option<String>,
    pub error: Option<String>,
    pub usage: Option<Value>,
    pub reverted: bool,
    /// It was said in the session that this one was forked from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// Whole ones in the order in which they came; then open ones, by name.
    parts: Vec<HeldPart>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldPart {
    pub part_id: String,
    /// More of it is being said.
    pub open: bool,
    /// With its `kind`.
    pub content: Value,
    /// The number of the event that brought it first, and its place in that. None while it was
    /// never whole.
    #[serde(skip)]
    position: Option<(u64, usize)>,
}

impl HeldPart {
    /// `text`, `reasoning`, `tool`, …
    pub fn kind(&self) -> &str {
        self.content["kind"].as_str().unwrap_or_default()
    }

    /// Of a part that is text.
    pub fn text(&self) -> &str {
        self.content["text"].as_str().unwrap_or_default()
    }
}

impl HeldMessage {
    pub fn parts(&self) -> &[HeldPart] {
        &self.parts
    }

    /// The answer: its text parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter(|part| part.kind() == "text");
        texts.map(HeldPart::text).collect()
    }

    pub(super) fn open(opened: &Opened, seq: u64) -> Self {
        // What a person or the system says is whole at once.
        let done = opened.role != "assistant";
        let parts = opened.parts.iter().enumerate();
        let parts = parts.map(|(place, part)| HeldPart {
            part_id: part.part_id.clone(),
            open: false,
            content: part.content.clone(),
            position: Some((seq, place)),
        });
        Self {
            id: opened.message_id.clone(),
            position: seq,
            role: opened.role.clone(),
            channel: opened.channel.clone(),
            prompt_id: opened.prompt_id.clone(),
            author: opened.author.clone(),
            created_at: opened.created_at.clone(),
            done,
            reason: done.then(|| word(Reason::EndTurn).to_owned()),
            error: None,
            usage: None,
            reverted: false,
            inherited: opened.inherited,
            parts: parts.collect(),
        }
    }

    /// A part that is whole.
    pub(super) fn put(&mut self, part: &EventPart, seq: u64) {
        match self.find(&part.part_id) {
            Some(held) => {
                held.open = false;
                held.content = part.content.clone();
                held.position.get_or_insert((seq, 0));
            }
            None => self.parts.push(HeldPart {
                part_id: part.part_id.clone(),
                open: false,
                content: part.content.clone(),
                position: Some((seq, 0)),
            }),
        }
        self.sort();
    }

    /// A part of which more is being said, as it is now.
    pub(super) fn show(&mut self, part: &EventPart) {
        if let Some(held) = self.find(&part.part_id) {
            (held.open, held.content) = (true, part.content.clone());
            return;
        }
        self.parts.push(HeldPart {
            part_id: part.part_id.clone(),
            open: true,
            content: part.content.clone(),
            position: None,
        });
        self.sort();
    }

    /// More of a part, if it follows what is held. The whole part tells what was missed.
    pub(super) fn grow(&mut self, part_id: &str, offset: u64, more: &str) {
        if let Some(held) = self.find(part_id) {
            if offset == held.text().len() as u64
                && let Some(Value::String(text)) = held.content.get_mut("text")
            {
                text.push_str(more);
                held.open = true;
            }
            return;
        }
        if offset == 0 {
            self.parts.push(HeldPart {
                part_id: part_id.to_owned(),
                open: true,
                content: json!({ "kind": "text", "text": more }),
                position: None,
            });
            self.sort();
        }
    }

    /// What a person said, otherwise.
    pub(super) fn say(&mut self, text: &str) {
        if let Some(held) = self.find("text") {
            held.content = json!({ "kind": "text", "text": text });
        }
    }

    pub(super) fn remove(&mut self, part_id: &str) {
        self.parts.retain(|held| held.part_id != part_id);
    }

    /// What was never whole was withdrawn.
    pub(super) fn close(&mut self, reason: Reason, error: Option<&str>, usage: Option<&Value>) {
        self.parts.retain(|held| held.position.is_some());
        for held in &mut self.parts {
            held.open = false;
        }
        self.done = true;
        self.reason = Some(word(reason).to_owned());
        self.error = error.map(str::to_owned);
        self.usage = usage.cloned();
    }

    pub(super) fn usage(&self) -> Usage {
        let Some(usage) = &self.usage else {
            return Usage::default();
        };
        let count = |key: &str| usage[key].as_u64().unwrap_or(0);
        Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            reasoning_tokens: count("reasoning_tokens"),
            cache_read_tokens: count("cache_read_tokens"),
            cache_write_tokens: count("cache_write_tokens"),
            cost_micros: count("cost_micros"),
        }
    }

    fn find(&mut self, part_id: &str) -> Option<&mut HeldPart> {
        self.parts.iter_mut().find(|held| held.part_id == part_id)
    }

    fn sort(&mut self) {
        self.parts.sort_by(|one, other| {
            let place = |part: &HeldPart| part.position.unwrap_or((u64::MAX, 0));
            let by_name = || match (one.position, other.position) {
                (None, None) => one.part_id.cmp(&other.part_id),
                _ => std::cmp::Ordering::Equal,
            };
            place(one).cmp(&place(other)).then_with(by_name)
        });
    }
}

impl From<Message> for HeldMessage {
    fn from(message: Message) -> Self {
        let position = message.position;
        let parts = message.parts.into_iter().enumerate();
        let parts = parts.map(|(place, part)| HeldPart {
            part_id: part.part_id,
            open: false,
            content: part.content,
            // Before all that is still to come.
            position: Some((position, place)),
        });
        Self {
            parts: parts.collect(),
            id: message.id,
            position,
            role: message.role,
            channel: message.channel,
            prompt_id: message.prompt_id,
            author: message.author,
            created_at: Some(message.created_at),
            done: message.done_at.is_some() || message.reason.is_some(),
            reason: message.reason,
            error: message.error,
            usage: message.usage,
            reverted: message.reverted,
            inherited: message.inherited,
        }
    }
}

fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::EndTurn => "end_turn",
        Reason::Error => "error",
        Reason::Canceled => "canceled",
    }
}

/// What a model was used for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Millionths of a dollar, where the server knows the price.
    pub cost_micros: u64,
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, next| Self {
            input_tokens: sum.input_tokens.saturating_add(next.input_tokens),
            output_tokens: sum.output_tokens.saturating_add(next.output_tokens),
            reasoning_tokens: sum.reasoning_tokens.saturating_add(next.reasoning_tokens),
            cache_read_tokens: sum.cache_read_tokens.saturating_add(next.cache_read_tokens),
            cache_write_tokens: sum
                .cache_write_tokens
                .saturating_add(next.cache_write_tokens),
            cost_micros: sum.cost_micros.saturating_add(next.cost_micros),
        })
    }
}
