//! What was said before, for an agent that has to begin anew.

use store::Role;
use store::transcript::Message;

/// So far back, and so much of it.
pub(super) const MESSAGES: u32 = 40;
const CHARACTERS: usize = 6000;

/// The newest of it, in order; nothing if nothing was said on this channel before `prompt`. What
/// still waits to be said, nobody has said.
pub(super) fn tell(
    messages: &[Message],
    channel: &str,
    prompt: &str,
    waits: impl Fn(&str) -> bool,
) -> Option<String> {
    let is_said = |message: &&Message| {
        let prompt_id = message.prompt_id.as_deref();
        prompt_id != Some(prompt) && !prompt_id.is_some_and(&waits)
    };
    let said = messages
        .iter()
        .filter(|message| message.channel == channel)
        .filter(is_said)
        .filter(|message| message.reverted_seq.is_none())
        .filter_map(line)
        .collect::<Vec<_>>();
    let whole = said.join("\n\n");
    if whole.is_empty() {
        return None;
    }
    let skipped = whole.chars().count().saturating_sub(CHARACTERS);
    Some(whole.chars().skip(skipped).collect())
}

fn line(message: &Message) -> Option<String> {
    let text = message
        .parts
        .iter()
        .filter(|part| part.kind == "text")
        .filter_map(|part| part.content["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n");
    let who = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
    };
    (!text.trim().is_empty()).then(|| format!("{who}: {}", text.trim()))
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use serde_json::json;
    use store::transcript::Part;

    use super::*;

    fn message(role: Role, channel: &str, prompt: &str, text: &str) -> Message {
        Message {
            id: format!("{prompt}-{}", role.as_str()),
            position: 1,
            role,
            channel: channel.to_owned(),
            prompt_id: Some(prompt.to_owned()),
            author: None,
            agent_session: None,
            created_at: Timestamp::UNIX_EPOCH,
            done: None,
            removed_seq: None,
            reverted_seq: None,
            inherited: false,
            parts: vec![Part {
                id: "text".to_owned(),
                position: 1,
                kind: "text".to_owned(),
                content: json!({ "kind": "text", "text": text }),
            }],
        }
    }

    #[test]
    fn it_is_what_was_said_on_the_channel_before() {
        let said = [
            message(Role::User, "web:default", "1", "my name is Ada"),
            message(Role::Assistant, "web:default", "1", "Hello Ada"),
            message(Role::User, "slack:C1", "2", "elsewhere"),
            message(Role::User, "web:default", "3", "what is my name?"),
        ];
        assert_eq!(
            tell(&said, "web:default", "3", |_| false).as_deref(),
            Some("User: my name is Ada\n\nAssistant: Hello Ada")
        );
        assert_eq!(tell(&said, "slack:C1", "2", |_| false), None);
    }

    #[test]
    fn what_waits_behind_it_is_not_told() {
        let said = [
            message(Role::User, "c", "1", "first"),
            message(Role::User, "c", "2", "second"),
            message(Role::User, "c", "3", "third"),
        ];
        let told = tell(&said, "c", "2", |prompt| prompt == "3");
        assert_eq!(told.as_deref(), Some("User: first"));
    }

    #[test]
    fn of_much_the_newest_is_told() {
        let long = "ä".repeat(5000);
        let said = [
            message(Role::User, "c", "1", "first"),
            message(Role::User, "c", "2", &long),
            message(Role::User, "c", "3", &long),
        ];
        let told = tell(&said, "c", "4", |_| false).unwrap();
        assert_eq!(told.chars().count(), CHARACTERS);
        assert!(told.ends_with('ä'));
        assert!(!told.contains("first"));
    }
}
