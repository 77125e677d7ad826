//! The three forms in which models are asked and answer.

use serde_json::{Value, json};

use super::script::{Fault, Plan, Say};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Anthropic,
    Chat,
    Responses,
}

#[derive(Debug)]
pub(super) struct SaidBy {
    pub(super) is_user: bool,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) enum Piece {
    Text(String),
    Cut,
    Hang,
}

impl Format {
    /// Who said what, results of tools left out.
    pub(super) fn turns(self, body: &Value) -> Vec<SaidBy> {
        let list = match self {
            Format::Anthropic | Format::Chat => &body["messages"],
            Format::Responses => &body["input"],
        };
        let mut turns: Vec<SaidBy> = Vec::new();
        let mut goes_on = false;
        for item in list.as_array().into_iter().flatten() {
            let role = item["role"].as_str().unwrap_or_default();
            let kind = item["type"].as_str().unwrap_or_default();
            let is_answer = role == "assistant" || kind == "function_call" || kind == "reasoning";
            if is_answer {
                // In one form an answer is several items.
                if !(goes_on && self == Format::Responses) {
                    turns.push(SaidBy {
                        is_user: false,
                        text: String::new(),
                    });
                }
            } else if role == "user" {
                turns.push(SaidBy {
                    is_user: true,
                    text: text_of(&item["content"]),
                });
            }
            goes_on = is_answer;
        }
        turns
    }
}

fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

pub(super) fn error(format: Format, status: u16, message: &str) -> Value {
    let kind = match status {
        429 => "rate_limit_error",
        529 => "overloaded_error",
        401 | 403 => "authentication_error",
        402 => "billing_error",
        404 => "not_found_error",
        _ => "api_error",
    };
    match format {
        Format::Anthropic => {
            json!({ "type": "error", "error": { "type": kind, "message": message } })
        }
        Format::Chat | Format::Responses => {
            json!({ "error": { "message": message, "type": kind, "code": kind } })
        }
    }
}

/// An answer in one piece.
pub(super) fn whole(format: Format, body: &Value, plan: &Plan) -> Value {
    let text = joined(plan, |say| match say {
        Say::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let model = &body["model"];
    match format {
        Format::Anthropic => json!({
            "id": "msg_scripted", "type": "message", "role": "assistant", "model": model,
            "content": [{ "type": "text", "text": text }], "stop_reason": "end_turn",
            "usage": { "input_tokens": 10, "output_tokens": plan.says.len() },
        }),
        Format::Chat => json!({
            "id": "chat_scripted", "object": "chat.completion", "model": model,
            "choices": [{ "index": 0, "finish_reason": "stop",
                "message": { "role": "assistant", "content": text } }],
            "usage": { "prompt_tokens": 10, "completion_tokens": plan.says.len(), "total_tokens": 10 },
        }),
        Format::Responses => json!({
            "id": "resp_scripted", "object": "response", "model": model, "status": "completed",
            "output": [{ "type": "message", "id": "msg_scripted", "role": "assistant",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }] }],
            "usage": { "input_tokens": 10, "output_tokens": plan.says.len(), "total_tokens": 10 },
        }),
    }
}

fn joined<'a>(plan: &'a Plan, pick: impl Fn(&'a Say) -> Option<&'a str>) -> String {
    plan.says.iter().filter_map(pick).collect()
}

/// An answer as a stream, with what goes wrong in it.
pub(super) fn pieces(format: Format, body: &Value, plan: &Plan) -> Vec<Piece> {
    let (said, end) = match format {
        Format::Anthropic => anthropic(body, plan),
        Format::Chat => chat(body, plan),
        Format::Responses => responses(body, plan),
    };
    let mut pieces: Vec<Piece> = said.into_iter().map(Piece::Text).collect();
    match &plan.fault {
        Some(Fault::Drop) => pieces.push(Piece::Cut),
        Some(Fault::EndEarly) => {}
        Some(Fault::Hang) => pieces.push(Piece::Hang),
        Some(Fault::StreamError) => {
            let error = error(format, 529, "Overloaded");
            pieces.push(Piece::Text(match format {
                Format::Anthropic => event("error", &error),
                Format::Chat | Format::Responses => data(&error),
            }));
        }
        _ => pieces.extend(end.into_iter().map(Piece::Text)),
    }
    pieces
}

fn anthropic(body: &Value, plan: &Plan) -> (Vec<String>, Vec<String>) {
    let start = json!({ "type": "message_start", "message": {
        "id": "msg_scripted", "type": "message", "role": "assistant", "model": body["model"],
        "content": [], "stop_reason": null, "usage": { "input_tokens": 10, "output_tokens": 0 },
    }});
    let mut said = vec![event("message_start", &start)];
    for (index, block) in blocks(plan).iter().enumerate() {
        let (opened, deltas) = match block {
            Block::Reasoning(text) => (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                vec![
                    json!({ "type": "thinking_delta", "thinking": text }),
                    json!({ "type": "signature_delta", "signature": "c2lnbmVk" }),
                ],
            ),
            Block::Text(words) => (
                json!({ "type": "text", "text": "" }),
                words
                    .iter()
                    .map(|word| json!({ "type": "text_delta", "text": word }))
                    .collect(),
            ),
            Block::Tool { id, name, input } => (
                json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
                vec![json!({ "type": "input_json_delta", "partial_json": input.to_string() })],
            ),
        };
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": opened });
        said.push(event("content_block_start", &start));
        for delta in deltas {
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            said.push(event("content_block_delta", &delta));
        }
        let stop = json!({ "type": "content_block_stop", "index": index });
        // Where something goes wrong, it does so in the middle of a block.
        if plan.fault.is_none() {
            said.push(event("content_block_stop", &stop));
        }
    }
    let reason = if calls(plan) { "tool_use" } else { "end_turn" };
    let last = json!({ "type": "message_delta", "delta": { "stop_reason": reason },
        "usage": { "output_tokens": plan.says.len() } });
    let end = vec![
        event("message_delta", &last),
        event("message_stop", &json!({ "type": "message_stop" })),
    ];
    (said, end)
}

fn chat(body: &Value, plan: &Plan) -> (Vec<String>, Vec<String>) {
    let chunk = |delta: Value, finish: Value| {
        data(&json!({
            "id": "chat_scripted", "object": "chat.completion.chunk", "created": 1,
            "model": body["model"],
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
        }))
    };
    let mut said = vec![chunk(
        json!({ "role": "assistant", "content": "" }),
        Value::Null,
    )];
    let mut tools = 0;
    for say in &plan.says {
        let delta = match say {
            Say::Reasoning(text) => json!({ "reasoning_content": text }),
            Say::Text(text) => json!({ "content": text }),
            Say::Tool { id, name, input } => {
                tools += 1;
                json!({ "tool_calls": [{ "index": tools - 1, "id": id, "type": "function",
                    "function": { "name": name, "arguments": input.to_string() } }] })
            }
        };
        said.push(chunk(delta, Value::Null));
    }
    let reason = if calls(plan) { "tool_calls" } else { "stop" };
    let usage = json!({ "id": "chat_scripted", "object": "chat.completion.chunk", "created": 1,
        "model": body["model"], "choices": [],
        "usage": { "prompt_tokens": 10, "completion_tokens": plan.says.len(), "total_tokens": 10 } });
    let end = vec![
        chunk(json!({}), json!(reason)),
        data(&usage),
        "data: [DONE]\n\n".to_owned(),
    ];
    (said, end)
}

fn responses(body: &Value, plan: &Plan) -> (Vec<String>, Vec<String>) {
    let response = |status: &str| {
        json!({ "id": "resp_scripted", "object": "response", "created_at": 1, "status": status,
            "model": body["model"], "output": [],
            "usage": { "input_tokens": 10, "output_tokens": plan.says.len(), "total_tokens": 10,
                "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens_details": { "reasoning_tokens": 0 } } })
    };
    let named = |kind: &str, mut value: Value| {
        value["type"] = json!(kind);
        event(kind, &value)
    };
    let created = json!({ "response": response("in_progress") });
    let mut said = vec![named("response.created", created)];
    for (at, block) in blocks(plan).into_iter().enumerate() {
        let (added, deltas, done) = match block {
            Block::Reasoning(text) => {
                let item = json!({ "type": "reasoning", "id": format!("rs_{at}"),
                    "summary": [{ "type": "summary_text", "text": text }] });
                (item.clone(), Vec::new(), item)
            }
            Block::Text(words) => {
                let item = |content: Value| {
                    json!({ "type": "message", "id": format!("msg_{at}"), "role": "assistant",
                        "status": "completed", "content": content })
                };
                let deltas = words.iter().map(|word| {
                    let delta = json!({ "item_id": format!("msg_{at}"), "output_index": at,
                        "content_index": 0, "delta": word });
                    named("response.output_text.delta", delta)
                });
                let text = words.concat();
                (
                    item(json!([])),
                    deltas.collect(),
                    item(json!([{ "type": "output_text", "text": text, "annotations": [] }])),
                )
            }
            Block::Tool { id, name, input } => {
                let item = |arguments: String| {
                    json!({ "type": "function_call", "id": format!("fc_{at}"), "call_id": id,
                        "name": name, "arguments": arguments, "status": "completed" })
                };
                let delta = json!({ "item_id": format!("fc_{at}"), "output_index": at,
                    "delta": input.to_string() });
                let deltas = vec![named("response.function_call_arguments.delta", delta)];
                (item(String::new()), deltas, item(input.to_string()))
            }
        };
        let added = json!({ "output_index": at, "item": added });
        said.push(named("response.output_item.added", added));
        said.extend(deltas);
        if plan.fault.is_none() {
            let done = json!({ "output_index": at, "item": done });
            said.push(named("response.output_item.done", done));
        }
    }
    let completed = json!({ "response": response("completed") });
    (said, vec![named("response.completed", completed)])
}

enum Block {
    Reasoning(String),
    Text(Vec<String>),
    Tool {
        id: String,
        name: String,
        input: Value,
    },
}

/// Words that follow each other are one block.
fn blocks(plan: &Plan) -> Vec<Block> {
    let mut blocks = Vec::new();
    for say in &plan.says {
        match (say, blocks.last_mut()) {
            (Say::Text(word), Some(Block::Text(words))) => words.push(word.clone()),
            (Say::Text(word), _) => blocks.push(Block::Text(vec![word.clone()])),
            (Say::Reasoning(text), _) => blocks.push(Block::Reasoning(text.clone())),
            (Say::Tool { id, name, input }, _) => blocks.push(Block::Tool {
                id: id.clone(),
                name: name.clone(),
                input: input.clone(),
            }),
        }
    }
    blocks
}

fn calls(plan: &Plan) -> bool {
    plan.says.iter().any(|say| matches!(say, Say::Tool { .. }))
}

fn event(kind: &str, value: &Value) -> String {
    format!("event: {kind}\ndata: {value}\n\n")
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}
