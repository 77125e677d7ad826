//! What is said to one client about what it said.

use serde_json::{Value, json};
use wire::v1::FromClient;

use crate::Refusal;

/// What takes a while, and may be overtaken.
pub(super) fn is_slow(frame: &FromClient) -> bool {
    matches!(
        frame,
        FromClient::SaveSnapshot { .. }
            | FromClient::Pause
            | FromClient::RunAutoStart
            | FromClient::GitStatus { .. }
            | FromClient::GitCreateBranch { .. }
            | FromClient::GitCommit { .. }
            | FromClient::GitPush { .. }
            | FromClient::GitCreatePr { .. }
    )
}

pub(crate) fn about(frame: &FromClient) -> Value {
    named(&serde_json::to_value(frame).unwrap_or_default())
}

/// By what the client knows again what it said.
pub(super) fn named(said: &Value) -> Value {
    let short = |name: &str| {
        let text = said[name].as_str()?;
        Some(json!(text.chars().take(128).collect::<String>()))
    };
    let mut about = json!({});
    for (from, to) in [
        ("type", "frame"),
        ("request_id", "request_id"),
        ("id", "id"),
    ] {
        if let Some(text) = short(from) {
            about[to] = text;
        }
    }
    about
}

pub(super) fn error(refusal: &Refusal, about: &Value) -> Value {
    let mut frame = json!({ "type": "error", "code": refusal.code, "message": refusal.message });
    if let Value::Object(about) = about {
        for (name, value) in about {
            frame[name] = value.clone();
        }
    }
    frame
}
