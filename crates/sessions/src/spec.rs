use model::{ByteCount, Candidates, Origin, SnapshotId, Timestamp};
use provider::{Capability, Forward, LinkBy, Network, Pass, Provider};
use serde::{Deserialize, Serialize};
use telemetry::Trace;
use wire::link::{Attachment, Author, Boot};

/// What a session was asked to be; kept with its record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    #[serde(default)]
    pub work: Work,
    /// What its workplace is to become.
    #[serde(default)]
    pub boot: Boot,
    /// What its first sandbox starts from, if not from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<SnapshotId>,
    #[serde(default)]
    pub machine: Machine,
    /// Who dials; where it is not said, whoever can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkBy>,
    /// What starts a plain agent that does not run.
    #[serde(default)]
    pub start: Vec<String>,
    /// The models of a prompt that names none, the first one first; the agent's own, if there are
    /// none here either.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// What an automation was begun by: a file of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<serde_json::Value>,
}

/// How large its sandboxes are, and what they reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub memory: ByteCount,
    /// In thousandths of a core.
    pub cpu_millis: u64,
    pub network: Network,
    /// What they may reach beyond what every sandbox may.
    #[serde(default)]
    pub allow: Vec<String>,
    /// What the one that serves may reach for a time. Forks have none of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// Ports on their loopback that lead to addresses of the host.
    #[serde(default)]
    pub forwards: Vec<Forward>,
    /// Where the provider ends sandboxes by itself: how long one shall live.
    #[serde(
        default,
        rename = "lifetime_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub lifetime: Option<u64>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            memory: ByteCount::new(4096 << 20),
            cpu_millis: 2000,
            network: Network::Proxy,
            allow: Vec::new(),
            passes: Vec::new(),
            forwards: Vec::new(),
            lifetime: None,
        }
    }
}

impl Machine {
    /// All that a sandbox of it may reach beyond what every one may, as of now.
    pub(crate) fn all_passes(&self, now: Timestamp) -> Vec<Pass> {
        let always = self.allow.iter().map(|rule| Pass {
            rule: rule.clone(),
            until: None,
        });
        let is_left = |pass: &&Pass| pass.until.is_some_and(|until| until > now);
        let some_time = self.passes.iter().filter(is_left).cloned();
        always.chain(some_time).collect()
    }
}

impl Spec {
    pub(crate) fn link_by(&self, provider: &dyn Provider) -> LinkBy {
        let capabilities = provider.capabilities();
        self.link.unwrap_or(if capabilities.has(Capability::Serve) {
            LinkBy::Door
        } else {
            LinkBy::Hub
        })
    }

    /// For a session that has nothing of its own yet.
    pub(crate) fn origin(&self, provider: &str) -> Origin {
        let base = self.base.clone();
        let candidates = Candidates {
            base,
            repositories: self.boot.repos.len(),
            ..Candidates::default()
        };
        Origin::choose(provider, candidates)
    }
}

/// What is in its sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A runner with an agent, which calls at the link door.
    #[default]
    Workplace,
    /// A plain OpenCode, which is driven from here.
    Agent,
    /// Nobody: a machine to run commands in.
    Machine,
}

/// What somebody asks the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub content: String,
    #[serde(default)]
    pub attachments: Vec<Attachment>,
    /// Models in the order in which they are tried. Empty: the agent's own.
    #[serde(default)]
    pub chain: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// Where the answer goes, if not to the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_channel: Option<String>,
    /// The request that asked, in a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

impl Ask {
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Several that were gathered, as one: the last one's models and author.
    pub(crate) fn joined(all: Vec<Self>) -> Self {
        let mut joined = Self::default();
        for one in all {
            if !joined.content.is_empty() {
                joined.content.push_str("\n\n");
            }
            joined.content.push_str(&one.content);
            joined.attachments.extend(one.attachments);
            joined.chain = one.chain;
            joined.author = one.author;
            joined.reply_channel = one.reply_channel;
            joined.trace = one.trace;
        }
        joined
    }
}
