//! What may be reached: rules for names and ports, then classes for addresses.
//!
//! A request passes twice. Its name and port are compared with the rules before anything is
//! resolved, so that a name that is not listed causes no query. Each address that the name has is
//! classed before it is dialled.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::address::{self, Class};
use crate::reason::{Reason, TargetError};
use crate::target::{Host, Target, parse_port};

/// Ports that a rule without one opens.
const WEB_PORTS: [u16; 2] = [80, 443];

/// `host`, `host:port`, `*.domain`, `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// Every name below this one, itself not.
    Below(String),
    One(Host),
}

/// Something that may be reached although its address is not public: `10.1.2.3:8080`,
/// `git.internal`, `192.168.0.0/16`. It does not allow anything by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Private {
    place: Place,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Named(Hosts),
    Network { address: IpAddr, prefix: u8 },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("`{rule}`: {why}")]
    Target { rule: String, why: TargetError },
    #[error(
        "`{rule}`: a rule is a host such as `pypi.org`, `pypi.org:8443`, `*.pypi.org` or `*`, without a scheme or path"
    )]
    Form { rule: String },
    #[error(
        "`{rule}` is not a network: write it as 192.168.0.0/16, with nothing set after the prefix"
    )]
    Network { rule: String },
}

#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    private: Vec<Private>,
}

impl Policy {
    pub fn new(rules: Vec<Rule>, private: Vec<Private>) -> Self {
        Self { rules, private }
    }

    /// Whether the name and port are on the list. Nothing is resolved.
    pub fn admits(&self, target: &Target) -> Result<(), Reason> {
        let mut host_is_listed = false;
        for rule in self.rules.iter().filter(|r| r.hosts.contain(&target.host)) {
            host_is_listed = true;
            if rule.opens(target.port) {
                return Ok(());
            }
        }
        Err(if host_is_listed {
            Reason::PortNotListed {
                host: target.host.to_string(),
                port: target.port,
            }
        } else {
            Reason::NotListed {
                target: target.to_string(),
                host: target.host.to_string(),
            }
        })
    }

    /// Which of a target's addresses may be dialled: those that are public or excepted. An error when
    /// it has some and none of them may.
    pub fn choose(&self, target: &Target, found: &[IpAddr]) -> Result<Vec<IpAddr>, Reason> {
        let mut chosen = Vec::with_capacity(found.len());
        let mut refused = None;
        for address in found {
            match self.admits_address(target, *address) {
                Ok(()) if !chosen.contains(address) => chosen.push(*address),
                Ok(()) => {}
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        match refused {
            Some(reason) if chosen.is_empty() => Err(reason),
            _ => Ok(chosen),
        }
    }

    /// Whether this address of the target may be dialled.
    pub fn admits_address(&self, target: &Target, address: IpAddr) -> Result<(), Reason> {
        let class =
            address::class(address).or_else(|| address::is_own(address).then_some(Class::Host));
        match class {
            Some(class) if !self.excepts(target, address, class) => Err(Reason::Address {
                class,
                address: address.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether the target was named as private: such a one is not the upstream proxy's to reach.
    pub fn is_private(&self, target: &Target) -> bool {
        self.private.iter().any(|private| {
            private.port.is_none_or(|port| port == target.port)
                && match (&private.place, &target.host) {
                    (Place::Named(hosts), host) => hosts.contain(host),
                    (Place::Network { address, prefix }, Host::Address(asked)) => {
                        within(*asked, *address, *prefix)
                    }
                    (Place::Network { .. }, Host::Name(_)) => false,
                }
        })
    }

    fn excepts(&self, target: &Target, address: IpAddr, class: Class) -> bool {
        self.private.iter().any(|private| {
            private.port.is_none_or(|port| port == target.port)
                && match &private.place {
                    // Names change their addresses, and networks are wide: credentials are given
                    // away only by naming the very address.
                    Place::Named(Hosts::One(Host::Address(named))) => *named == address,
                    _ if class == Class::Metadata => false,
                    Place::Named(hosts) => hosts.contain(&target.host),
                    Place::Network {
                        address: network,
                        prefix,
                    } => within(address, *network, *prefix),
                }
        })
    }
}

impl Rule {
    pub(crate) fn admits(&self, target: &Target) -> bool {
        self.hosts.contain(&target.host) && self.opens(target.port)
    }

    fn opens(&self, port: u16) -> bool {
        match self.port {
            Some(only) => only == port,
            None => WEB_PORTS.contains(&port),
        }
    }
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, TargetError> {
        if text == "*" {
            return Ok(Self::All);
        }
        match text.strip_prefix("*.") {
            Some(domain) => match Host::parse(domain.as_bytes())? {
                Host::Name(domain) => Ok(Self::Below(domain)),
                Host::Address(_) => Err(TargetError::OddAddress),
            },
            None => Host::parse(text.as_bytes()).map(Self::One),
        }
    }

    fn contain(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::All, _) => true,
            (Self::One(one), host) => one == host,
            (Self::Below(domain), Host::Name(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// A host pattern and its port. Colons inside brackets are the address's.
fn hosts_and_port(rule: &str) -> Result<(Hosts, Option<u16>), RuleError> {
    if rule.contains(['/', '?', '#', ' ']) {
        return Err(RuleError::Form {
            rule: rule.to_owned(),
        });
    }
    let after_brackets = rule.rfind(']').unwrap_or(0);
    let (hosts, port) = match rule[after_brackets..].rfind(':') {
        Some(at) => {
            let (hosts, port) = rule.split_at(after_brackets + at);
            (hosts, Some(&port[1..]))
        }
        None => (rule, None),
    };
    let wrong = |why| RuleError::Target {
        rule: rule.to_owned(),
        why,
    };
    let port = port
        .map(|port| parse_port(port.as_bytes()))
        .transpose()
        .map_err(wrong)?;
    Ok((Hosts::parse(hosts).map_err(wrong)?, port))
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (hosts, port) = hosts_and_port(text)?;
        Ok(Self { hosts, port })
    }
}

impl FromStr for Private {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Network {
            rule: text.to_owned(),
        };
        let Some((address, prefix)) = text.split_once('/') else {
            // Everything there is would be a way to switch the classes off.
            return match hosts_and_port(text)? {
                (Hosts::All, _) => Err(RuleError::Form {
                    rule: text.to_owned(),
                }),
                (hosts, port) => Ok(Self {
                    place: Place::Named(hosts),
                    port,
                }),
            };
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let widest = if address.is_ipv4() { 32 } else { 128 };
        if prefix > widest || masked(address, prefix) != address {
            return Err(wrong());
        }
        Ok(Self {
            place: Place::Network { address, prefix },
            port: None,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::All => f.write_str("*")?,
            Hosts::Below(domain) => write!(f, "*.{domain}")?,
            Hosts::One(host) => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    address.is_ipv4() == network.is_ipv4() && masked(address, prefix) == network
}

/// The address with everything after the prefix cleared.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str], private: &[&str]) -> Policy {
        Policy::new(
            rules.iter().map(|r| r.parse().expect("a rule")).collect(),
            private
                .iter()
                .map(|p| p.parse().expect("an exception"))
                .collect(),
        )
    }

    fn target(text: &str) -> Target {
        Target::parse(text.as_bytes(), None).expect("a target")
    }

    fn verdict(policy: &Policy, text: &str) -> Option<&'static str> {
        policy
            .admits(&target(text))
            .err()
            .map(|reason| reason.code())
    }

    #[test]
    fn an_empty_list_admits_nothing() {
        assert_eq!(
            verdict(&Policy::default(), "pypi.org:443"),
            Some("not-listed")
        );
    }

    #[test]
    fn a_host_is_open_on_the_web_s_ports_unless_one_is_named() {
        let policy = policy(&["pypi.org", "git.example:9418"], &[]);
        assert_eq!(verdict(&policy, "pypi.org:443"), None);
        assert_eq!(verdict(&policy, "PYPI.ORG:80"), None);
        assert_eq!(verdict(&policy, "pypi.org:22"), Some("port-not-listed"));
        assert_eq!(verdict(&policy, "git.example:9418"), None);
        assert_eq!(verdict(&policy, "git.example:443"), Some("port-not-listed"));
    }

    #[test]
    fn a_wildcard_is_for_what_is_below_a_name() {
        let policy = policy(&["*.example.org"], &[]);
        assert_eq!(verdict(&policy, "a.example.org:443"), None);
        assert_eq!(verdict(&policy, "a.b.example.org:443"), None);
        for outside in [
            "example.org:443",
            "badexample.org:443",
            "example.org.evil:443",
            "192.0.2.1:443",
        ] {
            assert_eq!(verdict(&policy, outside), Some("not-listed"), "{outside}");
        }
    }

    #[test]
    fn a_star_is_for_every_name_and_no_private_address() {
        let policy = policy(&["*"], &[]);
        let metadata = target("metadata.google.internal:80");
        assert_eq!(policy.admits(&metadata), Ok(()));
        let refused = policy.admits_address(&metadata, "169.254.169.254".parse().unwrap());
        assert_eq!(refused.unwrap_err().code(), "metadata");
    }

    #[test]
    fn a_private_address_is_let_through_where_it_was_named() {
        let policy = policy(
            &["*", "*:8080"],
            &[
                "10.1.2.3:8080",
                "git.internal",
                "192.168.0.0/16",
                "fd12::/16",
            ],
        );
        let admits = |name: &str, address: &str| {
            policy
                .admits_address(&target(name), address.parse().expect("an address"))
                .is_ok()
        };
        assert!(admits("10.1.2.3:8080", "10.1.2.3"));
        assert!(!admits("10.1.2.3:80", "10.1.2.3"));
        assert!(!admits("10.1.2.4:8080", "10.1.2.4"));
        assert!(admits("git.internal:443", "10.9.9.9"));
        assert!(!admits("other.internal:443", "10.9.9.9"));
        assert!(admits("nas.example:443", "192.168.4.4"));
        assert!(admits("nas.example:443", "fd12::7"));
        assert!(!admits("nas.example:443", "fd13::7"));
    }

    #[test]
    fn metadata_is_given_away_only_by_its_very_address() {
        let wide = policy(&["*"], &["169.254.0.0/16", "metadata.internal"]);
        let exact = policy(&["*"], &["169.254.169.254"]);
        let target = target("metadata.internal:80");
        let address = "169.254.169.254".parse().unwrap();
        assert!(wide.admits_address(&target, address).is_err());
        assert!(exact.admits_address(&target, address).is_ok());
    }

    #[test]
    fn rules_that_mean_something_else_are_refused() {
        for bad in [
            "",
            "https://pypi.org",
            "pypi.org/simple",
            "*.",
            "*.*",
            "a*.org",
            "pypi.org.",
            "*.10.0.0.1",
            "bücher.example",
            "h:0",
            "h:*",
        ] {
            assert!(bad.parse::<Rule>().is_err(), "{bad}");
        }
        for bad in [
            "*",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "fd00::/129",
            "10.0.0/8",
            "a/8",
        ] {
            assert!(bad.parse::<Private>().is_err(), "{bad}");
        }
        for good in [
            "*",
            "*:22",
            "*.example.org:8443",
            "192.0.2.1",
            "[2001:db8::1]:443",
        ] {
            assert_eq!(good.parse::<Rule>().expect(good).to_string(), good);
        }
    }
}
