//! What a fork begins with: what was said before it, told again in its own log.

use model::{Id, Session, Timestamp};
use serde_json::{Value, json};
use store::transcript::Message;
use store::{NewEvent, Role, Store};

/// So far back. What is older is read in the parent.
const MESSAGES: u32 = 100;
/// Events of one fork: they are written in one transaction, for which others wait.
const EVENTS: usize = 2000;
const LONGEST_ERROR: usize = 2000;

/// What was said in a session by then, as events of another. The oldest of much is left out.
pub(crate) async fn tell(
    store: &Store,
    session: Id<Session>,
    until: Timestamp,
) -> store::Result<Vec<NewEvent>> {
    let said = store.last_messages_until(session, until, MESSAGES).await?;
    let mut told: Vec<Vec<Value>> = Vec::new();
    let mut left = EVENTS;
    for message in said.iter().rev() {
        let events = events(message);
        let Some(rest) = left.checked_sub(events.len()) else {
            break;
        };
        left = rest;
        told.push(events);
    }
    let undone: Vec<String> = said
        .iter()
        .rev()
        .take(told.len())
        .filter(|message| message.reverted_seq.is_some())
        .map(id)
        .collect();
    let undone = (!undone.is_empty())
        .then(|| json!({ "type": "reverted", "message_ids": undone, "inherited": true }));
    told.into_iter()
        .rev()
        .flatten()
        .chain(undone)
        .map(|event| NewEvent::from_json(event.to_string()))
        .collect()
}

/// As its own log told it: opened, its parts, done. What was not done then will not be.
fn events(message: &Message) -> Vec<Value> {
    let parts = message.parts.iter();
    let mut opened = json!({
        "type": "message",
        "message_id": id(message),
        "role": message.role,
        "channel": message.channel,
        "author": message.author,
        "inherited": true,
        "created_at": message.created_at,
    });
    if message.role != Role::Assistant {
        let whole = parts.map(|part| json!({ "part_id": part.id, "content": part.content }));
        opened["parts"] = whole.collect();
        return vec![opened];
    }
    let mut events = vec![opened];
    events.extend(parts.map(|part| {
        json!({
            "type": "part",
            "message_id": id(message),
            "part_id": part.id,
            "content": part.content,
        })
    }));
    let done = message.done.as_ref();
    events.push(json!({
        "type": "message.done",
        "message_id": id(message),
        "reason": done.map_or("canceled", |done| &done.reason),
        "error": done.and_then(|done| done.error.as_ref()).map(|error| cut(error)),
        "usage": done.and_then(|done| done.usage.as_ref()),
        "done_at": done.map(|done| done.at),
    }));
    events
}

/// Words for people: with what is around them they have to fit into an event.
fn cut(words: &str) -> String {
    words.chars().take(LONGEST_ERROR).collect()
}

/// What is said in the fork may have the name of something of its parent's, and is another all the
/// same.
fn id(message: &Message) -> String {
    if message.inherited {
        return message.id.clone();
    }
    format!("inh-{}", message.id)
}
