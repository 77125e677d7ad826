//! A step in the form of chat completions, in one piece or as a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use super::MODEL;
use super::conversation::Conversation;
use super::play::{Call, Step};

#[derive(Debug)]
pub(super) struct Speech {
    /// Unlike any other of the same conversation.
    id: String,
    text: String,
    call: Option<Call>,
    usage: Value,
}

/// A piece of a stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Bytes,
    /// Something that takes time to say.
    pub(super) is_word: bool,
}

impl Speech {
    pub(super) fn new(conversation: &Conversation, step: &Step) -> Self {
        // Four letters are a token, as a rule of thumb.
        let input = conversation.bytes.div_ceil(4);
        let output = step.text.len().div_ceil(4);
        Self {
            id: format!("demo-{}", conversation.messages),
            text: step.text.clone(),
            call: step.call.clone(),
            usage: json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            }),
        }
    }

    pub(super) fn whole(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if let Some(call) = &self.call {
            message["tool_calls"] = json!([self.tool_call(call)]);
        }
        json!({
            "id": self.id, "object": "chat.completion", "created": 0, "model": MODEL,
            "choices": [{ "index": 0, "message": message, "finish_reason": self.reason() }],
            "usage": self.usage,
        })
    }

    pub(super) fn events(&self, with_usage: bool) -> Vec<Event> {
        let quick = |value: Value| Event {
            bytes: event(&value),
            is_word: false,
        };
        let mut events = vec![quick(
            self.chunk(&json!({ "role": "assistant", "content": "" }), None),
        )];
        events.extend(self.text.split_inclusive(' ').map(|word| Event {
            bytes: event(&self.chunk(&json!({ "content": word }), None)),
            is_word: true,
        }));
        if let Some(call) = &self.call {
            let mut call = self.tool_call(call);
            call["index"] = json!(0);
            events.push(quick(self.chunk(&json!({ "tool_calls": [call] }), None)));
        }
        events.push(quick(self.chunk(&json!({}), Some(self.reason()))));
        if with_usage {
            let mut last = self.chunk(&json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = self.usage.clone();
            events.push(quick(last));
        }
        events.push(Event {
            bytes: Bytes::from_static(b"data: [DONE]\n\n"),
            is_word: false,
        });
        events
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> Value {
        json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 0, "model": MODEL,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
        })
    }

    fn tool_call(&self, call: &Call) -> Value {
        json!({
            "id": format!("call_{}", self.id), "type": "function",
            "function": { "name": call.tool, "arguments": call.arguments.to_string() },
        })
    }

    fn reason(&self) -> &'static str {
        match self.call {
            Some(_) => "tool_calls",
            None => "stop",
        }
    }
}

fn event(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}
