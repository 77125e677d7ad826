//! Bytes to frames and back. What cannot be read is told apart, so that it can be answered.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ErrorFrame, HubFrame, MAX_LINK_FRAME, RunnerFrame};

/// A frame that cannot be used, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub wrong: Wrong,
    /// Its `type`, cut, where it has one.
    pub frame: Option<String>,
    /// Its `request_id`, or the `id` of a request.
    pub request_id: Option<String>,
    pub term: Option<u64>,
    pub seq: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    TooLong {
        bytes: usize,
    },
    NotJson {
        reason: String,
    },
    /// A type that came after us.
    UnknownType,
    Malformed {
        reason: String,
    },
}

pub fn read_hub(bytes: &[u8]) -> Result<HubFrame, Unreadable> {
    read(bytes)
}

pub fn read_runner(bytes: &[u8]) -> Result<RunnerFrame, Unreadable> {
    read(bytes)
}

/// One frame. Its length is the reader's own affair where it could have been checked before.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    if bytes.len() > MAX_LINK_FRAME {
        let bytes = bytes.len();
        return Err(Unreadable::unknown(Wrong::TooLong { bytes }));
    }
    serde_json::from_slice(bytes).map_err(|error| look_again(bytes, &error))
}

/// A frame as one line, without its end. JSON escapes what would break the line.
pub fn write(frame: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(frame).expect("our own types serialise")
}

fn look_again(bytes: &[u8], error: &serde_json::Error) -> Unreadable {
    let reason = cut(&error.to_string(), 200);
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else {
        return Unreadable::unknown(Wrong::NotJson { reason });
    };
    let text = |key: &str, limit| fields.get(key)?.as_str().map(|text| cut(text, limit));
    // The one way to learn from serde that it is the type and nothing else.
    let wrong = if reason.starts_with("unknown variant") {
        Wrong::UnknownType
    } else {
        Wrong::Malformed { reason }
    };
    Unreadable {
        wrong,
        frame: text("type", 64),
        request_id: text("request_id", 256).or_else(|| text("id", 256)),
        term: fields.get("term").and_then(Value::as_u64),
        seq: fields.get("seq").and_then(Value::as_u64),
    }
}

fn cut(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

impl Unreadable {
    fn unknown(wrong: Wrong) -> Self {
        Self {
            wrong,
            frame: None,
            request_id: None,
            term: None,
            seq: None,
        }
    }

    /// What is answered: nothing to a type that came after us and asks for no answer.
    pub fn answer(&self) -> Option<ErrorFrame> {
        let (code, message) = match &self.wrong {
            Wrong::TooLong { bytes } => (
                ErrorFrame::TOO_LONG,
                format!("a frame has at most {MAX_LINK_FRAME} bytes; this one has {bytes}"),
            ),
            Wrong::NotJson { reason } => (
                ErrorFrame::BAD_JSON,
                format!("a frame is one JSON object: {reason}"),
            ),
            Wrong::UnknownType => {
                self.request_id.as_ref()?;
                (
                    ErrorFrame::UNSUPPORTED,
                    "this type of frame is not known here".to_owned(),
                )
            }
            Wrong::Malformed { reason } => (
                ErrorFrame::BAD_FRAME,
                format!("a field of this frame cannot be read: {reason}"),
            ),
        };
        Some(ErrorFrame {
            request_id: self.request_id.clone(),
            frame: self.frame.clone(),
            ..ErrorFrame::new(code, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FromHub, FromRunner, PromptState};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_type_that_came_later_is_told_from_a_broken_frame() {
        let later = read_hub(br#"{"type": "zzz", "term": 3}"#).unwrap_err();
        assert_eq!(
            (later.wrong.clone(), later.term),
            (Wrong::UnknownType, Some(3))
        );
        assert_eq!(later.answer(), None);

        let asked = read_hub(br#"{"type": "zzz", "term": 3, "request_id": "r1"}"#).unwrap_err();
        let answer = asked.answer().unwrap();
        assert_eq!(answer.code, ErrorFrame::UNSUPPORTED);
        assert_eq!(answer.request_id.as_deref(), Some("r1"));

        let broken = read_hub(br#"{"type": "ack", "term": 3, "seq": "one"}"#).unwrap_err();
        assert!(matches!(broken.wrong, Wrong::Malformed { .. }));
        assert_eq!(broken.answer().unwrap().frame.as_deref(), Some("ack"));

        let no_json = read_hub(b"{").unwrap_err();
        assert_eq!(no_json.answer().unwrap().code, ErrorFrame::BAD_JSON);
    }

    #[test]
    fn a_frame_longer_than_the_limit_is_refused() {
        let long = format!(
            r#"{{"type": "stop", "term": 1, "reason": "{}"}}"#,
            "x".repeat(MAX_LINK_FRAME)
        );
        let refused = read_hub(long.as_bytes()).unwrap_err();
        assert_eq!(refused.answer().unwrap().code, ErrorFrame::TOO_LONG);
    }

    #[test]
    fn a_field_that_came_later_is_no_obstacle() {
        let frame = read_hub(br#"{"type": "pong", "term": 2, "later": {"a": 1}}"#).unwrap();
        assert_eq!(frame, HubFrame::new(2, FromHub::Pong));
        let state = br#"{"type": "prompt_state", "seq": 4, "prompt_id": "p", "state": "dreamt"}"#;
        let frame = read_runner(state).unwrap();
        let state = PromptState::Unknown;
        let prompt_id = "p".to_owned();
        assert_eq!(frame.body, FromRunner::PromptState { prompt_id, state });
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, text: String) {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = read_hub(bytes).map_err(|unreadable| unreadable.answer());
                let _ = read_runner(bytes).map_err(|unreadable| unreadable.answer());
            }
        }
    }
}
