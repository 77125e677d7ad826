//! What OpenCode says, as far as we use it. Unknown fields and unknown kinds of events are passed
//! over; the whole is in the document that it serves at `/doc`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::prompt::ModelName;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    Session(Session),
    Status {
        session: String,
        status: Status,
    },
    Idle {
        session: String,
    },
    Error {
        session: Option<String>,
        error: Error,
    },
    Message(Message),
    MessageRemoved {
        session: String,
        message: String,
    },
    Part(Part),
    Delta(Delta),
    PartRemoved {
        session: String,
        part: String,
    },
    PermissionAsked(PermissionRequest),
    PermissionReplied {
        request: String,
    },
    QuestionAsked(QuestionRequest),
    QuestionClosed {
        request: String,
    },
    /// The durable copy of an event, with its number within the session.
    Numbered {
        session: String,
        number: u64,
    },
    /// The stream is listened to from here on.
    Connected,
    /// The server forgot what it was doing in a directory.
    Disposed,
    Other,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    #[serde(rename = "parentID")]
    pub(super) parent: Option<String>,
    #[serde(default)]
    pub(super) revert: Option<Revert>,
    #[serde(default)]
    pub(super) version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Revert {
    #[serde(rename = "messageID")]
    pub(super) message: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Status {
    Idle,
    Busy,
    Retry {
        attempt: u32,
        #[serde(default)]
        message: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Error {
    pub(super) name: String,
    #[serde(default)]
    pub(super) data: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Message {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    pub(super) role: Role,
    #[serde(default, rename = "providerID")]
    pub(super) provider: Option<String>,
    #[serde(default, rename = "modelID")]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) error: Option<Error>,
    /// A list of diffs at a user's message; `true` at a message that sums up the conversation.
    #[serde(default)]
    pub(super) summary: Value,
    #[serde(default)]
    pub(super) tokens: Tokens,
    #[serde(default)]
    pub(super) time: Time,
}

impl Message {
    pub(super) fn is_answer(&self) -> bool {
        self.role == Role::Assistant && self.summary != Value::Bool(true)
    }

    pub(super) fn answered_by(&self) -> Option<ModelName> {
        Some(ModelName {
            provider: self.provider.clone()?,
            model: self.model.clone()?,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.time.completed.is_some() || self.error.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Assistant,
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) reasoning: f64,
    pub(super) cache: Cache,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Cache {
    pub(super) read: f64,
    pub(super) write: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Time {
    pub(super) completed: Option<f64>,
    pub(super) end: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Part {
    pub(super) id: String,
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(flatten)]
    pub(super) body: PartBody,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(super) enum PartBody {
    Text {
        #[serde(default)]
        text: String,
        #[serde(default)]
        time: Option<Time>,
        /// Put there by the program, not by the model.
        #[serde(default)]
        synthetic: bool,
    },
    Reasoning {
        #[serde(default)]
        text: String,
        #[serde(default)]
        time: Option<Time>,
    },
    Tool {
        #[serde(rename = "callID")]
        call: String,
        tool: String,
        state: ToolState,
    },
    StepStart,
    #[serde(other)]
    Other,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ToolState {
    pub(super) status: String,
    #[serde(default)]
    pub(super) input: Value,
    #[serde(default)]
    pub(super) output: Option<String>,
    #[serde(default)]
    pub(super) error: Option<String>,
    #[serde(default)]
    pub(super) metadata: Value,
    /// As it comes: a strange one must not keep the call from being read.
    #[serde(default)]
    pub(super) title: Value,
    /// Files, with a `mime` and a `url`.
    #[serde(default)]
    pub(super) attachments: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Delta {
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(rename = "messageID")]
    pub(super) message: String,
    #[serde(rename = "partID")]
    pub(super) part: String,
    pub(super) field: String,
    #[serde(rename = "delta")]
    pub(super) more: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct PermissionRequest {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    #[serde(default)]
    pub(super) permission: String,
    #[serde(default)]
    pub(super) patterns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct QuestionRequest {
    pub(super) id: String,
    #[serde(rename = "sessionID")]
    pub(super) session: String,
    pub(super) questions: Vec<Question>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Question {
    #[serde(default, rename = "question")]
    pub(super) text: String,
    #[serde(default)]
    pub(super) header: String,
    #[serde(default)]
    pub(super) options: Vec<QuestionOption>,
    #[serde(default)]
    pub(super) multiple: bool,
    #[serde(default)]
    pub(super) custom: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct QuestionOption {
    pub(super) label: String,
    #[serde(default)]
    pub(super) description: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct MessageWithParts {
    pub(super) info: Message,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Diff {
    #[serde(default)]
    pub(super) file: String,
    #[serde(default)]
    pub(super) patch: String,
    #[serde(default)]
    pub(super) additions: f64,
    #[serde(default)]
    pub(super) deletions: f64,
    #[serde(default)]
    pub(super) status: Option<String>,
}

/// One line of `/sync/history`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Recorded {
    #[serde(rename = "aggregate_id")]
    pub(super) session: String,
    pub(super) seq: u64,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) data: Value,
}

impl Recorded {
    /// As it came over the stream. The kind carries the version of its form: `message.updated.1`.
    pub(super) fn event(&self) -> Event {
        let kind = self.kind.trim_end_matches(|c: char| c.is_ascii_digit());
        read(kind.trim_end_matches('.'), self.data.clone()).unwrap_or(Event::Other)
    }
}

/// Reads a frame of either stream. `None` for what is not even an event.
pub(super) fn event(frame: &str) -> Option<Event> {
    let mut value: Value = serde_json::from_str(frame).ok()?;
    if value.get("payload").is_some() {
        value = value["payload"].take();
    }
    let kind = value.get("type")?.as_str()?.to_owned();
    if kind == "sync" {
        let sync = &value["syncEvent"];
        return Some(Event::Numbered {
            session: sync["aggregateID"].as_str()?.to_owned(),
            number: sync["seq"].as_u64()?,
        });
    }
    let read = read(&kind, value["properties"].take());
    if read.is_none() {
        tracing::warn!(kind, "an event of OpenCode's has a form that is not known");
    }
    Some(read.unwrap_or(Event::Other))
}

fn read(kind: &str, mut properties: Value) -> Option<Event> {
    let text = |key: &str| properties[key].as_str().map(str::to_owned);
    Some(match kind {
        "session.created" | "session.updated" => Event::Session(take(&mut properties["info"])?),
        "session.status" => Event::Status {
            session: text("sessionID")?,
            status: take(&mut properties["status"])?,
        },
        "session.idle" => Event::Idle {
            session: text("sessionID")?,
        },
        "session.error" => Event::Error {
            session: text("sessionID"),
            error: take(&mut properties["error"])?,
        },
        "message.updated" => Event::Message(take(&mut properties["info"])?),
        "message.removed" => Event::MessageRemoved {
            session: text("sessionID")?,
            message: text("messageID")?,
        },
        "message.part.updated" => Event::Part(take(&mut properties["part"])?),
        "message.part.delta" => Event::Delta(take(&mut properties)?),
        "message.part.removed" => Event::PartRemoved {
            session: text("sessionID")?,
            part: text("partID")?,
        },
        "permission.asked" => Event::PermissionAsked(take(&mut properties)?),
        "permission.replied" => Event::PermissionReplied {
            request: text("requestID")?,
        },
        "question.asked" => Event::QuestionAsked(take(&mut properties)?),
        "question.replied" | "question.rejected" => Event::QuestionClosed {
            request: text("requestID")?,
        },
        "server.connected" => Event::Connected,
        "server.instance.disposed" | "global.disposed" => Event::Disposed,
        _ => Event::Other,
    })
}

fn take<T: DeserializeOwned>(value: &mut Value) -> Option<T> {
    serde_json::from_value(value.take()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_of_event_is_passed_over() {
        assert_eq!(
            event(r#"{"type":"weather.changed","properties":{"sun":1}}"#),
            Some(Event::Other)
        );
    }

    #[test]
    fn a_known_kind_in_an_unknown_form_is_passed_over() {
        assert_eq!(
            event(r#"{"type":"session.status","properties":7}"#),
            Some(Event::Other)
        );
    }

    #[test]
    fn what_is_no_event_is_nothing() {
        assert_eq!(event("<html>"), None);
    }

    #[test]
    fn the_wrapper_is_opened_and_the_number_read() {
        let frame = r#"{"directory":"/w","payload":{"type":"sync","syncEvent":
            {"type":"message.updated.1","seq":7,"aggregateID":"ses_1","data":{}}}}"#;
        let number = Event::Numbered {
            session: "ses_1".to_owned(),
            number: 7,
        };
        assert_eq!(event(frame), Some(number));
    }

    #[test]
    fn an_unknown_kind_of_part_is_kept_as_such() {
        let part: Part = serde_json::from_str(
            r#"{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"hologram","size":3}"#,
        )
        .unwrap();
        assert_eq!(part.body, PartBody::Other);
    }
}
