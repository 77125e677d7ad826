use std::fmt;
use std::str::FromStr;

use base64::Engine as _;

use crate::reason::TargetError;
use crate::target::Target;

/// A proxy that everything goes through: `http://host:port`, `http://user:password@host:port`.
#[derive(Clone, PartialEq, Eq)]
pub struct Upstream {
    pub target: Target,
    /// The value of `Proxy-Authorization`; empty when there is none.
    pub(crate) credentials: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    // Never the text itself: it may hold a password.
    #[error("a proxy is written as http://host:port, or http://user:password@host:port")]
    Form,
    #[error(transparent)]
    Target(#[from] TargetError),
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let rest = text.strip_prefix("http://").ok_or(UpstreamError::Form)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let credentials = match user {
            Some(user) => {
                let plain = percent_decoded(user).ok_or(UpstreamError::Form)?;
                let encoded = base64::engine::general_purpose::STANDARD.encode(plain);
                format!("Basic {encoded}").into_bytes()
            }
            None => Vec::new(),
        };
        Ok(Self {
            target: Target::parse(authority.as_bytes(), Some(80))?,
            credentials,
        })
    }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            u8::try_from(digit()? << 4 | digit()?).ok()?
        } else {
            byte
        });
    }
    Some(decoded)
}

/// Without the password.
impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.credentials.is_empty() {
            ""
        } else {
            "***@"
        };
        write!(f, "http://{user}{}", self.target)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_has_a_target_and_perhaps_a_password_that_is_never_shown() {
        let plain: Upstream = "http://proxy.internal:3128/".parse().expect("a proxy");
        assert_eq!(plain.to_string(), "http://proxy.internal:3128");
        let secret: Upstream = "http://me:p%40ss@10.0.0.1:8080".parse().expect("a proxy");
        assert_eq!(secret.credentials, b"Basic bWU6cEBzcw==");
        assert_eq!(
            format!("{secret} {secret:?}"),
            "http://***@10.0.0.1:8080 Upstream(http://***@10.0.0.1:8080)"
        );
        for bad in [
            "proxy:3128",
            "https://proxy:3128",
            "http://",
            "http://a:b:c",
            "http://%zz@h:1",
            "socks5://h:1",
        ] {
            assert!(bad.parse::<Upstream>().is_err(), "{bad}");
        }
    }
}
