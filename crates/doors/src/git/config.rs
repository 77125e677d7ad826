use serde::Deserialize;

use crate::forge::Forge;
use crate::gate::Limits;
use crate::network::Network;

/// The git door's settings, as a configuration file says them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Those with a port, without TLS, or on a network of one's own. Others need no entry.
    pub hosts: Vec<Host>,
    /// Where pull requests are, besides `github.com`; an entry for that name goes before it.
    pub forges: Vec<Forge>,
    pub limits: Limits,
    pub network: Network,
    /// Bytes of a push.
    pub most_push: u64,
    /// Bytes in which git says what it wants.
    pub most_wants: u64,
    /// Bytes of an answer.
    pub most_answer: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            forges: Vec::new(),
            limits: Limits::default(),
            network: Network::default(),
            most_push: 4 << 30,
            most_wants: 64 << 20,
            most_answer: 64 << 30,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// In lower case, with its port if it has one: `git.example.org:8443`.
    pub name: String,
    #[serde(default)]
    pub scheme: Scheme,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    #[default]
    Https,
    Http,
}

impl Scheme {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}
