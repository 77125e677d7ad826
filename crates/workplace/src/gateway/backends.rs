//! Connections to what listens on the sandbox's loopback, kept for the next request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::BUFFER;
use super::patience::Patient;

/// Per backend.
pub(super) const MAX_KEPT: usize = 32;

/// Shorter than servers keep theirs: Node closes after five seconds, and a request that meets the
/// closing is lost.
pub(super) const KEEP: Duration = Duration::from_secs(4);

#[derive(Debug, thiserror::Error)]
pub(super) enum BackendError {
    #[error("nothing listens on port {port}")]
    Down { port: u16, source: io::Error },
    #[error("port {port} does not speak HTTP")]
    Broken { port: u16, source: hyper::Error },
    /// The client's doing.
    #[error("the request broke off")]
    Request { source: hyper::Error },
    #[error("port {port} closed without an answer")]
    Silent { port: u16 },
    #[error("port {port} does not answer")]
    Late { port: u16 },
}

/// Backends by port. A connection belongs to the list as soon as its answer began, and is taken
/// again once it is ready: nobody has to wait for the end of a body to put it back.
#[derive(Debug)]
pub(super) struct Backends {
    dial: Duration,
    kept: RefCell<HashMap<u16, Vec<Kept>>>,
    drivers: RefCell<JoinSet<()>>,
}

#[derive(Debug)]
struct Kept {
    sender: SendRequest<Patient>,
    since: Instant,
}

impl Backends {
    /// With a limit to dialling.
    pub(super) fn new(dial: Duration) -> Self {
        Self {
            dial,
            kept: RefCell::default(),
            drivers: RefCell::default(),
        }
    }

    /// The answer, once it has begun.
    pub(super) async fn send(
        &self,
        port: u16,
        request: Request<Patient>,
        within: Duration,
    ) -> Result<Response<Incoming>, BackendError> {
        let answer = self.send_patiently(port, request);
        match timeout(within, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(BackendError::Late { port }),
        }
    }

    async fn send_patiently(
        &self,
        port: u16,
        request: Request<Patient>,
    ) -> Result<Response<Incoming>, BackendError> {
        let mut request = request;
        while let Some(mut sender) = self.take(port) {
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(port, sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // Closed before it took anything: no other was told of it.
                    Some(unsent) => request = unsent,
                    None => return Err(broken(port, error.into_error())),
                },
            }
        }
        let mut sender = self.connect(port).await?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|source| broken(port, source))?;
        self.keep(port, sender);
        Ok(response)
    }

    /// Closes what was not used for a while.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.kept.borrow_mut().retain(|_, kept| {
            kept.retain(|connection| connection.is_worth_keeping(now));
            !kept.is_empty()
        });
        self.reap();
    }

    fn take(&self, port: u16) -> Option<SendRequest<Patient>> {
        let now = Instant::now();
        let mut all = self.kept.borrow_mut();
        let kept = all.get_mut(&port)?;
        kept.retain(|connection| connection.is_worth_keeping(now));
        // The one used last, so that the others grow old.
        let at = kept.iter().rposition(|kept| kept.sender.is_ready())?;
        Some(kept.remove(at).sender)
    }

    fn keep(&self, port: u16, sender: SendRequest<Patient>) {
        let mut all = self.kept.borrow_mut();
        let kept = all.entry(port).or_default();
        if kept.len() < MAX_KEPT {
            let since = Instant::now();
            kept.push(Kept { sender, since });
        }
    }

    async fn connect(&self, port: u16) -> Result<SendRequest<Patient>, BackendError> {
        let stream = match timeout(self.dial, dial(port)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(BackendError::Down { port, source }),
            Err(_) => return Err(BackendError::Late { port }),
        };
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|source| broken(port, source))?;
        self.reap();
        self.drivers.borrow_mut().spawn_local(async move {
            // Whoever waits for an answer on it is told.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    fn reap(&self) {
        while self.drivers.borrow_mut().try_join_next().is_some() {}
    }
}

impl Kept {
    fn is_worth_keeping(&self, now: Instant) -> bool {
        let is_busy = !self.sender.is_ready();
        !self.sender.is_closed() && (is_busy || now - self.since < KEEP)
    }
}

/// Many development servers listen where `localhost` leads first, which may be IPv6 alone.
pub(super) async fn dial(port: u16) -> io::Result<TcpStream> {
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let stream = match TcpStream::connect(four).await {
        Ok(stream) => stream,
        Err(refused) => TcpStream::connect(six).await.map_err(|_| refused)?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn broken(port: u16, source: hyper::Error) -> BackendError {
    // Of all that a user of hyper can do wrong, we leave a body that fails.
    if source.is_user() {
        return BackendError::Request { source };
    }
    BackendError::Broken { port, source }
}
