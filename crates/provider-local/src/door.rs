//! The host's end of doors.

use async_trait::async_trait;
use provider::{Door, ProviderError, Stream};
use tokio::net::UnixListener;
use wire::workplace::LINK_DOOR;

use crate::error::Doing as _;

/// A door whose listening socket the keeper holds too: it outlives us.
#[derive(Debug)]
pub(crate) struct LocalDoor {
    listener: UnixListener,
    opens_to: OpensTo,
    /// How many were not let in.
    refused: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpensTo {
    Anyone,
    /// By the number that the kernel wrote down when it connected. Who may become root inside may
    /// be anyone there, but not this process.
    Process(i32),
}

impl OpensTo {
    /// `first` is PID 1 as the host counts.
    pub(crate) fn whom(door: &str, first: i32) -> Self {
        if door == LINK_DOOR {
            Self::Process(first)
        } else {
            Self::Anyone
        }
    }
}

impl LocalDoor {
    pub(crate) fn new(
        listener: std::os::unix::net::UnixListener,
        opens_to: OpensTo,
    ) -> Result<Self, ProviderError> {
        listener.set_nonblocking(true).doing("opening the door")?;
        Ok(Self {
            listener: UnixListener::from_std(listener).doing("opening the door")?,
            opens_to,
            refused: 0,
        })
    }
}

#[async_trait]
impl Door for LocalDoor {
    async fn accept(&mut self) -> Result<Box<dyn Stream>, ProviderError> {
        loop {
            let (stream, _) = self
                .listener
                .accept()
                .await
                .doing("accepting at the door")?;
            let welcome = match self.opens_to {
                OpensTo::Anyone => true,
                OpensTo::Process(pid) => {
                    stream.peer_cred().is_ok_and(|peer| peer.pid() == Some(pid))
                }
            };
            if welcome {
                return Ok(Box::new(stream));
            }
            self.refused += 1;
            // Whoever knocks without end does not fill the log.
            if self.refused.is_power_of_two() {
                let times = self.refused;
                tracing::warn!(times, "somebody who is not PID 1 knocked at the link door");
            }
        }
    }
}
