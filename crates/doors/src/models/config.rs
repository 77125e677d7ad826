//! Which models there are, and where.

use serde::Deserialize;

use super::catalogue;
use super::price::Price;
use crate::demo;
use crate::gate::Limits;
use crate::network::Network;

/// The model door's settings, as a configuration file says them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub upstreams: Vec<Upstream>,
    /// The scripted model that needs no account. `None` takes it away.
    pub demo: Option<demo::Pace>,
    pub limits: Limits,
    pub budget: Budget,
    pub network: Network,
    /// Go before the prices that are checked in.
    pub prices: Vec<Price>,
    /// The largest body of a request.
    pub most_body: usize,
    /// All bodies of requests that are on their way.
    pub most_bodies: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            upstreams: vec![Upstream::anthropic(), Upstream::openai()],
            demo: Some(demo::Pace::default()),
            limits: Limits::default(),
            budget: Budget::default(),
            network: Network::default(),
            prices: Vec::new(),
            most_body: 32 << 20,
            most_bodies: 512 << 20,
        }
    }
}

/// What one session may use up in its life; `None` is as much as it likes. Requests that run when it
/// is used up still end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Of every kind, those from a cache too.
    pub tokens: Option<u64>,
    /// Of what has a price that is known.
    pub cost_micros: Option<u64>,
}

/// A server of models. Sandboxes reach it as `/{id}/v1/…`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    pub id: String,
    /// As people call it.
    #[serde(default)]
    pub name: String,
    pub api: Api,
    /// With its version, as in `https://api.anthropic.com/v1`.
    pub base_url: String,
    /// A server of one's own may let everybody in.
    #[serde(default = "yes")]
    pub needs_key: bool,
    /// What agents are told of. Which of them may be used is the upstream's own matter.
    #[serde(default)]
    pub models: Vec<ModelInfo>,
    /// The one that is taken when nobody chose.
    #[serde(default)]
    pub default: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub context_limit: Option<u64>,
    #[serde(default)]
    pub output_limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Messages.
    Anthropic,
    /// Chat completions and responses.
    OpenAi,
}

impl Upstream {
    pub fn anthropic() -> Self {
        Self {
            id: "anthropic".to_owned(),
            name: "Anthropic".to_owned(),
            api: Api::Anthropic,
            base_url: "https://api.anthropic.com/v1".to_owned(),
            needs_key: true,
            models: catalogue::offered("anthropic"),
            default: Some("claude-sonnet-4-5".to_owned()),
        }
    }

    pub fn openai() -> Self {
        Self {
            id: "openai".to_owned(),
            name: "OpenAI".to_owned(),
            api: Api::OpenAi,
            base_url: "https://api.openai.com/v1".to_owned(),
            needs_key: true,
            models: catalogue::offered("openai"),
            default: Some("gpt-5".to_owned()),
        }
    }

    /// The scripted model in this process.
    pub fn demo() -> Self {
        Self {
            id: demo::PROVIDER.to_owned(),
            name: "Demo".to_owned(),
            api: Api::OpenAi,
            base_url: String::new(),
            needs_key: false,
            models: vec![ModelInfo::new(demo::MODEL, demo::NAME, 200_000, 8_192)],
            default: Some(demo::MODEL.to_owned()),
        }
    }
}

impl ModelInfo {
    /// With what we know of it.
    pub fn known(provider: &str, id: &str) -> Self {
        catalogue::info(provider, id)
    }

    pub fn new(id: &str, name: &str, context: u64, output: u64) -> Self {
        Self {
            id: id.to_owned(),
            name: Some(name.to_owned()),
            context_limit: Some(context),
            output_limit: Some(output),
        }
    }
}

/// What may stand in a path and in an agent's configuration.
pub(super) fn is_provider_id(id: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    !id.is_empty() && id.len() <= 64 && id.bytes().all(plain)
}
