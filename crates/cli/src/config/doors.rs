//! `[models]` and `[git]`: where the doors of sandboxes lead.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use ::doors::forge::Forge;
use ::doors::models::{Api, Budget, ModelInfo, Price, Upstream};
use ::doors::{Limits, Network, demo};
use model::Secret;
use serde::{Deserialize, Serialize};

use super::{Setting, bad_setting, variable};
use crate::error::CommandError;

/// What the model door is told, checked.
#[derive(Debug, Clone)]
pub(crate) struct Models {
    pub(crate) doors: ::doors::models::Config,
    pub(crate) keys: BTreeMap<String, Secret>,
    pub(crate) default: Option<String>,
}

/// `[models]`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelsSection {
    /// Of sessions that name none; the first that can be used, if it is not said.
    default: Option<String>,
    /// The scripted model that needs no account.
    demo: bool,
    /// Something that speaks Anthropic's API in its place.
    anthropic_url: Option<String>,
    /// Something that speaks `OpenAI`'s API in its place.
    openai_url: Option<String>,
    /// Others that speak the Chat API of `OpenAI`.
    custom: Vec<CustomModels>,
    /// What agents are offered of Anthropic's and `OpenAI`'s; those that we know, if it is empty.
    anthropic_models: Vec<String>,
    openai_models: Vec<String>,
    /// Micro-dollars for a million tokens; they go before those that we know.
    prices: Vec<Price>,
    /// Of one session: requests at a time, and in a minute.
    at_a_time: Option<u32>,
    per_minute: Option<NonZeroU32>,
    /// Of one session, in its life; as much as it likes, if it is not said.
    tokens_per_session: Option<u64>,
    micros_per_session: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomModels {
    /// The part of a model's name before the slash.
    id: String,
    #[serde(default)]
    name: String,
    /// With its version, as in `http://127.0.0.1:11434/v1`.
    url: String,
    #[serde(default)]
    needs_key: bool,
    models: Vec<String>,
}

/// `[git]`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitSection {
    /// Hosts with a port, or without TLS: `https://git.example:8443`, `http://10.1.2.3:3000`.
    hosts: Vec<String>,
    /// Where pull requests are, besides github.com: hosts with an API like `GitHub`'s.
    forges: Vec<ForgeSection>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ForgeSection {
    host: String,
    /// As in `https://git.example/api/v3`.
    api: String,
}

impl ModelsSection {
    pub(super) fn usual() -> Self {
        Self {
            default: None,
            demo: true,
            anthropic_url: None,
            openai_url: None,
            custom: Vec::new(),
            anthropic_models: Vec::new(),
            openai_models: Vec::new(),
            prices: Vec::new(),
            at_a_time: None,
            per_minute: None,
            tokens_per_session: None,
            micros_per_session: None,
        }
    }

    pub(super) fn read(
        self,
        proxy: Option<&Secret>,
        settings: &[Setting],
    ) -> Result<Models, CommandError> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut upstreams = vec![Upstream::anthropic(), Upstream::openai()];
        let urls = [filled(self.anthropic_url), filled(self.openai_url)];
        for (upstream, url) in upstreams.iter_mut().zip(urls) {
            upstream.base_url = url.unwrap_or_else(|| upstream.base_url.clone());
        }
        let lists = [self.anthropic_models, self.openai_models];
        for (upstream, list) in upstreams.iter_mut().zip(lists) {
            let Some(first) = list.first() else {
                continue;
            };
            upstream.default = Some(first.clone());
            let known = list.iter().map(|id| ModelInfo::known(&upstream.id, id));
            upstream.models = known.collect();
        }
        for custom in self.custom {
            if custom.models.is_empty() {
                let what = format!("`{}` names no models", custom.id);
                return Err(bad_setting(settings, "models.custom", &what));
            }
            upstreams.push(Upstream {
                name: if custom.name.is_empty() {
                    custom.id.clone()
                } else {
                    custom.name
                },
                id: custom.id,
                api: Api::OpenAi,
                base_url: custom.url,
                needs_key: custom.needs_key,
                default: custom.models.first().cloned(),
                models: custom
                    .models
                    .iter()
                    .map(|id| ModelInfo::new(id, id, 128_000, 8_192))
                    .collect(),
            });
        }
        let default = filled(self.default);
        if default.as_ref().is_some_and(|model| !model.contains('/')) {
            return Err(bad_setting(
                settings,
                "models.default",
                "a model is as in `anthropic/claude-sonnet-4-5`",
            ));
        }
        Ok(Models {
            doors: ::doors::models::Config {
                upstreams,
                demo: self.demo.then(demo::Pace::default),
                limits: limits(self.at_a_time, self.per_minute),
                budget: Budget {
                    tokens: self.tokens_per_session,
                    cost_micros: self.micros_per_session,
                },
                prices: self.prices,
                network: network(proxy),
                ..::doors::models::Config::default()
            },
            keys: vendor_keys(),
            default,
        })
    }
}

fn limits(at_a_time: Option<u32>, per_minute: Option<NonZeroU32>) -> Limits {
    let usual = Limits::default();
    Limits {
        at_a_time: at_a_time.unwrap_or(usual.at_a_time),
        per_minute: per_minute.unwrap_or(usual.per_minute),
        ..usual
    }
}

/// The vendors' own names for their keys; secrets of an organisation go before them.
fn vendor_keys() -> BTreeMap<String, Secret> {
    let named = [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
    ];
    let found = named.into_iter().filter_map(|(provider, name)| {
        let value = variable(name)?.into_string().ok()?;
        (!value.is_empty()).then(|| (provider.to_owned(), Secret::new(value)))
    });
    found.collect()
}

impl GitSection {
    pub(super) fn usual() -> Self {
        Self {
            hosts: Vec::new(),
            forges: Vec::new(),
        }
    }

    pub(super) fn read(
        self,
        proxy: Option<&Secret>,
        settings: &[Setting],
    ) -> Result<::doors::git::Config, CommandError> {
        use ::doors::git::{Host, Scheme};
        let host = |text: String| {
            let (scheme, name) = match text.split_once("://") {
                Some(("https", name)) => (Scheme::Https, name),
                Some(("http", name)) => (Scheme::Http, name),
                _ => {
                    let what = format!("write `{text}` with https:// or http://");
                    return Err(bad_setting(settings, "git.hosts", &what));
                }
            };
            Ok(Host {
                name: name.trim_end_matches('/').to_lowercase(),
                scheme,
            })
        };
        let forges = self.forges.into_iter().map(|forge| Forge {
            host: forge.host.to_lowercase(),
            api: forge.api,
        });
        Ok(::doors::git::Config {
            hosts: self.hosts.into_iter().map(host).collect::<Result<_, _>>()?,
            forges: forges.collect(),
            network: network(proxy),
            ..::doors::git::Config::default()
        })
    }
}

/// The same way out as sandboxes have.
fn network(proxy: Option<&Secret>) -> Network {
    Network {
        proxy: proxy.cloned(),
        ..Network::default()
    }
}
