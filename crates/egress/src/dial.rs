//! From a target to a connection: resolved once, each address classed, the classed one dialled.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relay::Stream;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::policy::Policy;
use crate::reason::Reason;
use crate::target::{Host, Target};

/// Names have many addresses; whoever answers at none of these does not answer.
const MAX_ADDRESSES: usize = 6;
/// While there is another address to try, one has this long.
const NEXT_AFTER: Duration = Duration::from_secs(3);

/// Turns a name into addresses.
#[derive(Clone)]
pub struct Lookup(Arc<dyn Fn(String) -> Answered + Send + Sync>);

type Answered = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

impl Lookup {
    pub fn new<F, A>(ask: F) -> Self
    where
        F: Fn(String) -> A + Send + Sync + 'static,
        A: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(ask(name))))
    }

    /// As every program of the host does it: hosts file, DNS, whatever its name service says.
    pub fn of_the_host() -> Self {
        Self::new(|name: String| async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

#[derive(Debug)]
pub(crate) enum DialError {
    Refused(Reason),
    Unresolved { name: String, why: String },
    Unreachable { target: String, why: String },
    TimedOut { target: String },
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "{reason}"),
            Self::Unresolved { name, why } => write!(f, "{name} cannot be resolved: {why}"),
            Self::Unreachable { target, why } => write!(f, "{target} cannot be reached: {why}"),
            Self::TimedOut { target } => write!(f, "{target} does not answer"),
        }
    }
}

/// Connects to a target that is on the list.
pub(crate) async fn dial(
    target: &Target,
    policy: &Policy,
    lookup: &Lookup,
    patience: Duration,
) -> Result<Stream, DialError> {
    connect(target, lookup, patience, |found| {
        policy.choose(target, &found)
    })
    .await
}

/// Connects to the upstream proxy, wherever whoever runs nacre says it is.
pub(crate) async fn dial_upstream(
    target: &Target,
    lookup: &Lookup,
    patience: Duration,
) -> Result<Stream, DialError> {
    connect(target, lookup, patience, Ok).await
}

async fn connect(
    target: &Target,
    lookup: &Lookup,
    patience: Duration,
    choose: impl Fn(Vec<IpAddr>) -> Result<Vec<IpAddr>, Reason>,
) -> Result<Stream, DialError> {
    let deadline = Instant::now() + patience;
    let timed_out = || DialError::TimedOut {
        target: target.to_string(),
    };
    let found = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => timeout_at(deadline, (lookup.0)(name.clone()))
            .await
            .map_err(|_| timed_out())?
            .map_err(|error| DialError::Unresolved {
                name: name.clone(),
                why: error.to_string(),
            })?,
    };
    let mut addresses = choose(found).map_err(DialError::Refused)?;
    addresses.truncate(MAX_ADDRESSES);
    let mut last = DialError::Unresolved {
        name: target.host.to_string(),
        why: "it has no address".to_owned(),
    };
    for (place, address) in addresses.iter().enumerate() {
        let is_last = place + 1 == addresses.len();
        let until = if is_last {
            deadline
        } else {
            deadline.min(Instant::now() + NEXT_AFTER)
        };
        last = match timeout_at(until, TcpStream::connect((*address, target.port))).await {
            Ok(Ok(stream)) => return Ok(Stream::tcp(stream)),
            Ok(Err(error)) => DialError::Unreachable {
                target: target.to_string(),
                why: error.to_string(),
            },
            Err(_) => timed_out(),
        };
    }
    Err(last)
}
