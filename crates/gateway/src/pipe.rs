//! Sockets of bytes into a session's sandbox: to a port, and to a command that runs there.
//!
//! Binary frames are the bytes, text frames say something about them ([`PipeWord`]). What a command
//! prints begins with a byte that says where ([`STDOUT`], [`STDERR`]).
//!
//! ```text
//! port     client  bytes · eof                       server  bytes · eof
//! command  client  the request · bytes · eof         server  bytes · exit, or error
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use hyper::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use provider::{Exec, ExecInput, ExecOutput, ExecSpec};
use sessions::Attendance;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use wire::v1::{ExecRequest, PipeWord, STDERR, STDOUT};
use wire::workplace::OUR_PORTS;

use crate::answer::{Body, full, problem};
use crate::inside::Inside;
use crate::join::{self, FAREWELL, Heard};
use crate::{Gateway, Leave, Refusal, Visit};

/// The largest frame of a client; it sends as many as it likes.
const FRAME: usize = 1 << 20;
const PIECE: usize = 32 << 10;
/// For the connection to become a socket, and for the command to be named.
const BEGIN: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<TokioIo<Upgraded>>;
type Sink = SplitSink<Socket, Message>;
type Source = SplitStream<Socket>;

/// Decides what is run for a request, and writes down who asked.
pub type Admit =
    Box<dyn FnOnce(ExecRequest) -> BoxFuture<'static, Result<ExecSpec, Refusal>> + Send>;

impl Gateway {
    /// To a port of the sandbox's loopback, for a caller that was let in. Wakes the session.
    pub async fn port<B>(
        &self,
        request: &mut Request<B>,
        visit: &Visit,
        port: u16,
    ) -> Response<Body> {
        let opened = self.open_port(request, visit, port).await;
        opened.unwrap_or_else(|refusal| problem(&refusal))
    }

    async fn open_port<B>(
        &self,
        request: &mut Request<B>,
        visit: &Visit,
        port: u16,
    ) -> Result<Response<Body>, Refusal> {
        let room = self.admit(request, visit)?;
        if port == 0 || OUR_PORTS.contains(&port) {
            return Err(Refusal::forbidden("this port is not shown to anybody"));
        }
        let (handle, inside) = self.wake(visit.session).await?;
        let stream = inside.dial(port).await?;
        let silence = self.0.settings.silence;
        let held = Held {
            _attendance: handle.attend(),
            _room: room,
            leave: Arc::clone(&visit.leave),
        };
        Ok(self.upgrade(request, held, move |socket| carry(socket, stream, silence)))
    }

    /// To a command that the client names in its first frame. It ends with its client.
    pub async fn command<B>(
        &self,
        request: &mut Request<B>,
        visit: &Visit,
        admit: Admit,
    ) -> Response<Body> {
        let opened = self.open_command(request, visit, admit).await;
        opened.unwrap_or_else(|refusal| problem(&refusal))
    }

    async fn open_command<B>(
        &self,
        request: &mut Request<B>,
        visit: &Visit,
        admit: Admit,
    ) -> Result<Response<Body>, Refusal> {
        let room = self.admit(request, visit)?;
        let (handle, inside) = self.wake(visit.session).await?;
        let silence = self.0.settings.silence;
        let held = Held {
            _attendance: handle.attend(),
            _room: room,
            leave: Arc::clone(&visit.leave),
        };
        Ok(self.upgrade(request, held, move |socket| {
            run(socket, inside, admit, silence)
        }))
    }

    fn admit<B>(
        &self,
        request: &Request<B>,
        visit: &Visit,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        if !visit.caller.may_act() {
            return Err(Refusal::forbidden("a viewer may only look"));
        }
        if !join::is_handshake(request.headers()) {
            return Err(join::not_a_socket());
        }
        self.place()
    }

    fn upgrade<B, F>(
        &self,
        request: &mut Request<B>,
        held: Held,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response<Body>
    where
        F: Future<Output = ()> + Send,
    {
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        join::put_upgrade(response.headers_mut());
        let accept = join::accept(request.headers()).unwrap_or(HeaderValue::from_static(""));
        let headers = response.headers_mut();
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        let upgrading = hyper::upgrade::on(request);
        let stop = self.0.stop.clone();
        self.0.tasks.spawn(async move {
            // All of it, for as long as the socket is there.
            let held = held;
            let Ok(Ok(upgraded)) = timeout(BEGIN, upgrading).await else {
                return;
            };
            let config = WebSocketConfig::default()
                .max_message_size(Some(FRAME))
                .max_frame_size(Some(FRAME));
            let stream = TokioIo::new(upgraded);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
            tokio::select! {
                () = stop.cancelled() => {}
                () = held.until_left() => {}
                () = serve(socket) => {}
            }
        });
        response
    }
}

/// What a socket has for as long as it is open.
struct Held {
    _attendance: Attendance,
    _room: OwnedSemaphorePermit,
    leave: Leave,
}

impl Held {
    async fn until_left(&self) {
        self.leave.cancelled().await;
    }
}

/// Both ways until both have ended, or neither said anything for so long.
async fn carry(socket: Socket, stream: Box<dyn provider::Stream>, silence: Duration) {
    let (mut sink, mut source) = socket.split();
    let (mut from, mut to) = tokio::io::split(stream);
    let heard = Heard::now(silence);
    let there = async {
        while let Some(next) = heard.wait(next(&mut source)).await {
            let written = match next {
                Next::Bytes(bytes) => heard.wait(to.write_all(&bytes)).await,
                Next::Eof => heard.wait(to.shutdown()).await,
                Next::End => return,
            };
            if written.is_none() {
                return;
            }
        }
    };
    let back = async {
        let mut buffer = vec![0; PIECE];
        while let Some(length @ 1..) = heard.wait(from.read(&mut buffer)).await {
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            if !send(&mut sink, Message::binary(bytes), &heard).await {
                return;
            }
        }
        say(&mut sink, &PipeWord::Eof, &heard).await;
    };
    let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
    tokio::select! {
        () = &mut there => {}
        () = &mut back => { let _ = timeout(FAREWELL, there).await; }
    }
}

async fn run(socket: Socket, inside: Inside, admit: Admit, silence: Duration) {
    let (mut sink, mut source) = socket.split();
    let heard = Heard::now(silence);
    let exec = begin(&mut source, &inside, admit).await;
    match exec {
        Ok(exec) => talk(exec, &mut sink, &mut source, &heard).await,
        Err(refusal) => {
            let (code, message) = (refusal.code.to_owned(), refusal.message);
            say(&mut sink, &PipeWord::Error { code, message }, &heard).await;
        }
    }
    // Whoever is gone already needs no farewell.
    let _ = timeout(FAREWELL, sink.close()).await;
}

async fn begin(source: &mut Source, inside: &Inside, admit: Admit) -> Result<Exec, Refusal> {
    let named = timeout(BEGIN, source.next()).await;
    let Ok(Some(Ok(Message::Text(text)))) = named else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "bad-frame",
            "the first frame names the command, as text",
        ));
    };
    let request = serde_json::from_str(&text)
        .map_err(|error| Refusal::invalid(format!("that is no command: {error}")))?;
    let spec = admit(request).await?;
    Ok(inside.provider.exec(inside.place.sandbox, spec).await?)
}

async fn talk(mut exec: Exec, sink: &mut Sink, source: &mut Source, heard: &Heard) {
    let input = exec.input.clone();
    let there = async {
        while let Some(next) = heard.wait(next(source)).await {
            let piece = match next {
                Next::Bytes(bytes) => ExecInput::Data(bytes),
                Next::Eof => ExecInput::Eof,
                Next::End => return,
            };
            // A command that has ended reads nothing more, and says so itself.
            let _ = input.send(piece).await;
        }
    };
    let back = async {
        loop {
            let output = heard.wait(async { Ok(exec.output.recv().await) }).await;
            let word = match output {
                Some(Some(Ok(ExecOutput::Stdout(bytes)))) => {
                    if send(sink, printed(STDOUT, &bytes), heard).await {
                        continue;
                    }
                    return;
                }
                Some(Some(Ok(ExecOutput::Stderr(bytes)))) => {
                    if send(sink, printed(STDERR, &bytes), heard).await {
                        continue;
                    }
                    return;
                }
                Some(Some(Ok(ExecOutput::Exit(exit)))) => PipeWord::Exit {
                    exit_code: exit.code,
                    timed_out: exit.timed_out,
                },
                Some(Some(Err(error))) => PipeWord::Error {
                    code: "unavailable".to_owned(),
                    message: error.to_string(),
                },
                Some(None) | None => PipeWord::Error {
                    code: "unavailable".to_owned(),
                    message: "the sandbox went away before the command ended".to_owned(),
                },
            };
            say(sink, &word, heard).await;
            return;
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

fn printed(mark: u8, bytes: &[u8]) -> Message {
    let mut frame = BytesMut::with_capacity(bytes.len() + 1);
    frame.put_u8(mark);
    frame.put_slice(bytes);
    Message::binary(frame.freeze())
}

enum Next {
    Bytes(Bytes),
    Eof,
    End,
}

/// What the client says next.
async fn next(source: &mut Source) -> std::io::Result<Next> {
    loop {
        return Ok(match source.next().await {
            Some(Ok(Message::Binary(bytes))) if bytes.is_empty() => continue,
            Some(Ok(Message::Binary(bytes))) => Next::Bytes(bytes),
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                Ok(PipeWord::Eof) => Next::Eof,
                // From a newer client.
                _ => continue,
            },
            Some(Ok(Message::Close(_)) | Err(_)) | None => Next::End,
            Some(Ok(_)) => continue,
        });
    }
}

async fn say(sink: &mut Sink, word: &PipeWord, heard: &Heard) {
    let word = serde_json::to_string(word).unwrap_or_default();
    send(sink, Message::text(word), heard).await;
}

/// Whether it went through.
async fn send(sink: &mut Sink, message: Message, heard: &Heard) -> bool {
    let sent = async { sink.send(message).await.map_err(std::io::Error::other) };
    heard.wait(sent).await.is_some()
}
