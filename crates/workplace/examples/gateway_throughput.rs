//! How fast bodies come through the gateway, beside the way without it and beside other proxies in
//! the same run, by turns. Absolute numbers are the machine's; what counts are the ratios.
//!
//! ```text
//! cargo run --release -p nacre-workplace --example gateway_throughput [CADDY] [NGINX]
//! ```
//!
//! The arguments are programs; those that are not there are left out. Client, backend and proxy take
//! the processor from each other where there are few: so what the gateway itself used is said too.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::{Clock as _, SystemClock};
use rustix::thread::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use wire::keys::token::{Audience, Claims};
use wire::keys::{Key, Purpose};
use wire::workplace::Order;
use workplace::gateway::{Access, Gateway, Limits, Origins, Route, Settings};

const SIZES: [usize; 2] = [1 << 10, 64 << 10];
const CLIENTS: [usize; 2] = [1, 16];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(600);
const SECRET: &str = "a secret for measuring";

struct Way {
    name: &'static str,
    address: SocketAddr,
    prefix: &'static str,
    headers: String,
    /// Ends with it.
    _program: Option<Program>,
}

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> io::Result<()> {
    let (backend, _) = start("backend", serve_backend)?;
    let (gateway, thread) = start("gateway", move |listener| {
        serve_gateway(listener, backend.port())
    })?;
    let mut programs = std::env::args().skip(1);
    let directory = camino_tempfile::tempdir()?;
    let mut ways = vec![
        way("direct", backend, "", String::new(), None),
        way("gateway", gateway, "/vscode", cookie(gateway)?, None),
    ];
    if let Some(path) = programs.next().filter(|path| Path::new(path).exists()) {
        let address = free()?;
        let file = directory.path().join("Caddyfile");
        let text = format!(
            "{{\n admin off\n auto_https off\n}}\nhttp://:{} {{\n reverse_proxy {backend}\n}}\n",
            address.port()
        );
        fs_err::write(&file, text)?;
        let mut command = Command::new(path);
        command.args(["run", "--adapter", "caddyfile", "--config", file.as_str()]);
        ways.push(way(
            "caddy",
            address,
            "",
            String::new(),
            Some(launch(command)?),
        ));
    }
    if let Some(path) = programs.next().filter(|path| Path::new(path).exists()) {
        let address = free()?;
        let file = directory.path().join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid {dir}/pid; error_log stderr crit;\n\
             events {{}}\nhttp {{ access_log off;\n\
             upstream backend {{ server {backend}; keepalive 32; }}\n\
             server {{ listen {address}; keepalive_requests 1000000000;\n\
             location / {{ proxy_pass http://backend; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; }} }} }}\n",
            dir = directory.path()
        );
        fs_err::write(&file, text)?;
        let mut command = Command::new(path);
        command.args(["-c", file.as_str()]);
        ways.push(way(
            "nginx",
            address,
            "",
            String::new(),
            Some(launch(command)?),
        ));
    }
    for way in &ways {
        wait_for(way.address)?;
    }
    let mut out = io::stdout();
    for size in SIZES {
        for clients in CLIENTS {
            let before = used(thread)?;
            let outcomes = measure(&ways, size, clients)?;
            let cost = (used(thread)? - before) / f64::from(outcomes[1].requests);
            writeln!(
                out,
                "{size} bytes, {clients} clients; gateway uses {cost:.0} us each"
            )?;
            let direct = outcomes[0].median();
            for (way, outcome) in ways.iter().zip(&outcomes) {
                let (name, rate) = (way.name, outcome.median());
                writeln!(out, "  {name:<8} {rate:>7.0}/s  {:.2}", rate / direct)?;
            }
        }
    }
    Ok(())
}

fn way(
    name: &'static str,
    address: SocketAddr,
    prefix: &'static str,
    headers: String,
    program: Option<Program>,
) -> Way {
    Way {
        name,
        address,
        prefix,
        headers,
        _program: program,
    }
}

/// Microseconds of processor that a thread has had.
fn used(thread: Pid) -> io::Result<f64> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = fs_err::read_to_string(path)?;
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|first| first.parse::<u64>().ok());
    Ok(Duration::from_nanos(nanoseconds.unwrap_or(0)).as_secs_f64() * 1e6)
}

/// What a way did in all its rounds.
#[derive(Default)]
struct Outcome {
    /// Requests in a second, for each round.
    rates: Vec<f64>,
    requests: u32,
}

impl Outcome {
    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

/// The ways take turns, so that what else the machine does meets them all.
fn measure(ways: &[Way], size: usize, clients: usize) -> io::Result<Vec<Outcome>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut outcomes: Vec<Outcome> = ways.iter().map(|_| Outcome::default()).collect();
    for _ in 0..ROUNDS {
        for (way, outcome) in ways.iter().zip(&mut outcomes) {
            let started = Instant::now();
            let requests = LocalSet::new().block_on(&runtime, load(way, size, clients))?;
            outcome.requests += requests;
            outcome
                .rates
                .push(f64::from(requests) / started.elapsed().as_secs_f64());
        }
    }
    Ok(outcomes)
}

async fn load(way: &Way, size: usize, clients: usize) -> io::Result<u32> {
    let head = format!(
        "GET {}/{size} HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        way.prefix, way.headers
    );
    let head = Bytes::from(head);
    let end = Instant::now() + ROUND;
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        tasks.spawn_local(ask_until(way.address, head.clone(), size, end));
    }
    let mut done = 0;
    while let Some(count) = tasks.join_next().await {
        done += count.map_err(io::Error::other)??;
    }
    Ok(done)
}

async fn ask_until(address: SocketAddr, head: Bytes, size: usize, end: Instant) -> io::Result<u32> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(size + (64 << 10));
    let mut done = 0;
    while Instant::now() < end {
        stream.write_all(&head).await?;
        buffer.clear();
        let body = loop {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        if !buffer.starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other(
                String::from_utf8_lossy(&buffer).into_owned(),
            ));
        }
        while buffer.len() < body + size {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        done += 1;
    }
    Ok(done)
}

/// A server on a thread of its own.
fn start<F: Future<Output = ()>>(
    name: &str,
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> io::Result<(SocketAddr, Pid)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || {
        let _ = tell.send(rustix::thread::gettid());
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::from_std(listener).expect("it listens");
            serve(listener).await;
        });
    })?;
    Ok((address, told.recv().map_err(io::Error::other)?))
}

async fn serve_backend(listener: TcpListener) {
    let bodies: Rc<Vec<Bytes>> = Rc::new(SIZES.iter().map(|size| vec![7; *size].into()).collect());
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let bodies = Rc::clone(&bodies);
        let answer = move |request: Request<Incoming>| {
            let bodies = Rc::clone(&bodies);
            async move {
                let size = request.uri().path().trim_start_matches('/').parse();
                let body = bodies.iter().find(|body| Ok(body.len()) == size).cloned();
                io::Result::Ok(Response::new(Full::new(body.unwrap_or_default())))
            }
        };
        let service = hyper::service::service_fn(answer);
        connections.spawn_local(async move {
            let server = hyper::server::conn::http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn serve_gateway(listener: TcpListener, backend: u16) {
    let gateway = Gateway::new(Settings {
        access: Access::of(&order()),
        routes: vec![Route::editor(backend)],
        origins: Origins::default(),
        clock: Arc::new(SystemClock),
        limits: Limits::usual(),
        log: Rc::new(|_| ()),
    });
    gateway.serve(listener).await;
}

fn order() -> Order {
    Order {
        sandbox: "sbx".to_owned(),
        generation: 1,
        boot: "boot".to_owned(),
        session: Some("ses".to_owned()),
        link: None,
        secret: Some(SECRET.to_owned()),
        journal_key: None,
    }
}

/// What a browser sends along, once it has been let in.
fn cookie(gateway: SocketAddr) -> io::Result<String> {
    use std::io::Read as _;

    let now = u64::try_from(SystemClock.now().as_second()).map_err(io::Error::other)?;
    let key = Key::derive(SECRET, Purpose::Token).expect("a secret");
    let token = Claims::new("ada", "ses", Audience::Gateway, now).sign(&key);
    let mut stream = std::net::TcpStream::connect(gateway)?;
    write!(
        stream,
        "GET /vscode/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let at = answer
        .find("__Host-")
        .ok_or_else(|| io::Error::other(answer.clone()))?;
    let value = answer[at..].split(';').next().unwrap_or_default();
    Ok(format!("cookie: {value}\r\n"))
}

fn launch(mut command: Command) -> io::Result<Program> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Program(child))
}

fn free() -> io::Result<SocketAddr> {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn wait_for(address: SocketAddr) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match std::net::TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
