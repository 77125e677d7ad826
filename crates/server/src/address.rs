//! Where the server is found, and which names it answers to.

/// How browsers reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `http` or `https`.
    pub scheme: String,
    /// As in `nacre.localhost:7070`.
    pub authority: String,
    /// Previews are at `{port}-{session}.{domain}`, with the port of the authority.
    pub preview_domain: String,
    /// Other names that it answers to, with their ports: its listen address, and what is configured.
    pub also: Vec<String>,
}

impl Address {
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Where a browser finds a port of a session, or a word such as `editor`.
    pub fn preview(&self, session: &str, target: &str) -> String {
        let label = session.replace('_', "-");
        let domain = &self.preview_domain;
        let port = match self.authority.rsplit_once(':') {
            Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{port}"),
            _ => String::new(),
        };
        format!("{}://{target}-{label}.{domain}{port}", self.scheme)
    }

    /// Whether a request may name this host. Names are compared without case.
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        let is = |name: &str| name.eq_ignore_ascii_case(host);
        is(&self.authority) || self.also.iter().any(|name| is(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address {
            scheme: "http".to_owned(),
            authority: "nacre.localhost:7070".to_owned(),
            preview_domain: "preview.nacre.localhost".to_owned(),
            also: vec!["127.0.0.1:7070".to_owned()],
        }
    }

    #[test]
    fn a_preview_has_an_origin_of_its_own() {
        assert_eq!(
            address().preview("ses_01", "3000"),
            "http://3000-ses-01.preview.nacre.localhost:7070"
        );
    }

    #[test]
    fn only_names_of_ours_are_answered() {
        let address = address();
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
    }
}
