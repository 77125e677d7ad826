//! A proxy and a server on loopback, in this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::SystemClock;
use nacre_egress::log::Log;
use nacre_egress::passes::Passes;
use nacre_egress::policy::Policy;
use nacre_egress::{Limits, Lookup, Proxy, Upstream, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub(crate) struct World {
    pub(crate) proxy: SocketAddr,
    /// Every name that was looked up.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
    others: Vec<World>,
}

#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) allow: &'a [&'a str],
    pub(crate) private: &'a [&'a str],
    pub(crate) upstream: Option<String>,
    pub(crate) limits: Limits,
    /// A directory that they are read from.
    pub(crate) passes: Option<&'a Path>,
}

fn passes_in(directory: &Path) -> Passes {
    let directory = std::fs::File::open(directory).expect("it opens");
    Passes::in_directory(directory.into(), Arc::new(SystemClock))
}

impl World {
    /// Every name resolves to loopback.
    pub(crate) async fn new(setup: Setup<'_>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let noted = Arc::clone(&asked);
        let proxy = Proxy {
            policy: Policy::new(
                setup
                    .allow
                    .iter()
                    .map(|r| r.parse().expect("a rule"))
                    .collect(),
                setup
                    .private
                    .iter()
                    .map(|p| p.parse().expect("a place"))
                    .collect(),
            ),
            passes: setup
                .passes
                .map_or_else(|| Passes::none(Arc::new(SystemClock)), passes_in),
            upstream: setup
                .upstream
                .map(|text| text.parse::<Upstream>().expect("an upstream")),
            lookup: Lookup::new(move |name| {
                noted.lock().expect("not poisoned").push(name);
                async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) }
            }),
            log: Arc::new(Log::nowhere(Arc::new(SystemClock))),
            limits: setup.limits,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(Arc::new(proxy), None, Some(listener)));
        Self {
            proxy: address,
            asked,
            tasks,
            others: Vec::new(),
        }
    }

    /// Another world's servers live as long as this one.
    pub(crate) fn keep(&mut self, other: World) {
        self.others.push(other);
    }

    /// A server on loopback; gives its port.
    pub(crate) async fn server<F, A>(&mut self, serve: F) -> u16
    where
        F: Fn(TcpStream) -> A + Send + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream));
            }
        });
        port
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.proxy)
            .await
            .expect("the proxy listens")
    }

    /// Sends this and gives everything that comes back until the end.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream
            .write_all(request.as_ref())
            .await
            .expect("it is sent");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(20), read)
            .await
            .expect("the proxy ends the connection")
            .expect("it is read");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

/// Reads up to and with the empty line.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0u8; 1];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}
