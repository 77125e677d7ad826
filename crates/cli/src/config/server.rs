//! `[server]`, `[preview]`, `[sessions]`: what `nacre up` and `nacre serve` are told.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{Id, Organisation};
use serde::{Deserialize, Serialize};
use wire::v1::EgressPolicy;

use super::{Setting, Span, bad_setting};
use crate::error::CommandError;

/// What the server is told, checked.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) scheme: String,
    pub(crate) authority: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) preview_domain: String,
    pub(crate) sessions: SessionsSection,
}

/// `[server]`: where people find it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerSection {
    /// The address that it listens on.
    listen: String,
    /// How browsers reach it, where that is not `http://nacre.localhost` with the port of `listen`:
    /// `https://nacre.example`.
    url: Option<String>,
    /// Other names that it answers to, with their ports.
    hosts: Vec<String>,
}

/// `[preview]`: where browsers find what runs in sandboxes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewSection {
    /// Each preview is a name below it.
    domain: String,
}

/// `[sessions]`: how long things are kept, and what runs them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionsSection {
    /// What runs sessions that name nothing else.
    pub(crate) provider: String,
    /// A sandbox that nothing uses is paused after so long.
    pub(crate) idle: Span,
    /// The same where people talk by messages.
    pub(crate) idle_in_chats: Span,
    /// Memory of a paused session is given up for its disk after so long.
    pub(crate) paused: Span,
    /// Snapshots that nobody asked for, kept of each session: the last ones.
    pub(crate) snapshots: u32,
    /// What sessions reach that say nothing of it: `proxy`, `none` or `open`.
    pub(crate) egress: EgressPolicy,
    /// On the list of every session under `proxy`, beyond `egress.allow`.
    pub(crate) egress_allow: Vec<String>,
    /// The same as `egress` for one organisation, by its id.
    pub(crate) egress_of: BTreeMap<String, EgressPolicy>,
}

impl ServerSection {
    pub(super) fn usual() -> Self {
        Self {
            listen: "127.0.0.1:7070".to_owned(),
            url: None,
            hosts: Vec::new(),
        }
    }
}

impl PreviewSection {
    pub(super) fn usual() -> Self {
        Self {
            domain: "preview.nacre.localhost".to_owned(),
        }
    }
}

impl SessionsSection {
    pub(super) fn usual() -> Self {
        let usual = sessions::Settings::usual();
        Self {
            provider: "local".to_owned(),
            idle: Span(usual.idle),
            idle_in_chats: Span(usual.idle_in_chats),
            paused: Span(usual.paused),
            snapshots: usual.snapshots,
            egress: EgressPolicy::Proxy,
            egress_allow: Vec::new(),
            egress_of: BTreeMap::new(),
        }
    }
}

impl Server {
    pub(super) fn read(
        server: ServerSection,
        preview: &PreviewSection,
        sessions: SessionsSection,
        settings: &[Setting],
    ) -> Result<Self, CommandError> {
        let bad = |key: &str, what: &str| bad_setting(settings, key, what);
        let listen: SocketAddr = server.listen.parse().map_err(|_| {
            let what = format!("`{}` is no address: write 127.0.0.1:7070", server.listen);
            bad("server.listen", &what)
        })?;
        let url = server.url.filter(|url| !url.is_empty());
        let url = url.unwrap_or_else(|| format!("http://nacre.localhost:{}", listen.port()));
        let (scheme, authority) = split(&url)
            .ok_or_else(|| bad("server.url", "write https://nacre.example, without a path"))?;
        if !is_domain(&preview.domain) {
            return Err(bad(
                "preview.domain",
                "write preview.example, without a port",
            ));
        }
        let mut names = std::iter::once(&authority).chain(&server.hosts);
        if !names.all(|host| ::server::is_apart(host, &preview.domain)) {
            return Err(bad(
                "preview.domain",
                "the server itself is below it: write a name of its own, as in preview.example",
            ));
        }
        let mut hosts = server.hosts;
        hosts.extend(names_of(listen));
        for (key, span) in [
            ("sessions.idle", sessions.idle),
            ("sessions.idle_in_chats", sessions.idle_in_chats),
        ] {
            if span.0.is_zero() {
                return Err(bad(key, "0s would pause every session at once"));
            }
        }
        if sessions.snapshots == 0 {
            return Err(bad("sessions.snapshots", "a session needs its last one"));
        }
        for rule in &sessions.egress_allow {
            if let Err(error) = rule.parse::<egress::policy::Rule>() {
                return Err(bad("sessions.egress_allow", &error.to_string()));
            }
        }
        if let Some(organisation) = sessions
            .egress_of
            .keys()
            .find(|id| id.parse::<Id<Organisation>>().is_err())
        {
            let what = format!("`{organisation}` is not the id of an organisation: see `/v1/orgs`");
            return Err(bad("sessions.egress_of", &what));
        }
        Ok(Self {
            listen,
            scheme,
            authority,
            hosts,
            preview_domain: preview.domain.to_lowercase(),
            sessions,
        })
    }
}

impl Server {
    /// As an argument says it.
    pub(crate) fn listening_on(mut self, listen: SocketAddr) -> Self {
        if self.authority == format!("nacre.localhost:{}", self.listen.port()) {
            self.authority = format!("nacre.localhost:{}", listen.port());
        }
        self.hosts.extend(names_of(listen));
        self.listen = listen;
        self
    }
}

/// What programs on this machine call a server that listens there.
fn names_of(listen: SocketAddr) -> Vec<String> {
    let port = listen.port();
    let mut names = vec![listen.to_string(), format!("localhost:{port}")];
    if listen.ip().is_unspecified() {
        names.extend([format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    }
    names
}

fn split(url: &str) -> Option<(String, String)> {
    let (scheme, authority) = url.trim_end_matches('/').split_once("://")?;
    let name = authority.split(':').next()?;
    let is_good = matches!(scheme, "http" | "https") && is_domain(name);
    is_good.then(|| (scheme.to_owned(), authority.to_lowercase()))
}

fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.len() <= 200 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_every_address_answers_to_loopback_too() {
        let every = names_of("0.0.0.0:7070".parse().unwrap());
        assert!(every.contains(&"127.0.0.1:7070".to_owned()), "{every:?}");
        let one = names_of("10.1.2.3:7070".parse().unwrap());
        assert_eq!(one, ["10.1.2.3:7070", "localhost:7070"]);
    }
}
