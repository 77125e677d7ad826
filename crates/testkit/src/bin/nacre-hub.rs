//! A hub for people who try a runner by hand. It is a double, not the real thing: it greets whoever
//! connects, acknowledges what it hears and prints it, one JSON object a line. What it reads as JSON
//! lines on standard input (`{"type": "prompt", …}`, the term is put on) it sends.
//!
//! With `--ledger FILE` it keeps there what it acknowledged, and knows it again.
//!
//! ```text
//! nacre-hub --session ses_1 unix:/run/nacre/link         the link door
//! nacre-hub --session ses_1 tcp:127.0.0.1:7071           runners dial it: ws://127.0.0.1:7071/
//! nacre-hub --session ses_1 dial:127.0.0.1:9000/link     it dials the runner's gateway
//! ```

#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use nacre_testkit::hub::{Carrier, Hub, Ledger, Way};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use wire::link::FromHub;

const USAGE: &str = "usage: nacre-hub [--session S] [--generation N] [--term N] [--token T] [--ledger FILE] \
                     unix:PATH | tcp:ADDRESS | dial:ADDRESS/PATH";

struct Options {
    session: String,
    generation: u64,
    term: u64,
    /// Sent to a runner that is dialled.
    token: String,
    ledger: Option<String>,
    place: String,
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        complain(USAGE);
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime.and_then(|runtime| runtime.block_on(run(options)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "nacre-hub: {message}");
}

fn options(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        session: "ses_double".to_owned(),
        generation: 1,
        term: 1,
        token: String::new(),
        ledger: None,
        place: String::new(),
    };
    while let Some(arg) = args.next() {
        match &*arg {
            "--session" => options.session = args.next()?,
            "--generation" => options.generation = args.next()?.parse().ok()?,
            "--term" => options.term = args.next()?.parse().ok()?,
            "--token" => options.token = args.next()?,
            "--ledger" => options.ledger = Some(args.next()?),
            place if place.contains(':') && options.place.is_empty() => options.place = arg,
            _ => return None,
        }
    }
    (!options.place.is_empty()).then_some(options)
}

async fn run(options: Options) -> io::Result<()> {
    complain("this is a double of a hub: it decides nothing");
    let hub = Hub::new(&options.session, options.generation);
    let hub = match &options.ledger {
        Some(path) => hub.with_ledger(Ledger::open(Path::new(path))?),
        None => hub,
    };
    hub.set_term(options.term);
    let mut tasks = JoinSet::new();
    tasks.spawn(print(hub.clone()));
    tasks.spawn(relay(hub.clone()));
    match options.place.split_once(':') {
        Some(("unix", path)) => {
            let listener = UnixListener::bind(path)?;
            loop {
                let (stream, _) = listener.accept().await?;
                tasks.spawn(serve(hub.clone(), stream, Way::Lines));
            }
        }
        Some(("tcp", address)) => {
            let listener = TcpListener::bind(address).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                let hub = hub.clone();
                tasks.spawn(async move {
                    let upgraded = tokio_tungstenite::accept_async(stream).await;
                    match upgraded.map(tokio_tungstenite::WebSocketStream::into_inner) {
                        Ok(stream) => serve(hub, stream, Way::WebSocketServer).await,
                        Err(error) => complain(&error.to_string()),
                    }
                });
            }
        }
        Some(("dial", rest)) => {
            let address = rest.split('/').next().unwrap_or_default();
            let stream = TcpStream::connect(address).await?;
            let mut request = format!("ws://{rest}")
                .into_client_request()
                .map_err(io::Error::other)?;
            if !options.token.is_empty() {
                let bearer = format!("Bearer {}", options.token).parse();
                let bearer = bearer.map_err(io::Error::other)?;
                request.headers_mut().insert("authorization", bearer);
            }
            let (socket, _) = tokio_tungstenite::client_async(request, stream)
                .await
                .map_err(io::Error::other)?;
            serve(hub, socket.into_inner(), Way::WebSocketClient).await;
            Ok(())
        }
        _ => Err(io::Error::other(USAGE)),
    }
}

async fn serve(hub: Hub, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, way: Way) {
    let ended = hub.serve(Carrier::new(io, way).await).await;
    complain(&format!("a connection ended: {ended:?}"));
}

/// Shows what comes, as it comes.
async fn print(hub: Hub) {
    let mut shown = 0;
    loop {
        let heard = hub.heard_from(shown).await;
        let mut out = io::stdout().lock();
        for frame in &heard {
            let _ = out.write_all(&wire::link::write(frame));
            let _ = out.write_all(b"\n");
        }
        let _ = out.flush();
        shown += heard.len();
    }
}

async fn relay(hub: Hub) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<FromHub>(&line) {
            Ok(body) => hub.say(body),
            Err(error) => complain(&format!("that is no frame: {error}")),
        }
    }
}
