//! What a person asks, and answers.

use serde::{Deserialize, Serialize};

/// A prompt as it is dispatched: at most once, to one generation and boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prompt {
    pub id: String,
    pub content: String,
    /// Models in the order in which they are tried, `provider/model` each. Empty: the agent's own.
    #[serde(default)]
    pub chain: Vec<String>,
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    #[serde(default = "default_channel")]
    pub channel: String,
    /// Where the answer goes, if not to the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_channel: Option<String>,
    /// The agent's conversation that the hub remembers for the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// What was said before. Told to the agent before the content, when it has to begin anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

impl Prompt {
    /// Words alone, on the channel that there is always.
    pub fn new(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            content: content.into(),
            chain: Vec::new(),
            attachments: Vec::new(),
            channel: default_channel(),
            reply_channel: None,
            agent_session: None,
            author: None,
            context: None,
        }
    }

    /// Its attachments have to go by reference: the frame would be too long with them.
    pub fn is_too_long_inline(&self) -> bool {
        super::write(self).len() > super::MAX_INLINE
    }
}

fn default_channel() -> String {
    super::DEFAULT_CHANNEL.to_owned()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Author {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As they sign commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_email: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Attachment {
    pub name: String,
    /// As in `image/png`.
    pub media_type: String,
    pub source: Source,
}

/// Where something large is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Here, in base 64.
    Data(String),
    /// At the hub, by this name.
    Upload(String),
    /// In the sandbox, at this path.
    File(String),
}

/// What a person answered: words, several of the options, or yes or no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Answer {
    YesNo(bool),
    Text(String),
    Several(Vec<String>),
}
