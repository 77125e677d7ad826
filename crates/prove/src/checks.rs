//! What was promised, compared with what is there.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context as _, Result};
use model::session::Generation;
use model::{Clock as _, Id, Session, SystemClock};
use provider::{FileEvent, Provider, Sandbox, SandboxId, SandboxState};
use serde_json::Value;
use store::{Replay, Store};

use crate::book::Book;

const SESSION_LABEL: &str = "nacre.session";

/// The whole log of a session.
pub(crate) async fn log(store: &Store, session: Id<Session>) -> Result<BTreeMap<u64, String>> {
    let mut log = BTreeMap::new();
    loop {
        let since = log.keys().next_back().copied().unwrap_or(0);
        let Replay::Events { events, last_seq } = store.events_after(session, since, 1000).await?
        else {
            anyhow::bail!("the log of {session} is not whole");
        };
        for event in events {
            log.insert(event.seq, event.body.to_string());
        }
        if log.keys().next_back().copied().unwrap_or(0) == last_seq {
            return Ok(log);
        }
    }
}

/// Every numbered frame that a client saw is in the log, byte for byte, and every piece of text is
/// in the final text or was withdrawn.
pub(crate) fn book(book: &Book, log: &BTreeMap<u64, String>) -> Vec<String> {
    let mut broken = book.wrong.clone();
    for (seq, body) in &book.numbered {
        match log.get(seq) {
            Some(kept) if kept == body => {}
            Some(_) => broken.push(format!("frame {seq} is another one in the log")),
            None => broken.push(format!("frame {seq} was told and is not in the log")),
        }
    }
    let finals = finals(log);
    for ((message, part), seen) in &book.texts {
        let key = (message.clone(), part.clone());
        match finals.texts.get(&key) {
            Some(text) if text.starts_with(seen.as_str()) => {}
            Some(text) => broken.push(format!("`{seen}` was told of {part}, which is `{text}`")),
            None if finals.closed.contains(message) || finals.removed.contains(&key) => {}
            None => broken.push(format!("`{seen}` was told of {part}, which never ended")),
        }
    }
    broken
}

struct Finals {
    texts: HashMap<(String, String), String>,
    removed: HashSet<(String, String)>,
    /// Messages that are over: what was not whole by then was withdrawn.
    closed: HashSet<String>,
}

fn finals(log: &BTreeMap<u64, String>) -> Finals {
    let mut finals = Finals {
        texts: HashMap::new(),
        removed: HashSet::new(),
        closed: HashSet::new(),
    };
    for body in log.values() {
        let Ok(event) = serde_json::from_str::<Value>(body) else {
            continue;
        };
        let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("part") => {
                let text = event["content"]["text"].as_str().unwrap_or_default();
                let key = (word("message_id"), word("part_id"));
                finals.texts.insert(key, text.to_owned());
            }
            Some("part.removed") => {
                let key = (word("message_id"), word("part_id"));
                finals.texts.remove(&key);
                finals.removed.insert(key);
            }
            Some("message.done" | "message.removed") => {
                finals.closed.insert(word("message_id"));
            }
            _ => {}
        }
    }
    finals
}

/// Whether an answer to the prompt ended well.
pub(crate) fn was_answered(log: &BTreeMap<u64, String>, prompt: &str) -> bool {
    let events = log
        .values()
        .filter_map(|body| serde_json::from_str::<Value>(body).ok());
    events
        .filter(|event| event["type"] == "message.done" && event["prompt_id"] == prompt)
        .any(|event| event["reason"] == "end_turn")
}

/// What a session's files must hold: by path, as the log tells it.
pub(crate) fn files(log: &BTreeMap<u64, String>) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for body in log.values() {
        let Ok(event) = serde_json::from_str::<Value>(body) else {
            continue;
        };
        let tool = &event["content"];
        let is_written = event["type"] == "part"
            && tool["kind"] == "tool"
            && tool["name"] == "write"
            && tool["status"] == "completed";
        if !is_written {
            continue;
        }
        let args = &tool["args"];
        let path = args["path"].as_str().or_else(|| args["filePath"].as_str());
        if let (Some(path), Some(words)) = (path, args["content"].as_str()) {
            let name = path.rsplit('/').next().unwrap_or(path);
            files.insert(name.to_owned(), words.to_owned());
        }
    }
    files
}

/// The files of the workspace, by name.
pub(crate) async fn workspace(
    provider: &dyn Provider,
    sandbox: SandboxId,
) -> Result<BTreeMap<String, String>> {
    let path = wire::workplace::WORKSPACE.as_bytes();
    let mut events = provider
        .read_files(sandbox, path, None)
        .await
        .context("the workspace cannot be read")?;
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut current = String::new();
    while let Some(event) = events.recv().await {
        match event? {
            FileEvent::Entry(entry) => {
                current = String::from_utf8_lossy(&entry.path).into_owned();
                files.entry(current.clone()).or_default();
            }
            FileEvent::Data(data) => {
                files
                    .entry(current.clone())
                    .or_default()
                    .extend_from_slice(&data);
            }
        }
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(files
        .into_iter()
        .map(|(p, bytes)| (p, text(bytes)))
        .collect())
}

/// Sessions that wait for something that should have happened.
pub(crate) async fn overdue(store: &Store) -> Result<Vec<String>> {
    let late = store.overdue_sessions(SystemClock.now(), 100).await?;
    let told = late.iter().map(|record| {
        format!(
            "{} is past its deadline: {}",
            record.id, record.state.status
        )
    });
    Ok(told.collect())
}

/// Sandboxes that run for no session.
pub(crate) async fn orphans(store: &Store, sandboxes: &[Sandbox]) -> Result<Vec<String>> {
    let mut orphans = Vec::new();
    for sandbox in sandboxes {
        if matches!(sandbox.state, SandboxState::Stopped { .. }) {
            continue;
        }
        let session = sandbox.labels.get(SESSION_LABEL);
        let Some(session) = session.and_then(|id| id.parse::<Id<Session>>().ok()) else {
            continue;
        };
        let generations = match store.find_session(session).await? {
            Some(record) => record.state.lifecycle()?.generations(),
            None => Vec::new(),
        };
        if !generations.contains(&Generation(sandbox.generation)) {
            orphans.push(format!(
                "{} of generation {} lives, and {session} has {generations:?}",
                sandbox.id, sandbox.generation
            ));
        }
    }
    Ok(orphans)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::Frame;

    fn log(bodies: &[Value]) -> BTreeMap<u64, String> {
        (1..).zip(bodies.iter().map(Value::to_string)).collect()
    }

    /// As a client that was told all of it.
    fn told(bodies: &[Value]) -> Book {
        let mut book = Book::default();
        for (seq, body) in log(bodies) {
            book.take(Frame::Numbered { seq, body });
        }
        book
    }

    fn delta(offset: usize, text: &str) -> Frame {
        let delta = json!({ "type": "part.delta", "message_id": "m", "part_id": "p",
            "offset": offset, "text": text });
        Frame::Passing(delta.to_string())
    }

    fn part(text: &str) -> Value {
        json!({ "type": "part", "message_id": "m", "part_id": "p",
            "content": { "kind": "text", "text": text } })
    }

    #[test]
    fn what_was_told_and_is_there_is_kept() {
        let bodies = [
            json!({ "type": "message", "message_id": "m" }),
            part("hello"),
        ];
        let mut seen = told(&bodies);
        seen.take(delta(0, "hell"));
        seen.take(delta(4, "o"));
        assert!(book(&seen, &log(&bodies)).is_empty());
    }

    #[test]
    fn a_frame_that_is_missing_or_another_is_noticed() {
        let bodies = [
            json!({ "type": "title", "title": "a" }),
            json!({ "type": "title" }),
        ];
        assert_eq!(book(&told(&bodies), &log(&bodies[..1])).len(), 1);
        let others = [
            json!({ "type": "title", "title": "b" }),
            json!({ "type": "title" }),
        ];
        assert_eq!(book(&told(&bodies), &log(&others)).len(), 1);
    }

    #[test]
    fn a_gap_and_a_frame_told_differently_are_noticed() {
        let mut seen = Book::default();
        let frame = |seq, body: &str| Frame::Numbered {
            seq,
            body: body.to_owned(),
        };
        seen.take(frame(1, "{}"));
        seen.take(frame(3, "{}"));
        seen.take(frame(1, "[]"));
        assert_eq!(seen.wrong.len(), 2);
    }

    #[test]
    fn text_that_was_told_and_is_not_in_the_end_is_noticed_unless_it_was_withdrawn() {
        let mut seen = told(&[]);
        seen.take(delta(0, "hello"));
        assert_eq!(book(&seen, &log(&[part("help")])).len(), 1);
        assert_eq!(book(&seen, &log(&[])).len(), 1);
        let removed = json!({ "type": "part.removed", "message_id": "m", "part_id": "p" });
        assert!(book(&seen, &log(&[removed])).is_empty());
        let done = json!({ "type": "message.done", "message_id": "m" });
        assert!(book(&seen, &log(&[done])).is_empty());
    }

    #[test]
    fn files_are_what_completed_writes_say() {
        let write = |status: &str| {
            json!({ "type": "part", "content": { "kind": "tool", "name": "write", "status": status,
                "args": { "filePath": "/home/user/workspace/a", "content": "x" } } })
        };
        assert!(files(&log(&[write("running")])).is_empty());
        assert_eq!(files(&log(&[write("completed")]))["a"], "x");
    }
}
