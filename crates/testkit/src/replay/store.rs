use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// What the server holds, as of the events that were played.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) sessions: BTreeMap<String, Value>,
    messages: BTreeMap<String, Value>,
    parts: BTreeMap<String, Value>,
    statuses: BTreeMap<String, Value>,
    permissions: BTreeMap<String, Value>,
    questions: BTreeMap<String, Value>,
    numbers: BTreeMap<String, u64>,
    history: Vec<Value>,
}

/// Events that the real server keeps.
const DURABLE: &[&str] = &[
    "session.created",
    "session.updated",
    "session.deleted",
    "message.updated",
    "message.removed",
    "message.part.updated",
    "message.part.removed",
];

impl Store {
    /// Takes an event in, and answers its number within its session if it is a durable one.
    pub(super) fn take(&mut self, event: &Value) -> Option<Value> {
        let kind = event["type"].as_str().unwrap_or_default();
        let properties = &event["properties"];
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        let text = |key: &str| properties[key].as_str().unwrap_or_default().to_owned();
        match kind {
            "session.created" | "session.updated" => {
                let info = &properties["info"];
                self.sessions.insert(id(info), info.clone());
            }
            "session.status" if properties["status"]["type"] == "idle" => {
                self.statuses.remove(&text("sessionID"));
            }
            "session.status" => {
                let status = properties["status"].clone();
                self.statuses.insert(text("sessionID"), status);
            }
            "message.updated" => {
                let info = &properties["info"];
                self.messages.insert(id(info), info.clone());
            }
            "message.removed" => {
                self.messages.remove(&text("messageID"));
            }
            "message.part.updated" => {
                let part = &properties["part"];
                self.parts.insert(id(part), part.clone());
            }
            "message.part.removed" => {
                self.parts.remove(&text("partID"));
            }
            "permission.asked" => {
                self.permissions.insert(id(properties), properties.clone());
            }
            "permission.replied" => {
                self.permissions.remove(&text("requestID"));
            }
            "question.asked" => {
                self.questions.insert(id(properties), properties.clone());
            }
            "question.replied" | "question.rejected" => {
                self.questions.remove(&text("requestID"));
            }
            _ => {}
        }
        DURABLE.contains(&kind).then(|| self.number(event))
    }

    fn number(&mut self, event: &Value) -> Value {
        let session = session_of(event);
        let next = self.numbers.entry(session.clone()).or_insert(0);
        let number = *next;
        *next += 1;
        let kind = format!("{}.1", event["type"].as_str().unwrap_or_default());
        let data = &event["properties"];
        self.history.push(json!({
            "id": event["id"], "aggregate_id": session, "seq": number, "type": kind, "data": data,
        }));
        json!({
            "type": "sync",
            "id": event["id"],
            "syncEvent": {
                "id": event["id"], "type": kind, "seq": number, "aggregateID": session, "data": data,
            },
        })
    }

    pub(super) fn status(&self) -> Value {
        json!(self.statuses)
    }

    pub(super) fn permissions(&self) -> Value {
        self.permissions.values().cloned().collect()
    }

    pub(super) fn questions(&self) -> Value {
        self.questions.values().cloned().collect()
    }

    pub(super) fn messages(&self, session: &str) -> Value {
        let messages = self.messages.values();
        let ours = messages.filter(|info| info["sessionID"] == session);
        ours.map(|info| {
            let parts = self.parts.values();
            let parts: Vec<&Value> = parts.filter(|p| p["messageID"] == info["id"]).collect();
            json!({ "info": info, "parts": parts })
        })
        .collect()
    }

    /// Sessions that are not named come whole, as with the real server.
    pub(super) fn history_after(&self, after: &Map<String, Value>) -> Value {
        let lines = self.history.iter().filter(|line| {
            let known = after
                .get(line["aggregate_id"].as_str().unwrap_or_default())
                .and_then(Value::as_u64);
            known.is_none_or(|known| line["seq"].as_u64() > Some(known))
        });
        lines.cloned().collect()
    }

    /// What an abort does to whatever runs: the events that say so.
    pub(super) fn end_of(&self, session: &str) -> Vec<Value> {
        let mut events = Vec::new();
        for info in self.messages.values() {
            let is_open = info["sessionID"] == session
                && info["role"] == "assistant"
                && info["time"]["completed"].is_null();
            if is_open {
                let mut info = info.clone();
                info["time"]["completed"] = json!(1);
                info["error"] = json!({ "name": "MessageAbortedError", "data": {} });
                events.push(json!({
                    "id": "evt_aborted", "type": "message.updated",
                    "properties": { "sessionID": session, "info": info },
                }));
            }
        }
        events.push(json!({
            "id": "evt_idle", "type": "session.status",
            "properties": { "sessionID": session, "status": { "type": "idle" } },
        }));
        events.push(json!({
            "id": "evt_idle2", "type": "session.idle", "properties": { "sessionID": session },
        }));
        events
    }
}

fn session_of(event: &Value) -> String {
    let properties = &event["properties"];
    let places = [
        &properties["sessionID"],
        &properties["info"]["sessionID"],
        &properties["part"]["sessionID"],
        &properties["info"]["id"],
    ];
    let found = places.iter().find_map(|place| place.as_str());
    found.unwrap_or_default().to_owned()
}
