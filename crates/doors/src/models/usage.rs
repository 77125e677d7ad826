//! How each API says what was used. In ours every token counts once: what came from a cache is no
//! input, and what was thought is no output.

use serde_json::Value;
use wire::link::Usage;

use super::config::Api;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) usage: Usage,
    /// The answer said what it used in the end.
    pub(super) is_complete: bool,
}

/// An event of a stream.
pub(super) fn read_event(api: Api, event: &Value, seen: &mut Seen) {
    match (api, event["type"].as_str()) {
        (Api::Anthropic, Some("message_start")) => {
            anthropic(&event["message"]["usage"], seen);
        }
        (Api::Anthropic, Some("message_delta")) => {
            seen.is_complete |= anthropic(&event["usage"], seen);
        }
        (Api::OpenAi, Some("response.completed" | "response.incomplete" | "response.failed")) => {
            seen.is_complete |= openai(&event["response"]["usage"], seen);
        }
        // A chunk of a chat has no type; its last one has the usage.
        (Api::OpenAi, None) => seen.is_complete |= openai(&event["usage"], seen),
        // The end of a transcript.
        (Api::OpenAi, Some("transcript.text.done")) => {
            seen.is_complete |= openai(&event["usage"], seen);
        }
        _ => {}
    }
}

/// An answer in one piece.
pub(super) fn read_whole(api: Api, value: &Value, seen: &mut Seen) {
    seen.is_complete = match api {
        Api::Anthropic => anthropic(&value["usage"], seen),
        Api::OpenAi => openai(&value["usage"], seen),
    };
}

/// Later counts stand for all so far; what they leave out stays.
fn anthropic(counts: &Value, seen: &mut Seen) -> bool {
    let usage = &mut seen.usage;
    for (name, place) in [
        ("input_tokens", &mut usage.input_tokens),
        ("output_tokens", &mut usage.output_tokens),
        ("cache_read_input_tokens", &mut usage.cache_read_tokens),
        ("cache_creation_input_tokens", &mut usage.cache_write_tokens),
    ] {
        if let Some(count) = counts[name].as_u64() {
            *place = count;
        }
    }
    counts.is_object()
}

/// Chat says prompt and completion, responses say input and output.
fn openai(counts: &Value, seen: &mut Seen) -> bool {
    if !counts.is_object() {
        return false;
    }
    let first = |names: [&str; 2]| names.iter().find_map(|name| counts[name].as_u64());
    let detail = |names: [&str; 2], of: &str| {
        let mut found = names.iter().filter_map(|name| counts[name][of].as_u64());
        found.next().unwrap_or(0)
    };
    let of_input = ["prompt_tokens_details", "input_tokens_details"];
    let of_output = ["completion_tokens_details", "output_tokens_details"];
    let input = first(["prompt_tokens", "input_tokens"]).unwrap_or(0);
    let output = first(["completion_tokens", "output_tokens"]).unwrap_or(0);
    let cached = detail(of_input, "cached_tokens");
    let reasoning = detail(of_output, "reasoning_tokens");
    seen.usage = Usage {
        input_tokens: input.saturating_sub(cached),
        output_tokens: output.saturating_sub(reasoning),
        reasoning_tokens: reasoning.min(output),
        cache_read_tokens: cached.min(input),
        cache_write_tokens: 0,
    };
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(api: Api, event: &Value) -> Seen {
        let mut seen = Seen::default();
        read_event(api, event, &mut seen);
        seen
    }

    #[test]
    fn a_chat_says_it_in_its_last_chunk() {
        let seen = event(
            Api::OpenAi,
            &json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 30,
                "prompt_tokens_details": { "cached_tokens": 60 },
                "completion_tokens_details": { "reasoning_tokens": 20 } } }),
        );
        assert!(seen.is_complete);
        assert_eq!(
            seen.usage,
            Usage {
                input_tokens: 40,
                output_tokens: 10,
                reasoning_tokens: 20,
                cache_read_tokens: 60,
                cache_write_tokens: 0,
            }
        );
    }

    #[test]
    fn a_chunk_whose_usage_is_null_says_nothing() {
        assert_eq!(
            event(Api::OpenAi, &json!({ "choices": [], "usage": null })),
            Seen::default()
        );
    }

    #[test]
    fn a_response_says_it_when_it_is_completed() {
        let usage = json!({ "input_tokens": 9, "output_tokens": 5,
            "input_tokens_details": { "cached_tokens": 4 } });
        let seen = event(
            Api::OpenAi,
            &json!({ "type": "response.completed", "response": { "usage": usage } }),
        );
        assert_eq!((seen.usage.input_tokens, seen.usage.output_tokens), (5, 5));
        let created = json!({ "type": "response.created", "response": { "usage": usage } });
        assert_eq!(event(Api::OpenAi, &created), Seen::default());
    }

    #[test]
    fn a_message_that_was_cut_is_known_as_far_as_it_came() {
        let seen = event(
            Api::Anthropic,
            &json!({ "type": "message_start", "message": { "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
        );
        assert_eq!(seen.usage.input_tokens, 9);
        assert!(!seen.is_complete);
    }

    #[test]
    fn counts_that_cannot_be_are_no_trouble() {
        let counts = json!({ "prompt_tokens": 1, "completion_tokens": -5,
            "prompt_tokens_details": { "cached_tokens": 1_000_000 } });
        let seen = event(Api::OpenAi, &json!({ "usage": counts }));
        assert_eq!(seen.usage.input_tokens, 0);
        assert_eq!(seen.usage.cache_read_tokens, 1);
    }
}
