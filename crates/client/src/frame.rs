use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;
use wire::v1::{Event, Init};

/// One thing that a session's socket told.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its number in the log. What is only said in passing has none.
    pub seq: Option<u64>,
    pub body: Body,
    text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Everything as it is at one moment: what was held before is out of date.
    Init(Box<Init>),
    Event(Box<Event>),
}

impl Frame {
    /// None if it is no frame at all. One of a type, or with fields, that are not known here is an
    /// [`Event::Unknown`]: it keeps its number and its text.
    pub fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let kind = value.get("type")?.as_str()?;
        let body = if kind == "init" {
            Body::Init(Box::new(Init::deserialize(&value).ok()?))
        } else {
            let event = Event::deserialize(&value).unwrap_or(Event::Unknown);
            Body::Event(Box::new(event))
        };
        let seq = match &body {
            Body::Init(_) => None,
            Body::Event(_) => value.get("seq").and_then(Value::as_u64),
        };
        Some(Self {
            seq,
            body,
            text: text.into(),
        })
    }

    /// As the server said it: a JSON object.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is known here of it; `init` is none.
    pub fn event(&self) -> Option<&Event> {
        match &self.body {
            Body::Event(event) => Some(event),
            Body::Init(_) => None,
        }
    }

    /// All of it, also what is not known here.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_keeps_its_number_and_its_words() {
        let text = r#"{"seq":3,"type":"weather","sun":true}"#;
        let frame = Frame::read(text).unwrap();
        assert_eq!((frame.seq, frame.event()), (Some(3), Some(&Event::Unknown)));
        assert_eq!(frame.text(), text);
        let misfit = Frame::read(r#"{"seq":4,"type":"title"}"#).unwrap();
        assert_eq!(
            (misfit.seq, misfit.event()),
            (Some(4), Some(&Event::Unknown))
        );
    }

    #[test]
    fn what_is_no_object_with_a_type_is_no_frame() {
        for text in ["", "7", "[]", "{}", r#"{"type":1}"#, r#"{"type":"init"}"#] {
            assert!(Frame::read(text).is_none(), "{text}");
        }
    }
}
