//! A server, and clients that ask it as fast as they can.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use provider::{Provider as _, SandboxId, Stream};
use provider_local::{EGRESS_PORT, Local};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::commands::bench::stats::number;

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
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    let deadline = begun + each;
    for stream in streams {
        clients.spawn(ask(stream, request.clone().into_bytes(), bytes, deadline));
    }
    let mut answered = 0;
    while let Some(client) = clients.join_next().await {
        answered += client?.with_context(|| format!("asking by way of {}", way.name()))?;
    }
    Ok(number(answered) / begun.elapsed().as_secs_f64())
}

async fn ask(
    mut stream: Box<dyn Stream>,
    request: Vec<u8>,
    bytes: usize,
    deadline: Instant,
) -> anyhow::Result<u64> {
    let mut buffer = vec![0u8; 128 << 10];
    let mut answered = 0;
    while Instant::now() < deadline {
        stream.write_all(&request).await?;
        let (mut filled, mut whole) = (0, None);
        while whole.is_none_or(|whole| filled < whole) {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                bail!("the connection ended in the middle of a response");
            }
            filled += read;
            if whole.is_none() {
                if !buffer.starts_with(b"HTTP/1.1 200 ") {
                    let first = String::from_utf8_lossy(&buffer[..filled.min(120)]).into_owned();
                    bail!("not the server's answer: {first}");
                }
                let end = buffer[..filled]
                    .windows(4)
                    .position(|four| four == b"\r\n\r\n");
                whole = end.map(|end| end + 4 + bytes);
            }
        }
        answered += 1;
    }
    Ok(answered)
}

/// Answers `GET /N` with N bytes.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    _task: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(bodies: &[usize]) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let answers: Vec<(Vec<u8>, Vec<u8>)> = bodies
            .iter()
            .map(|bytes| {
                let mut answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
                answer.resize(answer.len() + bytes, b'x');
                (format!("GET /{bytes} ").into_bytes(), answer)
            })
            .collect();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(answer(stream, answers.clone()));
            }
        });
        Ok(Self {
            address,
            _task: task,
        })
    }
}

async fn answer(mut stream: TcpStream, answers: Vec<(Vec<u8>, Vec<u8>)>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = vec![0u8; 16 << 10];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]).await {
            Ok(read @ 1..) => filled += read,
            _ => return,
        }
        if !buffer[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        let found = answers.iter().find(|(ask, _)| buffer.starts_with(ask));
        let Some((_, answer)) = found else { return };
        filled = 0;
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
