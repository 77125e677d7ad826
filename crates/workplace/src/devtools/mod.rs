//! The dev tools: services, terminal, git, files, ports, tunnels and env files over HTTP. The same
//! routes are served behind two doors: on loopback for whoever has the token ([`serve`]), and on a
//! unix socket for the sandbox's own user ([`crate::inside`]). `docs/dev-tools.md` is their manual.
//!
//! Nothing is open but the health check. What comes in is bounded before it is read.

mod answer;
mod ask;
mod environment;
mod files;
mod git;
mod hub;
mod routes;
mod services;
mod terminal;
mod token;
mod tunnels;

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use model::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::env_files::EnvFiles;
use crate::files::Files;
use crate::git::Git;
use crate::hands::Hands;
use crate::place::Place;
use crate::ports::Ports;
use crate::services::{Pace, Preview, Services};
use crate::terminal::Terminals;

pub use hub::{Hub, HubError, HubRequest, Picture};
pub use token::Token;
pub use tunnels::{TunnelRefused, TunnelRegistry};

/// Raised when a client of before would not understand.
pub const VERSION: u32 = 1;
const MAX_CONNECTIONS: usize = 128;
/// From the first byte of a request to the end of its head.
const HEAD: Duration = Duration::from_secs(10);
const BREATH: Duration = Duration::from_millis(20);
const MAX_HEAD: usize = 64 << 10;

/// Everything that can be asked for.
#[derive(Debug)]
pub struct Tools {
    pub services: Services,
    pub terminals: Terminals,
    pub git: Git,
    pub files: Files,
    pub ports: Ports,
    pub env: Rc<EnvFiles>,
    pub tunnels: Rc<dyn TunnelRegistry>,
    pub hub: Rc<dyn Hub>,
    /// Terminals that were handed over, and logs that are followed.
    pub tasks: TaskTracker,
}

/// Who else is there.
#[derive(Debug)]
pub struct Others {
    pub preview: Rc<dyn Preview>,
    pub tunnels: Rc<dyn TunnelRegistry>,
    pub hub: Rc<dyn Hub>,
    /// Git configuration that the host gives: who commits, where the git door is.
    pub git: Vec<(String, String)>,
}

impl Tools {
    /// Reads what is on disk; starts nothing. [`Services::resume`] starts what ran before, and
    /// [`Ports::watch`] wants to be polled.
    pub fn new(
        hands: &Rc<Hands>,
        place: &Place,
        clock: &Arc<dyn Clock>,
        others: Others,
    ) -> Rc<Self> {
        let files = Files::new(Rc::clone(hands), place);
        Rc::new(Self {
            services: Services::new(
                Rc::clone(hands),
                place.clone(),
                Arc::clone(clock),
                others.preview,
                Pace::default(),
            ),
            terminals: Terminals::new(Rc::clone(hands), place.clone(), Arc::clone(clock)),
            git: Git::new(Rc::clone(hands), place.clone(), others.git),
            env: Rc::new(EnvFiles::new(files.clone(), place.clone())),
            files,
            ports: Ports::default(),
            tunnels: others.tunnels,
            hub: others.hub,
            tasks: TaskTracker::new(),
        })
    }
}

/// Who gets in at a door.
#[derive(Debug, Clone)]
pub(crate) enum Door {
    /// Whoever has it. Without one, nobody.
    Token(Option<Rc<Token>>),
    /// One who was looked at already.
    Open,
    /// One who was looked at, and turned away.
    Closed,
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, tools: Rc<Tools>, token: Option<Token>) -> Infallible {
    let door = Door::Token(token.map(Rc::new));
    welcome(tools, async || {
        let (stream, _) = listener.accept().await?;
        // A keystroke's echo must not wait for more to send.
        let _ = stream.set_nodelay(true);
        Ok((stream, door.clone()))
    })
    .await
}

/// Takes in whoever comes, as long as there is room.
pub(crate) async fn welcome<S>(
    tools: Rc<Tools>,
    accept: impl AsyncFn() -> io::Result<(S, Door)>,
) -> Infallible
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(), if connections.len() < MAX_CONNECTIONS => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, door)) => {
                connections.spawn_local(converse(stream, Rc::clone(&tools), door));
            }
            // Out of descriptors: those in use come back.
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

/// One connection, to its end.
async fn converse<S>(stream: S, tools: Rc<Tools>, door: Door)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let (tools, door) = (Rc::clone(&tools), door.clone());
        async move { Ok::<_, Infallible>(routes::answer(tools, &door, request).await) }
    });
    // One that talks nonsense has been answered as well as can be.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}
