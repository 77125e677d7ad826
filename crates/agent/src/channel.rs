//! Where a person talks from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A channel: its kind and its own id, printed `web:default`. Each has a conversation of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelKey {
    kind: String,
    id: String,
}

/// Longer keys are somebody's mistake, and they are in every event.
const LONGEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a channel: give a kind and an id, as in web:default")]
pub struct ChannelKeyError(String);

impl ChannelKey {
    pub fn new(
        kind: impl Into<String>,
        id: impl Into<String>,
    ) -> Result<ChannelKey, ChannelKeyError> {
        let (kind, id) = (kind.into(), id.into());
        let wrong = kind.is_empty()
            || id.is_empty()
            || kind.contains(':')
            || kind.len() + id.len() > LONGEST
            || kind.chars().chain(id.chars()).any(char::is_control);
        if wrong {
            let shown = format!("{kind}:{id}").chars().take(64).collect();
            return Err(ChannelKeyError(shown));
        }
        Ok(ChannelKey { kind, id })
    }

    /// The channel of a browser.
    pub fn web() -> ChannelKey {
        ChannelKey {
            kind: "web".to_owned(),
            id: "default".to_owned(),
        }
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for ChannelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl FromStr for ChannelKey {
    type Err = ChannelKeyError;

    fn from_str(text: &str) -> Result<ChannelKey, ChannelKeyError> {
        let (kind, id) = text.split_once(':').unwrap_or((text, ""));
        ChannelKey::new(kind, id)
    }
}

impl Serialize for ChannelKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChannelKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChannelKey, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_survives_being_printed_and_read() {
        let key: ChannelKey = "slack:C1/1700.5:x".parse().unwrap();
        assert_eq!((key.kind(), key.id()), ("slack", "C1/1700.5:x"));
        assert_eq!(key.to_string(), "slack:C1/1700.5:x");
    }

    #[test]
    fn a_channel_needs_a_kind_and_an_id() {
        for text in ["", "web", "web:", ":default", "we\nb:x"] {
            assert!(text.parse::<ChannelKey>().is_err(), "{text:?}");
        }
    }
}
