use std::fmt;

use crate::address::Class;

/// Why something is not let out. The code is for programs, the text for whoever reads the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The target cannot be read in one way only.
    Target(TargetError),
    NotListed {
        target: String,
        host: String,
    },
    PortNotListed {
        host: String,
        port: u16,
    },
    Address {
        class: Class,
        address: String,
    },
    /// The scheme of an absolute request: only `http` is carried in the clear.
    Scheme,
    /// A path, as if we were the server.
    NotForAProxy,
    Busy,
}

/// What is wrong with a host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the host is empty")]
    Empty,
    #[error("the host is longer than 253 bytes")]
    TooLong,
    #[error("the host has an empty label")]
    EmptyLabel,
    #[error("a label of the host is longer than 63 bytes")]
    LongLabel,
    #[error("the host ends with a dot; leave it out")]
    TrailingDot,
    #[error("the host has a NUL byte")]
    Nul,
    #[error("the host is not ASCII; write it in its xn-- form")]
    NotAscii,
    #[error("the host is percent-encoded or has a zone")]
    Percent,
    #[error("the target names a user")]
    UserInfo,
    #[error("a host has letters, digits, dots, dashes and underscores")]
    BadCharacter,
    #[error("a label of the host begins or ends with a dash")]
    Dash,
    #[error("an address is written as four decimal numbers, or in brackets as IPv6")]
    OddAddress,
    #[error("an IPv6 address in brackets is expected")]
    BadBrackets,
    #[error("the port is missing")]
    NoPort,
    #[error("a port is a number from 1 to 65535 without leading zeros")]
    BadPort,
}

impl TargetError {
    fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty-host",
            Self::TooLong => "long-host",
            Self::EmptyLabel => "empty-label",
            Self::LongLabel => "long-label",
            Self::TrailingDot => "trailing-dot",
            Self::Nul => "nul-byte",
            Self::NotAscii => "not-ascii",
            Self::Percent => "percent",
            Self::UserInfo => "user-info",
            Self::BadCharacter => "bad-character",
            Self::Dash => "dash",
            Self::OddAddress => "odd-address",
            Self::BadBrackets => "bad-brackets",
            Self::NoPort => "no-port",
            Self::BadPort => "bad-port",
        }
    }
}

impl Reason {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Target(error) => error.code(),
            Self::NotListed { .. } => "not-listed",
            Self::PortNotListed { .. } => "port-not-listed",
            Self::Address { class, .. } => class.code(),
            Self::Scheme => "scheme",
            Self::NotForAProxy => "not-for-a-proxy",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(error) => write!(f, "{error}"),
            Self::NotListed { target, host } => write!(
                f,
                "{target} is not on this sandbox's list; create it with `--allow {host}`, or add it to `egress.allow`"
            ),
            Self::PortNotListed { host, port } => write!(
                f,
                "{host} is on this sandbox's list, but not its port {port}; create it with `--allow {host}:{port}`"
            ),
            Self::Address { class, address } => write!(
                f,
                "{address} is {class}; whoever runs nacre may name it in `egress.private`"
            ),
            Self::Scheme => write!(
                f,
                "only http:// is carried in the clear; for others use CONNECT"
            ),
            Self::NotForAProxy => write!(
                f,
                "this is a proxy: ask for http://host/path, or CONNECT host:port"
            ),
            Self::Busy => write!(f, "too many connections at once; try again"),
        }
    }
}
