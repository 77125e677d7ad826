//! What a step of a script can be. All fields may be left out.
//!
//! | field | what happens |
//! |---|---|
//! | `text` | it is said, word by word; `delay_ms` before each word |
//! | `reasoning` | it is thought first |
//! | `tool`, `input` | the tool is called |
//! | `tools` | a list of such calls, at once |
//! | `error`, `retry_after`, `message` | that status is answered |
//! | `drop` | the connection is cut after the text |
//! | `reset` | the connection is closed without an answer |
//! | `end_early` | the stream ends after the text without saying that it does |
//! | `stream_error` | the stream holds an error after the text |
//! | `hang` | nothing more comes after the text |
//! | `empty` | an answer with nothing in it |
//! | `steps`, `id` | a list of steps in one line; its first request is counted at `GET /__runs` |
//! | `times` | a failing step fails so often, then the next step is taken |

use std::collections::HashMap;

use serde_json::Value;

use super::wire::Format;

#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) says: Vec<Say>,
    pub(super) delay_ms: u64,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Clone)]
pub(super) enum Say {
    Reasoning(String),
    Text(String),
    Tool {
        id: String,
        name: String,
        input: Value,
    },
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    Status {
        status: u16,
        retry_after: Option<u64>,
        message: String,
    },
    Reset,
    Drop,
    EndEarly,
    StreamError,
    Hang,
}

const MOST_FAULTS: usize = 10_000;

pub(super) fn plan(format: Format, body: &Value, faults: &mut HashMap<String, u64>) -> Plan {
    if let Some(plan) = by_suffix(body["model"].as_str().unwrap_or_default()) {
        return plan;
    }
    let turns = format.turns(body);
    let scripted = turns
        .iter()
        .rposition(|turn| turn.is_user && turn.text.lines().any(|line| line.starts_with("!!{")));
    let Some(at) = scripted else {
        let last = turns.iter().rev().find(|turn| turn.is_user);
        let words = last.map_or("", |turn| turn.text.as_str());
        let words: String = words.chars().take(60).collect();
        return saying(&format!("echo: {words}"));
    };
    let script = &turns[at].text;
    let answered = turns[at..].iter().filter(|turn| !turn.is_user).count();
    step(script, answered, faults).map_or_else(|| saying("script finished"), |step| of(&step))
}

/// A line is a step, or holds several as `steps`.
fn steps(script: &str) -> Vec<Value> {
    let lines = script.lines().filter_map(|line| line.strip_prefix("!!"));
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .flat_map(|step| match step["steps"].as_array() {
            Some(steps) => steps.clone(),
            None => vec![step],
        })
        .collect()
}

/// The `id` of the script that this request begins with; none when it goes on with one, or is about
/// something else, a title say.
pub(super) fn begun(format: Format, body: &Value) -> Option<String> {
    let has_tools = body["tools"]
        .as_array()
        .is_some_and(|tools| !tools.is_empty());
    let turns = format.turns(body);
    let last = turns.last().filter(|turn| turn.is_user && has_tools)?;
    let mut lines = last.text.lines().filter_map(|line| line.strip_prefix("!!"));
    let script: Value = serde_json::from_str(lines.next_back()?).ok()?;
    script["id"].as_str().map(str::to_owned)
}

/// The step whose turn it is: those that failed often enough are over, and of the others as many
/// as were answered.
fn step(script: &str, answered: usize, faults: &mut HashMap<String, u64>) -> Option<Value> {
    let mut left = answered;
    for (place, step) in steps(script).into_iter().enumerate() {
        let fails = ["error", "drop", "reset", "stream_error", "hang"];
        if fails.iter().any(|fault| step.get(fault).is_some()) {
            let times = step["times"].as_u64().unwrap_or(u64::MAX);
            if faults.len() >= MOST_FAULTS {
                faults.clear();
            }
            let failed = faults.entry(format!("{place} {script}")).or_default();
            if *failed < times {
                *failed += 1;
                return Some(step);
            }
        } else if left == 0 {
            return Some(step);
        } else {
            left -= 1;
        }
    }
    None
}

fn of(step: &Value) -> Plan {
    let mut plan = saying(step["text"].as_str().unwrap_or_default());
    plan.delay_ms = step["delay_ms"].as_u64().unwrap_or(0);
    if let Some(thought) = step["reasoning"].as_str() {
        plan.says.insert(0, Say::Reasoning(thought.to_owned()));
    }
    let one = step.get("tool").map(|_| step);
    let many = step["tools"].as_array().into_iter().flatten();
    for call in one.into_iter().chain(many) {
        let name = call["tool"].as_str().unwrap_or_default().to_owned();
        plan.says.push(Say::Tool {
            id: format!("call_{}_{name}", plan.says.len()),
            name,
            input: call["input"].clone(),
        });
    }
    let is_set = |key: &str| step[key] == true;
    plan.fault = if let Some(status) = step["error"].as_u64() {
        let mut fault = status_fault(u16::try_from(status).unwrap_or(500));
        if let Fault::Status {
            retry_after,
            message,
            ..
        } = &mut fault
        {
            *retry_after = step["retry_after"].as_u64();
            if let Some(words) = step["message"].as_str() {
                words.clone_into(message);
            }
        }
        Some(fault)
    } else if is_set("reset") {
        Some(Fault::Reset)
    } else if is_set("drop") {
        Some(Fault::Drop)
    } else if is_set("end_early") {
        Some(Fault::EndEarly)
    } else if is_set("stream_error") {
        Some(Fault::StreamError)
    } else if is_set("hang") {
        Some(Fault::Hang)
    } else {
        None
    };
    plan
}

fn by_suffix(model: &str) -> Option<Plan> {
    let suffix = model.rsplit('-').next()?;
    let fault = match suffix {
        "429" | "529" | "500" | "401" | "402" | "403" | "404" => status_fault(suffix.parse().ok()?),
        "long" => Fault::Status {
            status: 400,
            retry_after: None,
            message: "prompt is too long: 210000 tokens > 200000 maximum".to_owned(),
        },
        "drop" => Fault::Drop,
        "hang" => Fault::Hang,
        "empty" => return Some(Plan::default()),
        "slow" => {
            let mut plan = saying("one two three four five six seven eight nine ten");
            plan.delay_ms = 300;
            return Some(plan);
        }
        _ => return None,
    };
    let mut plan = match fault {
        Fault::Drop => saying("cut in the middle"),
        _ => Plan::default(),
    };
    plan.fault = Some(fault);
    Some(plan)
}

fn saying(text: &str) -> Plan {
    let words = text.split_inclusive(' ');
    Plan {
        says: words.map(|word| Say::Text(word.to_owned())).collect(),
        ..Plan::default()
    }
}

fn status_fault(status: u16) -> Fault {
    let message = match status {
        429 => "This request would exceed your rate limit",
        529 => "Overloaded",
        401 => "invalid x-api-key",
        402 => "Your credit balance is too low",
        403 => "permission denied",
        404 => "model not found",
        _ => "Internal server error",
    };
    Fault::Status {
        status,
        retry_after: None,
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(answered: usize, faults: &mut HashMap<String, u64>) -> String {
        let script =
            "do\n!!{\"text\": \"one\"}\n!!{\"error\": 429, \"times\": 2}\n!!{\"text\": \"two\"}";
        let mut messages = vec![json!({"role": "user", "content": script})];
        for _ in 0..answered {
            messages.push(json!({"role": "assistant", "content": "x"}));
            messages.push(json!({"role": "user", "content": [{"type": "tool_result"}]}));
        }
        let body = json!({"model": "m", "messages": messages});
        let plan = plan(Format::Anthropic, &body, faults);
        match plan.fault {
            Some(Fault::Status { status, .. }) => status.to_string(),
            _ => plan
                .says
                .iter()
                .map(|say| match say {
                    Say::Text(text) => text.as_str(),
                    _ => "",
                })
                .collect(),
        }
    }

    #[test]
    fn a_script_goes_step_by_step_and_fails_as_often_as_told() {
        let mut faults = HashMap::new();
        let said: Vec<String> = [0, 1, 1, 1, 2].map(|n| texts(n, &mut faults)).into();
        assert_eq!(said, ["one", "429", "429", "two", "script finished"]);
    }

    #[test]
    fn a_models_name_can_make_it_fail() {
        let plan = plan(
            Format::Chat,
            &json!({"model": "m-529"}),
            &mut HashMap::new(),
        );
        assert!(matches!(
            plan.fault,
            Some(Fault::Status { status: 529, .. })
        ));
    }
}
