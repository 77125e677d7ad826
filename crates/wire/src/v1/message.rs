use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message with its parts, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Message {
    pub id: String,
    /// The number of the event that opened it: their order.
    pub position: u64,
    /// `user`, `assistant` or `system`.
    pub role: String,
    pub channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Value>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<String>,
    /// `end_turn`, `error` or `canceled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// It was undone, with what it did to files.
    #[serde(default)]
    pub reverted: bool,
    /// It was said in the session that this one was forked from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    pub parts: Vec<MessagePart>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessagePart {
    pub part_id: String,
    /// With its `kind`: `text`, `reasoning`, `tool`, `error`, `finish`, `image`, …
    pub content: Value,
}
