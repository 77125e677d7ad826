//! Frames of a session's socket. What the server tells is the log itself: each event with its `seq`
//! put in, byte for byte. Only what is said beside the log has a type here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Message, NewPrompt, Prompt, Session};
use crate::link::Answer;

/// An event as clients get it: its body, which is an object, with its number and its time in front.
pub fn numbered(seq: u64, at: &str, body: &str) -> String {
    let rest = body.strip_prefix('{').unwrap_or(body);
    let comma = if rest.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    format!("{{\"seq\":{seq},\"at\":\"{at}\"{comma}{rest}")
}

/// What a client says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromClient {
    Ping,
    Prompt(NewPrompt),
    /// Without a channel: on all of them.
    Cancel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    /// Begins a new conversation on the channel.
    NewSession {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    Answer {
        question_id: String,
        /// Which of several questions that were asked together.
        #[serde(default)]
        item: usize,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
    Permission {
        id: String,
        allow: bool,
    },
    SaveSnapshot {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    Pause,
    GetStatus,
    GitStatus {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
    },
    GitCreateBranch {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
        name: String,
    },
    GitCommit {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
        message: String,
        #[serde(default)]
        include_untracked: bool,
        #[serde(default)]
        files: Vec<String>,
    },
    GitPush {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
    },
    GitCreatePr {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repo: Option<String>,
        title: String,
        #[serde(default)]
        body: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
    },
    RunAutoStart,
    Revert {
        message_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    Diff {
        request_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    Review {
        request_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    Command {
        request_id: String,
        command: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
}

/// The first frame of a connection that does not go on from where it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Init {
    /// `init`.
    pub r#type: String,
    pub session: Session,
    /// The number of the last event that is in what follows.
    pub seq: u64,
    /// The newest, in order; `GET …/messages` has the rest.
    pub messages: Vec<Message>,
    /// What waits for a person: the events that asked.
    #[serde(default)]
    pub questions: Vec<Value>,
    /// What waits for its turn, or is under way, in order.
    #[serde(default)]
    pub prompts: Vec<Prompt>,
    /// What agents asked for and nobody decided yet.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// Values that agents asked for and nobody gave yet: the events that asked.
    #[serde(default)]
    pub env_requests: Vec<Value>,
    pub runtime: Runtime,
    /// The client was too far behind, and begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resync: bool,
}

/// Where a live session is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
}

/// What is said about the bytes on a socket into a sandbox, in text frames; the bytes themselves are
/// binary frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PipeWord {
    /// No more bytes come this way.
    Eof,
    /// The command ended. Nothing follows.
    Exit {
        exit_code: i32,
        #[serde(default)]
        timed_out: bool,
    },
    /// It was not begun, or cannot go on. Nothing follows.
    Error { code: String, message: String },
}

/// The first byte of what a command printed, and what it printed as errors.
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;

/// Who watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// `presence`.
    pub r#type: String,
    pub watchers: Vec<Watcher>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Watcher {
    /// A user's id, or `service`.
    pub id: String,
    pub name: String,
    /// How many connections.
    pub connections: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_every_byte_and_gets_its_number() {
        assert_eq!(
            numbered(
                7,
                "2026-01-01T00:00:00Z",
                r#"{"type":"title","title":"a  b"}"#
            ),
            r#"{"seq":7,"at":"2026-01-01T00:00:00Z","type":"title","title":"a  b"}"#
        );
        assert_eq!(numbered(1, "now", "{}"), r#"{"seq":1,"at":"now"}"#);
    }

    #[test]
    fn what_clients_say_is_read() {
        let cancel: FromClient = serde_json::from_str(r#"{"type":"cancel"}"#).unwrap();
        assert_eq!(cancel, FromClient::Cancel { channel: None });
        let prompt = r#"{"type":"prompt","id":"p1","content":"go"}"#;
        let FromClient::Prompt(prompt) = serde_json::from_str(prompt).unwrap() else {
            panic!("not a prompt");
        };
        assert_eq!(prompt.id.as_deref(), Some("p1"));
        assert!(serde_json::from_str::<FromClient>(r#"{"type":"sudo"}"#).is_err());
    }
}
