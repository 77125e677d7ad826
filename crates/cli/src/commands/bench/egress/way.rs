//! The ways that are compared, and what lies at their end.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use provider::{Provider as _, SandboxId, Stream};
use provider_local::{EGRESS_PORT, Local};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::commands::bench::load;

/// How a client gets to the server.
pub(super) enum Way<'a> {
    Direct,
    /// Absolute requests to the proxy of a sandbox, from within its network namespace.
    Nacre {
        local: &'a Local,
        sandbox: SandboxId,
    },
    /// The same by `CONNECT`.
    NacreTunnel {
        local: &'a Local,
        sandbox: SandboxId,
    },
    Nginx(SocketAddr),
    /// nginx with connections to this one server kept: no forward proxy, but the most it can do.
    NginxKept(SocketAddr),
}

impl Way<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nacre { .. } => "nacre",
            Self::NacreTunnel { .. } => "nacre_tunnel",
            Self::Nginx(_) => "nginx",
            Self::NginxKept(_) => "nginx_kept",
        }
    }

    async fn connect(&self, server: SocketAddr) -> anyhow::Result<Box<dyn Stream>> {
        match self {
            Self::Direct => tcp(server).await,
            Self::Nginx(proxy) | Self::NginxKept(proxy) => tcp(*proxy).await,
            Self::Nacre { local, sandbox } => Ok(local.dial(*sandbox, EGRESS_PORT).await?),
            Self::NacreTunnel { local, sandbox } => {
                let mut stream = local.dial(*sandbox, EGRESS_PORT).await?;
                let ask = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n\r\n");
                stream.write_all(ask.as_bytes()).await?;
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await?;
                if !buffer[..read].starts_with(b"HTTP/1.1 200 ") {
                    bail!("the proxy refused the tunnel");
                }
                Ok(stream)
            }
        }
    }

    fn request(&self, server: SocketAddr, bytes: usize) -> String {
        match self {
            Self::Direct | Self::NacreTunnel { .. } => {
                format!("GET /{bytes} HTTP/1.1\r\nHost: {server}\r\n\r\n")
            }
            Self::Nacre { .. } | Self::Nginx(_) | Self::NginxKept(_) => {
                format!("GET http://{server}/{bytes} HTTP/1.1\r\nHost: {server}\r\n\r\n")
            }
        }
    }
}

async fn tcp(address: SocketAddr) -> anyhow::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Requests a second, over so many connections at once.
pub(super) async fn run(
    way: &Way<'_>,
    server: SocketAddr,
    bytes: usize,
    connections: usize,
    each: Duration,
) -> anyhow::Result<f64> {
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let connected = way.connect(server).await;
        streams.push(connected.with_context(|| format!("connecting by way of {}", way.name()))?);
    }
    let request = way.request(server, bytes);
    let rate = load::rate(streams, &request, bytes, each).await;
    rate.with_context(|| format!("asking by way of {}", way.name()))
}

/// On this host's loopback.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(bodies: &'static [usize]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut task = JoinSet::new();
        task.spawn(load::serve(listener, bodies));
        Ok(Self {
            address,
            _task: task,
        })
    }
}
