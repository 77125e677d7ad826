//! The one normaliser of hosts and ports. Rules, requests and settings all go through it, so that
//! what was compared is what is resolved and dialled.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::reason::TargetError;

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host, in the one spelling it has here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Lower case, no dot at its end, and no way to read it as an address.
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

impl Target {
    /// `host:port`, or `host` alone where there is a default.
    pub fn parse(text: &[u8], default_port: Option<u16>) -> Result<Self, TargetError> {
        let (host, port) = split(text)?;
        let port = match port {
            Some(port) => parse_port(port)?,
            None => default_port.ok_or(TargetError::NoPort)?,
        };
        Ok(Self {
            host: Host::parse(host)?,
            port,
        })
    }
}

impl Host {
    /// A name, four decimal numbers, or IPv6 in brackets. Anything that some resolver might read in
    /// another way is an error.
    pub fn parse(text: &[u8]) -> Result<Self, TargetError> {
        if let Some(inner) = text.strip_prefix(b"[") {
            let inner = inner.strip_suffix(b"]").ok_or(TargetError::BadBrackets)?;
            return parse_v6(inner).map(|address| Self::Address(address.into()));
        }
        check_characters(text)?;
        let text = String::from_utf8_lossy(text).to_ascii_lowercase();
        check_labels(&text)?;
        if !ends_in_a_number(&text) {
            return Ok(Self::Name(text));
        }
        // Rust's parser takes exactly four decimal numbers without leading zeros.
        let address: Ipv4Addr = text.parse().map_err(|_| TargetError::OddAddress)?;
        Ok(Self::Address(address.into()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The host and, after its last colon, the port.
fn split(text: &[u8]) -> Result<(&[u8], Option<&[u8]>), TargetError> {
    if text.contains(&b'@') {
        return Err(TargetError::UserInfo);
    }
    if text.starts_with(b"[") {
        let end = text
            .iter()
            .position(|byte| *byte == b']')
            .ok_or(TargetError::BadBrackets)?;
        let (host, rest) = text.split_at(end + 1);
        return match rest.strip_prefix(b":") {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(TargetError::BadBrackets),
        };
    }
    let mut colons = text.iter().enumerate().filter(|(_, byte)| **byte == b':');
    match (colons.next(), colons.next()) {
        (None, _) => Ok((text, None)),
        (Some((at, _)), None) => Ok((&text[..at], Some(&text[at + 1..]))),
        // IPv6 without brackets: where the address ends is in doubt.
        (Some(_), Some(_)) => Err(TargetError::BadBrackets),
    }
}

pub(crate) fn parse_port(text: &[u8]) -> Result<u16, TargetError> {
    let digits = !text.is_empty() && text.len() <= 5 && text.iter().all(u8::is_ascii_digit);
    if !digits || text[0] == b'0' {
        return Err(TargetError::BadPort);
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(TargetError::BadPort)
}

fn parse_v6(text: &[u8]) -> Result<Ipv6Addr, TargetError> {
    if text.contains(&b'%') {
        return Err(TargetError::Percent);
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(TargetError::BadBrackets)
}

fn check_characters(text: &[u8]) -> Result<(), TargetError> {
    if text.is_empty() {
        return Err(TargetError::Empty);
    }
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {}
            0 => return Err(TargetError::Nul),
            b'%' => return Err(TargetError::Percent),
            b'@' => return Err(TargetError::UserInfo),
            0x80.. => return Err(TargetError::NotAscii),
            _ => return Err(TargetError::BadCharacter),
        }
    }
    Ok(())
}

fn check_labels(name: &str) -> Result<(), TargetError> {
    if name.ends_with('.') {
        return Err(TargetError::TrailingDot);
    }
    if name.len() > LONGEST_NAME {
        return Err(TargetError::TooLong);
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(TargetError::EmptyLabel);
        }
        if label.len() > LONGEST_LABEL {
            return Err(TargetError::LongLabel);
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(TargetError::Dash);
        }
    }
    Ok(())
}

/// As browsers decide it: resolvers take such a name for an address in some base.
fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Host {
        Host::Name(text.to_owned())
    }

    #[test]
    fn a_name_is_compared_in_lower_case() {
        assert_eq!(Host::parse(b"PyPI.org"), Ok(name("pypi.org")));
        assert_eq!(
            Target::parse(b"Static.Crates.io:443", None),
            Ok(Target {
                host: name("static.crates.io"),
                port: 443
            })
        );
    }

    #[test]
    fn a_port_is_needed_where_there_is_no_default() {
        assert_eq!(Target::parse(b"pypi.org", None), Err(TargetError::NoPort));
        assert_eq!(Target::parse(b"pypi.org", Some(80)).map(|t| t.port), Ok(80));
        for bad in [
            "h:", "h:0", "h:080", "h:65536", "h:+80", "h:80a", "h: 80", "h:999999",
        ] {
            assert_eq!(
                Target::parse(bad.as_bytes(), Some(80)),
                Err(TargetError::BadPort),
                "{bad}"
            );
        }
    }

    #[test]
    fn addresses_have_one_spelling_each() {
        assert_eq!(
            Host::parse(b"192.0.2.1"),
            Ok(Host::Address("192.0.2.1".parse().unwrap()))
        );
        assert_eq!(
            Target::parse(b"[2001:db8::1]:443", None).map(|t| t.to_string()),
            Ok("[2001:db8::1]:443".to_owned())
        );
        for odd in [
            "127.1",
            "2130706433",
            "0177.0.0.1",
            "0x7f.1",
            "1.2.3.4.5",
            "1.2.3.256",
            "01.2.3.4",
            "a.0x7f",
            "a.1",
        ] {
            assert_eq!(
                Host::parse(odd.as_bytes()),
                Err(TargetError::OddAddress),
                "{odd}"
            );
        }
        assert_eq!(
            Target::parse(b"::1:80", None),
            Err(TargetError::BadBrackets)
        );
        assert_eq!(
            Target::parse(b"[fe80::1%25eth0]:80", None),
            Err(TargetError::Percent)
        );
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_read_the_same_again(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(target) = Target::parse(&text, Some(80)) {
                let written = target.to_string();
                prop_assert_eq!(Target::parse(written.as_bytes(), None), Ok(target));
            }
        }

        #[test]
        fn a_name_never_reads_as_an_address(text in "[a-f0-9x.]{1,16}") {
            if let Ok(Host::Name(name)) = Host::parse(text.as_bytes()) {
                prop_assert!(name.parse::<IpAddr>().is_err());
                let last = name.rsplit('.').next().unwrap_or_default();
                prop_assert!(last.bytes().any(|byte| !byte.is_ascii_digit()));
            }
        }
    }
}
