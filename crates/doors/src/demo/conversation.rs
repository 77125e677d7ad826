//! What the demo model understands of a request.

use serde_json::Value;

/// What matters of a chat.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// What the person said last.
    pub(super) prompt: String,
    /// All that the person said.
    pub(super) prompts: Vec<String>,
    /// What tools gave since then, oldest first.
    pub(super) results: Vec<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) wants_title: bool,
    /// For names that must not come twice.
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

impl Conversation {
    pub(super) fn read(request: &Value) -> Self {
        let mut read = Self::default();
        let messages = request["messages"].as_array().into_iter().flatten();
        for message in messages {
            let text = text_of(&message["content"]);
            read.messages += 1;
            read.bytes += text.len();
            match message["role"].as_str() {
                Some("user") => {
                    let said = without_reminders(&text);
                    // Asked for in the person's place.
                    if said.starts_with("Generate a title") {
                        read.wants_title = true;
                    } else if !said.is_empty() {
                        read.prompts.push(said);
                        read.results.clear();
                    }
                }
                Some("tool") => read.results.push(text),
                Some("system" | "developer") => {
                    read.wants_title |= text.contains("title generator");
                }
                _ => {}
            }
        }
        read.prompt = read.prompts.last().cloned().unwrap_or_default();
        let tools = request["tools"].as_array().into_iter().flatten();
        read.tools = tools.filter_map(tool).collect();
        // Whoever offers tools wants work done, whatever the words are.
        read.wants_title &= read.tools.is_empty();
        read
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

fn tool(value: &Value) -> Option<Tool> {
    let function = &value["function"];
    let properties = function["parameters"]["properties"].as_object();
    Some(Tool {
        name: function["name"].as_str()?.to_owned(),
        arguments: properties
            .into_iter()
            .flat_map(|properties| properties.keys().cloned())
            .collect(),
    })
}

fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}

const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");

/// Agents add words of their own to what a person says.
fn without_reminders(text: &str) -> String {
    let mut said = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(REMINDER.0) {
        said.push_str(before);
        rest = after.split_once(REMINDER.1).map_or("", |(_, rest)| rest);
    }
    said.push_str(rest);
    without_sender(said.trim()).to_owned()
}

/// The agent is told who speaks and from where, in a line before what they say.
fn without_sender(said: &str) -> &str {
    match said.split_once('\n') {
        Some((first, rest)) if first.starts_with('[') && first.contains("[Channel: ") => {
            rest.trim()
        }
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_count_from_the_last_thing_that_was_said() {
        let read = Conversation::read(&json!({ "messages": [
            { "role": "system", "content": "be good" },
            { "role": "user", "content": "one" },
            { "role": "assistant", "tool_calls": [{}] },
            { "role": "tool", "content": "old" },
            { "role": "assistant", "content": "done" },
            { "role": "user", "content": [{ "type": "text", "text": "two" },
                { "type": "text", "text": "<system-reminder>be quick</system-reminder>" }] },
            { "role": "assistant", "tool_calls": [{}] },
            { "role": "tool", "content": [{ "type": "text", "text": "new" }] },
        ] }));
        assert_eq!(read.prompt, "two");
        assert_eq!(read.results, ["new"]);
        assert_eq!(read.prompts, ["one", "two"]);
    }

    #[test]
    fn a_title_is_wanted_only_where_no_tools_are_offered() {
        let mut request = json!({ "messages": [
            { "role": "system", "content": "You are a title generator. Output a title." },
            { "role": "user", "content": "Generate a title for this conversation:\n" },
            { "role": "user", "content": "make it blue" },
        ] });
        let read = Conversation::read(&request);
        assert!(read.wants_title);
        assert_eq!(read.prompt, "make it blue");
        request["tools"] = json!([{ "function": { "name": "bash" } }]);
        assert!(!Conversation::read(&request).wants_title);
    }

    #[test]
    fn who_speaks_is_not_what_is_said() {
        for sender in [
            "[Channel: web:default]",
            "[From: Ada (user usr_1)] [Channel: cli:default]",
        ] {
            let said = format!("{sender}\nrun ls");
            let request = json!({ "messages": [{ "role": "user", "content": said }] });
            assert_eq!(Conversation::read(&request).prompt, "run ls");
        }
        let list = "[1] one\n[2] two";
        let request = json!({ "messages": [{ "role": "user", "content": list }] });
        assert_eq!(Conversation::read(&request).prompt, list);
    }

    #[test]
    fn nonsense_is_an_empty_conversation() {
        for request in [
            json!(null),
            json!([]),
            json!({ "messages": 5, "tools": [5, {}] }),
        ] {
            let read = Conversation::read(&request);
            assert!(read.prompt.is_empty() && read.tools.is_empty());
        }
    }
}
