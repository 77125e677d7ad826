//! The auth gateway: the one way in to what runs in a sandbox. It listens on
//! [`wire::workplace::GATEWAY_PORT`] and lets nobody pass without credentials.
//!
//! | path | leads to | also |
//! |---|---|---|
//! | `/health` | us | open to everybody |
//! | `/vscode/*` | the editor's port | |
//! | `/vnc/*` | the desktop's port | its root leads to the viewer |
//! | `/ttyd/*` | the terminal, in this process | sub-protocol `tty` |
//! | `/opencode/*` | the agent's port | with the agent's password |
//! | `/t/:name/*` | a tunnel's port | an unknown name leads to the only tunnel, path whole |
//! | `/preview/*` | the preview's port | what somebody exposed |
//! | `/link` | the link, in this process | sockets with a token for it |
//!
//! A request's way:
//!
//! ```text
//! target ── which path, unambiguous; the one-time code taken out of the query
//! routes ── where it leads, by whole segments
//! guard ─── cookie, else code, else bearer ── 401, 429
//! headers ─ a page of another origin: no socket, nothing by cookie ── 403
//! forward ─ ours taken off, forwarded-* put on ── backends ── answer, redirects under the prefix
//!             └─ upgrade: two byte streams joined ── socket
//! ```
//!
//! Plain requests by cookie go the same way without hyper, and bodies of answers to them without us:
//! `express`.
//!
//! The first segment is taken off once. Bodies stream, encoded as they are. Our cookie, code and
//! token never reach a backend, and no backend can set our cookie. Everything has a bound:
//! connections, headers, sessions, codes that were used, and every wait ([`Limits`]).
//!
//! Everything runs on one thread: call [`Gateway::serve`] inside a [`tokio::task::LocalSet`].

mod answer;
mod backends;
mod express;
mod forward;
mod guard;
mod headers;
mod origins;
mod patience;
mod routes;
mod sessions;
mod socket;
mod target;
mod visit;
mod visits;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use model::{Clock, Timestamp};
use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

pub use guard::Access;
pub use origins::Origins;
pub use routes::{Handler, Route, To};
pub use socket::Socket;

use backends::Backends;
use express::{Lines, Rest};
use guard::Guard;
use patience::Taken;
use routes::Routes;
use visit::Visit;
use visits::{Room, Visits};

/// What a gateway needs to know.
pub struct Settings {
    /// Without it everybody is refused.
    pub access: Option<Access>,
    pub routes: Vec<Route>,
    pub origins: Origins,
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    pub log: Log,
}

/// Where notices go. None of them holds a credential.
pub type Log = Rc<dyn Fn(Notice)>;

/// Bounds to what others can make us keep or wait for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connections: usize,
    /// Request line and headers together.
    pub header_bytes: usize,
    /// For a whole header, and for the next request on a connection that is kept.
    pub header: Duration,
    /// For the next piece of a request's body.
    pub body: Duration,
    /// For a client to take what is written to it.
    pub write: Duration,
    /// For a backend to accept a connection.
    pub dial: Duration,
    /// For a backend to begin its answer. Agents think for minutes.
    pub answer: Duration,
    /// For a backend to agree to a socket. What the client says meanwhile waits in its connection.
    pub handshake: Duration,
    /// For the next piece of an answer, and for a word from either end of a socket.
    pub silence: Duration,
}

impl Limits {
    pub fn usual() -> Self {
        Self {
            connections: 256,
            header_bytes: 32 << 10,
            header: Duration::from_secs(15),
            body: Duration::from_mins(1),
            write: Duration::from_mins(1),
            dial: Duration::from_secs(5),
            answer: Duration::from_mins(10),
            handshake: Duration::from_secs(30),
            silence: Duration::from_hours(1),
        }
    }
}

/// Something worth a line in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Something bad was shown.
    Denied {
        peer: IpAddr,
        path: String,
        why: String,
    },
    /// A page of another origin tried.
    Foreign {
        path: String,
    },
    Backend {
        failure: String,
    },
    /// There are too many connections of those let in. Said once in a while.
    Full,
    /// The next connection could not be accepted.
    Accept {
        failure: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { peer, path, why } => write!(f, "refused {peer} at {path:?}: {why}"),
            Self::Foreign { path } => write!(f, "refused a page of another origin at {path:?}"),
            Self::Backend { failure } => write!(f, "{failure}"),
            Self::Full => write!(f, "too many connections"),
            Self::Accept { failure } => write!(f, "cannot accept a connection: {failure}"),
        }
    }
}

pub struct Gateway {
    guard: RefCell<Guard>,
    routes: Routes,
    origins: Origins,
    backends: Backends,
    lines: Lines,
    clock: Arc<dyn Clock>,
    limits: Limits,
    used: watch::Sender<Option<Timestamp>>,
    log: Log,
    /// Since the last sweep: who floods us does not flood the log.
    is_full_told: Cell<bool>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = &self.routes;
        f.debug_struct("Gateway")
            .field("routes", routes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = &self.routes;
        f.debug_struct("Settings")
            .field("routes", routes)
            .finish_non_exhaustive()
    }
}

/// What is kept of a stream on its way, at most.
const BUFFER: usize = 128 << 10;

/// How often what has expired is forgotten.
const SWEEP: Duration = Duration::from_secs(10);

/// How long we wait when the kernel has no descriptor for the next connection.
const BREATH: Duration = Duration::from_millis(50);

impl Gateway {
    pub fn new(settings: Settings) -> Rc<Self> {
        let Settings {
            access,
            routes,
            origins,
            clock,
            limits,
            log,
        } = settings;
        Rc::new(Self {
            guard: RefCell::new(Guard::new(access, seconds(clock.now()))),
            routes: Routes::new(routes),
            origins,
            backends: Backends::new(limits.dial),
            lines: Lines::default(),
            clock,
            limits,
            used: watch::Sender::new(None),
            log,
            is_full_told: Cell::new(false),
        })
    }

    /// When somebody last used what lies behind. Refused requests and our own probes do not count.
    pub fn used(&self) -> watch::Receiver<Option<Timestamp>> {
        self.used.subscribe()
    }

    /// Serves whoever comes. Dropping the future ends every connection.
    pub async fn serve(self: Rc<Self>, listener: TcpListener) -> Infallible {
        let mut visits = Visits::new(self.limits.connections);
        let mut sweep = tokio::time::interval(SWEEP);
        // A sandbox that was frozen for a day has not missed thousands.
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let visit = Rc::new(Visit::new(Rc::clone(&self), peer.ip()));
                        if visits.make_room() == Room::None {
                            self.tell_once_full();
                            turn_away(stream);
                        } else {
                            let work = Rc::clone(&self).receive(stream, Rc::clone(&visit));
                            visits.begin(visit, work);
                        }
                    }
                    Err(error) => {
                        self.tell(Notice::Accept { failure: error.to_string() });
                        tokio::time::sleep(BREATH).await;
                    }
                },
                () = visits.reap() => {}
                _ = sweep.tick() => {
                    self.is_full_told.set(false);
                    self.guard.borrow_mut().sweep(self.now());
                    self.backends.sweep();
                    self.lines.sweep();
                }
            }
        }
    }

    async fn receive(self: Rc<Self>, stream: TcpStream, visit: Rc<Visit>) {
        let Some(Rest { stream, read }) = express::serve(&visit, stream).await else {
            return;
        };
        let stream = Taken::new(TokioIo::new(stream), read, self.limits.write);
        let requests = Rc::clone(&visit);
        let service = service_fn(move |request| {
            let visit = Rc::clone(&requests);
            async move { visit.answer(request).await }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_header_size(self.limits.header_bytes)
            .max_buf_size(BUFFER)
            .serve_connection(stream, service)
            .with_upgrades();
        // A client that breaks off or speaks no HTTP has been told so by hyper.
        if connection.await.is_ok() {
            visit.go_on().await;
        }
    }

    fn now(&self) -> u64 {
        seconds(self.clock.now())
    }

    fn tell_once_full(&self) {
        if !self.is_full_told.replace(true) {
            self.tell(Notice::Full);
        }
    }

    fn tell(&self, notice: Notice) {
        (self.log)(notice);
    }
}

/// Best effort: who floods us need not read it.
fn turn_away(stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
        content-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";
    if let Ok(mut stream) = stream.into_std() {
        let _: io::Result<usize> = stream.write(FULL);
    }
}

/// A clock before 1970 is wrong, and then nothing that expires is valid.
fn seconds(now: Timestamp) -> u64 {
    u64::try_from(now.as_second()).unwrap_or(u64::MAX)
}

fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        let asked = retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()));
        filled += asked.expect("the kernel has randomness once it has started");
    }
    bytes
}
