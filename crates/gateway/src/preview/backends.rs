//! Connections to programs in sandboxes, used again while they are good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use provider::SandboxId;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::Body;
use crate::inside::{Inside, InsideError};

/// Connections that nobody uses: so many to one port, for so long.
const IDLE: usize = 16;
const KEPT: Duration = Duration::from_secs(15);
/// Ports that connections are kept to.
const PORTS: usize = 256;

/// A program's head, which is read before it is believed.
const HEAD: usize = 64 << 10;

type Port = (SandboxId, u16);

#[derive(Debug, Clone)]
pub(super) struct Backends {
    idle: Arc<Mutex<HashMap<Port, Vec<Idle>>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

impl Backends {
    pub(super) fn new(tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            idle: Arc::default(),
            tasks,
            stop,
        }
    }

    /// On a connection that is there, or else on a new one.
    pub(super) async fn send(
        &self,
        inside: &Inside,
        port: u16,
        mut request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Incoming>, InsideError> {
        let key = (inside.place.sandbox, port);
        while let Some(mut sender) = self.take(key) {
            match timeout(within, sender.try_send_request(request)).await {
                Ok(Ok(response)) => {
                    self.keep(key, sender);
                    return Ok(response);
                }
                // It was closed meanwhile, and nothing of the request was sent.
                Ok(Err(mut error)) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
                Err(_) => return Err(InsideError::Late),
            }
        }
        let mut sender = self.connect(inside, port).await?;
        let response = timeout(within, sender.send_request(request)).await;
        let response = response.map_err(|_| InsideError::Late)??;
        self.keep(key, sender);
        Ok(response)
    }

    async fn connect(&self, inside: &Inside, port: u16) -> Result<SendRequest<Body>, InsideError> {
        let stream = inside.dial(port).await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD)
            .handshake(TokioIo::new(stream))
            .await?;
        let (connection, stop) = (connection.with_upgrades(), self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connection => {}
            }
        });
        Ok(sender)
    }

    fn take(&self, key: Port) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        let waiting = idle.get_mut(&key)?;
        waiting.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < KEPT);
        // One whose last answer is still being read is not ready.
        let ready = waiting.iter().rposition(|idle| idle.sender.is_ready())?;
        Some(waiting.swap_remove(ready).sender)
    }

    fn keep(&self, key: Port, sender: SendRequest<Body>) {
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        if idle.len() >= PORTS {
            idle.retain(|_, waiting| {
                waiting.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < KEPT);
                !waiting.is_empty()
            });
        }
        let is_full = idle.len() >= PORTS && !idle.contains_key(&key);
        let waiting = if is_full {
            return;
        } else {
            idle.entry(key).or_default()
        };
        if waiting.len() < IDLE && !sender.is_closed() {
            let since = Instant::now();
            waiting.push(Idle { sender, since });
        }
    }
}
