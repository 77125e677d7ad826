//! Addresses of previews: `{target}-{session}.{domain}`, each an origin of its own.

use std::fmt;
use std::str::FromStr;

use model::{Id, Session};

/// Where previews are, for browsers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Below which every preview has its name, as in `preview.nacre.localhost`.
    pub domain: String,
    /// As browsers see it, where it is not the scheme's own.
    pub port: Option<u16>,
    /// `https`, or `http`.
    pub is_https: bool,
}

/// What of a sandbox is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// What the session exposes, or the first of the usual ports that answers.
    Exposed,
    Port(u16),
    Editor,
    Desktop,
    Terminal,
}

/// Which preview a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address {
    pub target: Target,
    pub session: Id<Session>,
}

impl Site {
    /// Which preview is meant by a `Host`; none if it is not one of ours.
    pub fn address(&self, host: &str) -> Option<Address> {
        let name = match host.split_once(':') {
            Some((name, port)) if is_number(port) => name,
            Some(_) => return None,
            None => host,
        };
        let label_length = name.len().checked_sub(self.domain.len() + 1)?;
        let (label, domain) = (name.get(..label_length)?, name.get(label_length..)?);
        if !domain.strip_prefix('.')?.eq_ignore_ascii_case(&self.domain) {
            return None;
        }
        label.to_ascii_lowercase().parse().ok()
    }

    /// Whether a name is below our domain, whatever it means.
    pub fn is_below(&self, host: &str) -> bool {
        let name = host.split(':').next().unwrap_or_default();
        let below = name.len().checked_sub(self.domain.len());
        below.is_some_and(|at| {
            at > 0
                && name.is_char_boundary(at)
                && name[..at].ends_with('.')
                && name[at..].eq_ignore_ascii_case(&self.domain)
        })
    }

    pub fn origin(&self, target: Target, session: Id<Session>) -> String {
        let scheme = if self.is_https { "https" } else { "http" };
        let address = Address { target, session };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{address}.{}{port}", self.domain)
    }

    pub fn url(&self, target: Target, session: Id<Session>) -> String {
        format!("{}/", self.origin(target, session))
    }

    /// What browsers take for safe without a certificate.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_https || self.domain == "localhost" || self.domain.ends_with(".localhost")
    }
}

fn is_number(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A label of DNS.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = self.session.to_string().replace('_', "-");
        write!(f, "{}-{session}", self.target)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a preview")]
pub struct NotAnAddress;

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(label: &str) -> Result<Self, NotAnAddress> {
        let (target, session) = label.split_once('-').ok_or(NotAnAddress)?;
        let target = target.parse()?;
        let digits = session.strip_prefix("ses-").ok_or(NotAnAddress)?;
        let session = format!("ses_{digits}").parse().map_err(|_| NotAnAddress)?;
        Ok(Self { target, session })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exposed => f.write_str("app"),
            Self::Port(port) => write!(f, "{port}"),
            Self::Editor => f.write_str("editor"),
            Self::Desktop => f.write_str("desktop"),
            Self::Terminal => f.write_str("terminal"),
        }
    }
}

impl FromStr for Target {
    type Err = NotAnAddress;

    fn from_str(word: &str) -> Result<Self, NotAnAddress> {
        match word {
            "app" => Ok(Self::Exposed),
            "editor" => Ok(Self::Editor),
            "desktop" => Ok(Self::Desktop),
            "terminal" => Ok(Self::Terminal),
            // One way to write each, so that each is one origin.
            number if is_number(number) && !number.starts_with('0') => {
                let port = number.parse().map_err(|_| NotAnAddress)?;
                Ok(Self::Port(port))
            }
            _ => Err(NotAnAddress),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;
    use proptest::prelude::*;

    use super::*;

    fn site() -> Site {
        Site {
            domain: "preview.nacre.localhost".to_owned(),
            port: Some(7070),
            is_https: false,
        }
    }

    #[test]
    fn a_name_says_which_port_of_which_session() {
        let session = Id::new(&SystemClock);
        let label = session.to_string().replace('_', "-");
        let found = |host: String| site().address(&host);
        let at = |target| Some(Address { target, session });
        let domain = "preview.nacre.localhost";
        for (host, expected) in [
            (
                format!("3000-{label}.{domain}:7070"),
                at(Target::Port(3000)),
            ),
            (format!("3000-{label}.{domain}"), at(Target::Port(3000))),
            (format!("app-{label}.{domain}"), at(Target::Exposed)),
            (format!("editor-{label}.{domain}"), at(Target::Editor)),
            (
                format!("DESKTOP-{}.{domain}", label.to_uppercase()),
                at(Target::Desktop),
            ),
            (
                format!("terminal-{label}.PREVIEW.nacre.Localhost"),
                at(Target::Terminal),
            ),
            (format!("0-{label}.{domain}"), None),
            (format!("03000-{label}.{domain}"), None),
            (format!("70000-{label}.{domain}"), None),
            (format!("+80-{label}.{domain}"), None),
            (format!("root-{label}.{domain}"), None),
            (format!("3000-{label}.{domain}."), None),
            (format!("3000-{label}.{domain}:x"), None),
            (format!("3000-{label}.{domain}:7070:1"), None),
            (format!("3000-{label}.evil.{domain}"), None),
            (format!("3000-{label}.preview.nacre.localhost.evil"), None),
            (format!("3000-{label}x{domain}"), None),
            (format!("3000-{}.{domain}", &label[..29]), None),
            (format!("{label}.{domain}"), None),
            (domain.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(found(host.clone()), expected, "{host}");
        }
    }

    proptest! {
        #[test]
        fn every_address_is_read_again_and_is_a_label(port in 1u16.., bits: u128) {
            let session = Id::from_uuid(uuid_of(bits));
            let address = Address { target: Target::Port(port), session };
            let label = address.to_string();
            prop_assert!(label.len() <= 63);
            prop_assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            let host = format!("{label}.preview.nacre.localhost:7070");
            prop_assert_eq!(site().address(&host.to_ascii_uppercase()), Some(address));
        }

        #[test]
        fn no_host_breaks_it(host in "\\PC{0,120}") {
            let _ = site().address(&host);
            let _ = site().is_below(&host);
        }
    }

    fn uuid_of(bits: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(bits)
    }
}
