//! Where the server is found, and which names it answers to.

use gateway::preview::Site;

/// How browsers reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    pub scheme: String,
    /// As in `nacre.localhost:7070`.
    pub authority: String,
    /// Previews have names below it, and the port of the authority.
    pub preview_domain: String,
    /// Other names that it answers to, with their ports: its listen address, and what is configured.
    pub also: Vec<String>,
}

impl Address {
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Where previews are.
    pub fn site(&self) -> Site {
        let port = self.authority.rsplit_once(':');
        Site {
            domain: self.preview_domain.clone(),
            port: port.and_then(|(_, port)| port.parse().ok()),
            is_https: self.scheme == "https",
        }
    }

    /// Whether a request may name this host. Names are compared without case.
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        let is = |name: &str| name.eq_ignore_ascii_case(host);
        is(&self.authority) || self.also.iter().any(|name| is(name))
    }
}

/// Whether a host of the server's is no name of a preview. One that is would be answered by what runs
/// in sandboxes, cookies and all.
pub fn is_apart(host: &str, preview_domain: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let (name, domain) = (name.to_lowercase(), preview_domain.to_lowercase());
    let above = name.strip_suffix(&*domain);
    above.is_none_or(|rest| !rest.is_empty() && !rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_below_its_previews_is_none() {
        let domain = "preview.nacre.localhost";
        for good in [
            "nacre.localhost:7070",
            "127.0.0.1:7070",
            "nopreview.nacre.localhost",
        ] {
            assert!(is_apart(good, domain), "{good}");
        }
        for (host, domain) in [
            ("nacre.localhost:7070", "nacre.localhost"),
            ("nacre.localhost:7070", "localhost"),
            ("Nacre.Example", "example"),
            ("a.preview.nacre.localhost", "preview.nacre.localhost"),
        ] {
            assert!(!is_apart(host, domain), "{host} {domain}");
        }
    }

    #[test]
    fn only_names_of_ours_are_answered() {
        let address = Address {
            scheme: "http".to_owned(),
            authority: "nacre.localhost:7070".to_owned(),
            preview_domain: "preview.nacre.localhost".to_owned(),
            also: vec!["127.0.0.1:7070".to_owned()],
        };
        assert!(address.is_ours("NACRE.localhost:7070"));
        assert!(address.is_ours("127.0.0.1:7070"));
        for foreign in [
            "evil.example",
            "nacre.localhost",
            "nacre.localhost:7070.evil",
            "",
        ] {
            assert!(!address.is_ours(foreign), "{foreign}");
        }
        assert_eq!(address.site().port, Some(7070));
    }
}
