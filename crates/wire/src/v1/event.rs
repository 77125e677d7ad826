//! What a session's socket tells: its log, and what is said beside it. Read here, by clients; the
//! server passes the log on as it is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Action, ActionStatus, Allow, ClientStatus, EgressBlocked, Fault, MessagePart, PromptStatus,
    Watcher,
};
use crate::link::{
    AgentStatus, EnvVariable, ErrorFrame, Outcome, Part, Permission, Phase, Question, Reason,
};

/// A frame other than `init`. It only grows: a type that is not known here is [`Event::Unknown`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    Pong,
    Presence {
        watchers: Vec<Watcher>,
    },
    Status {
        status: ClientStatus,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        phase: Option<Phase>,
        /// Why it could not be started.
        #[serde(default)]
        fault: Option<Fault>,
    },
    Title {
        title: String,
    },
    /// Opens a message. What a person or the system said is whole at once.
    Message(Opened),
    #[serde(rename = "part.delta")]
    PartDelta {
        message_id: String,
        part_id: String,
        /// Bytes of UTF-8 before this text.
        offset: u64,
        text: String,
    },
    Part(EventPart),
    #[serde(rename = "part.removed")]
    PartRemoved {
        message_id: String,
        part_id: String,
    },
    #[serde(rename = "message.removed")]
    MessageRemoved {
        message_id: String,
    },
    #[serde(rename = "message.done")]
    MessageDone {
        message_id: String,
        reason: Reason,
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        usage: Option<Value>,
    },
    Reverted {
        #[serde(default)]
        message_ids: Vec<String>,
        #[serde(default)]
        error: Option<String>,
    },
    Prompt {
        id: String,
        status: PromptStatus,
        #[serde(default)]
        reason: Option<String>,
        /// Somebody said it otherwise while it waited: this is asked now.
        #[serde(default)]
        content: Option<String>,
    },
    AgentStatus {
        status: AgentStatus,
        #[serde(default)]
        detail: Option<String>,
        #[serde(default)]
        prompt_id: Option<String>,
        /// Absent: of the whole workplace.
        #[serde(default)]
        channel: Option<String>,
    },
    Question(Question),
    QuestionClosed {
        question_id: String,
        outcome: Outcome,
    },
    Permission(Permission),
    PermissionClosed {
        id: String,
        outcome: Outcome,
    },
    /// Waits for a person: `POST …/actions/{id}/approve` or `deny`.
    ActionApprovalRequest(Action),
    ActionApprovalResult {
        id: String,
        status: ActionStatus,
        #[serde(default)]
        decided_by: Option<String>,
        #[serde(default)]
        message: Option<String>,
    },
    /// Waits for a person: `POST …/env`.
    EnvRequest {
        id: String,
        keys: Vec<EnvVariable>,
    },
    EnvAnswered {
        id: String,
    },
    ModelSwitched {
        prompt_id: String,
        channel: String,
        from: String,
        to: String,
        reason: String,
    },
    PreviewUrl {
        #[serde(default)]
        url: Option<String>,
    },
    /// The sandbox asked for a host and did not get it.
    EgressBlocked(EgressBlocked),
    /// Somebody let it through.
    EgressAllowed {
        /// `host` or `host:port`.
        rule: String,
        allow: Allow,
        #[serde(default)]
        until: Option<String>,
        /// Who.
        by: String,
    },
    Error(ErrorFrame),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub message_id: String,
    #[serde(default = "assistant")]
    pub role: String,
    pub channel: String,
    #[serde(default)]
    pub prompt_id: Option<String>,
    #[serde(default)]
    pub author: Option<Value>,
    #[serde(default)]
    pub parts: Vec<MessagePart>,
    /// It was said in the session that this one was forked from, at `created_at`.
    #[serde(default)]
    pub inherited: bool,
    #[serde(default)]
    pub created_at: Option<String>,
}

fn assistant() -> String {
    "assistant".to_owned()
}

/// A part as it is now; deltas still go to it while it is `open`. As [`Part`], but with content that
/// is kept as it came, whatever a newer server puts there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventPart {
    pub message_id: String,
    pub part_id: String,
    #[serde(default)]
    pub open: bool,
    pub content: Value,
}

impl From<Part> for EventPart {
    fn from(part: Part) -> Self {
        Self {
            message_id: part.message_id,
            part_id: part.part_id,
            open: part.open,
            content: serde_json::to_value(part.content).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_tells_is_read() {
        let queued = r#"{"seq":4,"type":"prompt","id":"p","status":"queued"}"#;
        let Event::Prompt { id, status, .. } = serde_json::from_str(queued).unwrap() else {
            panic!("not a prompt");
        };
        assert_eq!((id.as_str(), status), ("p", PromptStatus::Queued));
        let status = r#"{"type":"status","status":"running","message":null}"#;
        assert!(matches!(
            serde_json::from_str(status).unwrap(),
            Event::Status { message: None, .. }
        ));
    }

    #[test]
    fn what_nobody_knows_yet_is_no_error() {
        let status = r#"{"type":"status","status":"dreaming"}"#;
        assert!(matches!(
            serde_json::from_str(status).unwrap(),
            Event::Status {
                status: ClientStatus::Unknown,
                ..
            }
        ));
        let event: Event = serde_json::from_str(r#"{"type":"weather","sun":1}"#).unwrap();
        assert_eq!(event, Event::Unknown);
    }
}
