//! Runners that call: the link door of one sandbox, and the newest connection at it.
//!
//! ```text
//!  door ── accept ──► conversation ── Word ──► hub
//!                          ▲                    │
//!                          └───── HubFrame ─────┘
//! ```
//!
//! A newer connection replaces the older. Whatever a runner says is hostile: what cannot be read is
//! answered and counted, and only the hub decides what a frame means.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carrier::{Connection, Incoming, Outgoing};
use model::Clock;
use provider::{Door, Provider, SandboxId};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use wire::keys::token::{self, Audience};
use wire::keys::{Key, Purpose};
use wire::link::{
    Close, FromHub, FromRunner, Hello, HubFrame, RunnerFrame, Unreadable, Wrong, read_runner,
};
use wire::workplace::{GATEWAY_PORT, LINK_DOOR};

/// Who we are at a gateway.
const HUB: &str = "nacre:hub";
/// For a runner that has connected to say hello.
const GREETING: Duration = Duration::from_secs(10);
/// A runner pings twice in that time.
const SILENCE: Duration = Duration::from_mins(1);
/// How long a connection that was closed may take to end.
const RETIREMENT: Duration = Duration::from_secs(2);
/// A link that held for so long broke by accident.
const HELD: Duration = Duration::from_secs(1);
/// Frames of the hub that wait for a connection.
pub(crate) const OUTBOX: usize = 64;
/// What is joined into one write.
const BATCH: usize = 64;
/// So many frames that cannot be read are answered; then the connection ends.
const PATIENCE: u32 = 100;

/// What comes from a sandbox's connections, in order.
#[derive(Debug)]
pub(crate) enum Word {
    /// It said hello; nothing else is heard before it is answered.
    Up {
        connection: u64,
        hello: Hello,
        /// Dropped to close it without a word.
        outbox: mpsc::Sender<Out>,
    },
    Frame {
        connection: u64,
        frame: Box<RunnerFrame>,
    },
    Down {
        connection: u64,
    },
}

/// What a hub says on a connection.
#[derive(Debug)]
pub(crate) enum Out {
    Frame(HubFrame),
    /// Its last.
    Close(Close),
}

/// With a provider that does not open the door.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// What one call may take.
    pub(crate) call: Duration,
    /// Between two; the last goes on.
    pub(crate) pauses: Arc<[Duration]>,
}

/// Serves the door until it is dropped, and opens it again when it breaks.
pub(crate) async fn attend(
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    term: u64,
    patience: Patience,
    words: mpsc::Sender<Word>,
) {
    let Patience { call, pauses } = patience;
    let mut number = 0;
    let last = pauses.last().copied().unwrap_or(Duration::from_secs(1));
    let mut waits = pauses.iter().copied();
    while !words.is_closed() {
        match timeout(call, provider.serve(sandbox, LINK_DOOR)).await {
            Ok(Ok(door)) => {
                waits = pauses.iter().copied();
                receive(door, term, &mut number, &words).await;
            }
            Err(_) => tracing::debug!(%sandbox, "the link door is not opened in time"),
            Ok(Err(error)) => tracing::debug!(%sandbox, %error, "the link door cannot be opened"),
        }
        sleep(waits.next().unwrap_or(last)).await;
    }
}

/// Dials the gateway's port until it is dropped, and again whenever the link breaks.
pub(crate) async fn dial(
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    term: u64,
    patience: Patience,
    clock: Arc<dyn Clock>,
    words: mpsc::Sender<Word>,
) {
    let Patience { call, pauses } = patience;
    let mut number = 0;
    let last = pauses.last().copied().unwrap_or(Duration::from_secs(1));
    let mut waits = pauses.iter().copied();
    while !words.is_closed() {
        match timeout(call, upgrade(&*provider, sandbox, &*clock)).await {
            Ok(Ok(connection)) => {
                number += 1;
                let since = Instant::now();
                converse(connection, term, number, &words).await;
                // One that held is made again at once.
                if since.elapsed() >= HELD {
                    waits = pauses.iter().copied();
                    continue;
                }
            }
            Ok(Err(why)) => tracing::debug!(%sandbox, %why, "the workplace cannot be reached"),
            Err(_) => tracing::debug!(%sandbox, "the workplace does not answer in time"),
        }
        sleep(waits.next().unwrap_or(last)).await;
    }
}

async fn upgrade(
    provider: &dyn Provider,
    sandbox: SandboxId,
    clock: &dyn Clock,
) -> Result<Connection, String> {
    let edge = provider.edge(sandbox).await.map_err(|e| e.to_string())?;
    let edge = edge.ok_or("it has no workplace")?;
    let key = Key::derive(edge.secret.expose(), Purpose::Token).ok_or("it has no secret")?;
    let now = u64::try_from(clock.now().as_second()).unwrap_or_default();
    let token = token::Claims::new(HUB, &edge.session, Audience::Link, now).sign(&key);
    let mut request = format!("ws://127.0.0.1:{GATEWAY_PORT}/link")
        .into_client_request()
        .map_err(|error| error.to_string())?;
    let bearer = format!("Bearer {token}").parse();
    let bearer = bearer.map_err(|_| "a token that is no header".to_owned())?;
    request.headers_mut().insert("authorization", bearer);
    let stream = provider.dial(sandbox, GATEWAY_PORT).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let config = Some(carrier::web_socket_config());
    let upgraded = tokio_tungstenite::client_async_with_config(request, stream, config).await;
    let (socket, _) = upgraded.map_err(|error| error.to_string())?;
    Ok(Connection::web_socket(socket))
}

/// Until the door breaks.
async fn receive(mut door: Box<dyn Door>, term: u64, number: &mut u64, words: &mpsc::Sender<Word>) {
    let mut stream = door.accept().await;
    while let Ok(accepted) = stream {
        *number += 1;
        let talking = converse(Connection::lines(accepted), term, *number, words);
        // Begun once and never given up: who knocks in between would not be heard.
        let mut next = door.accept();
        stream = tokio::select! {
            // The newer one counts; what the older still says comes again.
            newer = &mut next => {
                let connection = *number;
                let _ = words.send(Word::Down { connection }).await;
                newer
            }
            () = talking => next.await,
        };
    }
}

async fn converse(mut connection: Connection, term: u64, number: u64, words: &mpsc::Sender<Word>) {
    let Some(hello) = greeting(&mut connection).await else {
        return;
    };
    let (outbox, mut said) = mpsc::channel(OUTBOX);
    let up = Word::Up {
        connection: number,
        hello,
        outbox,
    };
    if words.send(up).await.is_err() {
        return;
    }
    let mut talk = Talk {
        term,
        number,
        words,
        unreadable: 0,
        waiting: Vec::new(),
        last: None,
        is_closed: false,
    };
    let mut heard_at = Instant::now();
    let mut is_let_go = false;
    loop {
        let outgoing = connection.outgoing.clone();
        let has_something = !talk.waiting.is_empty() || talk.last.is_some();
        if is_let_go && !has_something {
            break;
        }
        let has_room = talk.last.is_none() && talk.waiting.len() < BATCH;
        let go_on = tokio::select! {
            biased;
            permit = outgoing.reserve(), if has_something => match permit {
                Ok(permit) => talk.say(permit),
                Err(_) => false,
            },
            out = said.recv(), if !is_let_go && has_room => {
                match out {
                    Some(out) => talk.take(out),
                    // The hub has let go of it.
                    None => is_let_go = true,
                }
                true
            }
            heard = timeout_at(heard_at + SILENCE, connection.hear()) => match heard {
                Ok(Some(incoming)) => {
                    heard_at = Instant::now();
                    talk.hear(incoming).await
                }
                Ok(None) | Err(_) => false,
            },
        };
        if !go_on {
            break;
        }
    }
    if talk.is_closed {
        // The last word is on its way; whatever still comes is not heard.
        let ending = async { while connection.hear().await.is_some() {} };
        let _ = timeout(RETIREMENT, ending).await;
    }
    let _ = words.send(Word::Down { connection: number }).await;
}

async fn greeting(connection: &mut Connection) -> Option<Hello> {
    let heard = timeout_at(Instant::now() + GREETING, connection.hear()).await;
    let Ok(Some(Incoming::Frame(bytes))) = heard else {
        return None;
    };
    match read_runner(&bytes).ok()?.body {
        FromRunner::Hello(hello) => Some(hello),
        _ => None,
    }
}

struct Talk<'a> {
    term: u64,
    number: u64,
    words: &'a mpsc::Sender<Word>,
    unreadable: u32,
    waiting: Vec<Bytes>,
    last: Option<(Close, Bytes)>,
    /// The last word was said.
    is_closed: bool,
}

/// Each answers whether the conversation goes on.
impl Talk<'_> {
    fn take(&mut self, out: Out) {
        match out {
            Out::Frame(frame) => self.waiting.push(wire::link::write(&frame).into()),
            Out::Close(close) => {
                let line = HubFrame::new(self.term, FromHub::Close(close.clone()));
                self.last = Some((close, wire::link::write(&line).into()));
            }
        }
    }

    /// In order: what waits, and the last word after it.
    fn say(&mut self, permit: mpsc::Permit<'_, Outgoing>) -> bool {
        if !self.waiting.is_empty() {
            permit.send(Outgoing::Frames(std::mem::take(&mut self.waiting)));
        } else if let Some((close, line)) = self.last.take() {
            permit.send(Outgoing::Close { close, line });
            self.is_closed = true;
        }
        !self.is_closed
    }

    async fn hear(&mut self, incoming: Incoming) -> bool {
        let frame = match incoming {
            Incoming::Closed(_) => return false,
            Incoming::TooLong(bytes) => Err(Unreadable {
                wrong: Wrong::TooLong { bytes },
                frame: None,
                request_id: None,
                term: None,
                seq: None,
            }),
            Incoming::Frame(bytes) => read_runner(&bytes),
        };
        match frame {
            Ok(frame) if matches!(frame.body, FromRunner::Close(_)) => false,
            Ok(frame) => {
                let word = Word::Frame {
                    connection: self.number,
                    frame: Box::new(frame),
                };
                self.words.send(word).await.is_ok()
            }
            Err(unreadable) => self.refuse(&unreadable),
        }
    }

    fn refuse(&mut self, unreadable: &Unreadable) -> bool {
        self.unreadable += 1;
        if let Some(answer) = unreadable.answer() {
            let frame = HubFrame::new(self.term, FromHub::Error(answer));
            self.waiting.push(wire::link::write(&frame).into());
        }
        self.unreadable <= PATIENCE
    }
}
