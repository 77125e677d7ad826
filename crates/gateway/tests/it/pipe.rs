//! Bytes into a sandbox: to a port, and to a command.

use std::convert::Infallible;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::{Id, Session};
use nacre_gateway::{Admit, Body, Gateway, Leave, Refusal, Visit};
use provider::{ExecSpec, probe};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use wire::v1::{PipeWord, Role, STDERR, STDOUT};
use wire::workplace::OUR_PORTS;

use crate::shown::nothing;
use crate::world::{World, caller};

const SOON: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<DuplexStream>;

#[derive(Clone, Copy)]
enum To {
    Port(u16),
    Command,
}

async fn answer(
    gateway: &Gateway,
    request: &mut Request<Incoming>,
    session: Id<Session>,
    to: To,
) -> Response<Body> {
    let visit = visit(session, "ada", Role::Member);
    match to {
        To::Port(port) => gateway.port(request, &visit, port).await,
        To::Command => gateway.command(request, &visit, admit()).await,
    }
}

fn visit(session: Id<Session>, name: &str, role: Role) -> Visit {
    Visit {
        session,
        caller: caller(name, role),
        leave: Leave::default(),
    }
}

/// Runs what it is asked to, but nothing that is called `forbidden`.
fn admit() -> Admit {
    Box::new(|request| {
        Box::pin(async move {
            if request.argv == ["forbidden"] {
                return Err(Refusal::forbidden("not that"));
            }
            Ok(ExecSpec::new(&request.argv))
        })
    })
}

async fn connect(world: &mut World, session: Id<Session>, to: To) -> Socket {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let gateway = world.gateway.clone();
    world.tasks.spawn(async move {
        let service = service_fn(move |mut request: Request<Incoming>| {
            let gateway = gateway.clone();
            async move {
                let answered = answer(&gateway, &mut request, session, to).await;
                Ok::<_, Infallible>(answered)
            }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(theirs), service)
            .with_upgrades()
            .await;
    });
    let (socket, _) = tokio_tungstenite::client_async("ws://nacre.localhost/", ours)
        .await
        .unwrap();
    socket
}

async fn heard(socket: &mut Socket) -> Message {
    let next = timeout(SOON, socket.next()).await.expect("nothing is said");
    next.unwrap().unwrap()
}

fn word(word: &PipeWord) -> Message {
    Message::text(serde_json::to_string(word).unwrap())
}

fn read(message: &Message) -> PipeWord {
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

/// All that a command printed, and its last word.
async fn until_the_end(socket: &mut Socket) -> (Vec<u8>, Vec<u8>, PipeWord) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match heard(socket).await {
            Message::Binary(bytes) if bytes[0] == STDOUT => out.extend_from_slice(&bytes[1..]),
            Message::Binary(bytes) => {
                assert_eq!(bytes[0], STDERR);
                err.extend_from_slice(&bytes[1..]);
            }
            text => return (out, err, read(&text)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_reached_as_if_it_were_here_and_each_way_ends_by_itself() {
    let mut world = World::new().await;
    let handle = world.running().await;
    let sandbox = handle.ensure_ready().await.unwrap().sandbox;
    let mut listener = world.fake.listen(sandbox, 5432).await.unwrap();
    let mut socket = connect(&mut world, handle.session(), To::Port(5432)).await;
    let mut program = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    socket
        .send(Message::binary(b"grit".to_vec()))
        .await
        .unwrap();
    socket.send(word(&PipeWord::Eof)).await.unwrap();
    let mut got = Vec::new();
    program.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"grit");
    // What was asked is over, and can still be answered.
    program.write_all(b"nacre").await.unwrap();
    drop(program);
    assert_eq!(heard(&mut socket).await.into_data(), &b"nacre"[..]);
    assert_eq!(read(&heard(&mut socket).await), PipeWord::Eof);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_input_its_output_and_its_end() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut socket = connect(&mut world, session, To::Command).await;
    let cat = json!({ "argv": [probe::PATH, "cat"] });
    socket.send(Message::text(cat.to_string())).await.unwrap();
    let sent = vec![7; 300 << 10];
    for piece in sent.chunks(64 << 10) {
        socket.send(Message::binary(piece.to_vec())).await.unwrap();
    }
    socket.send(word(&PipeWord::Eof)).await.unwrap();
    let (out, err, last) = until_the_end(&mut socket).await;
    assert!(out == sent && err.is_empty());
    let exit = PipeWord::Exit {
        exit_code: 0,
        timed_out: false,
    };
    assert_eq!(last, exit);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_as_an_error_is_told_apart() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    let mut socket = connect(&mut world, session, To::Command).await;
    let complain = json!({ "argv": [probe::PATH, "err", "no pearl"] });
    socket
        .send(Message::text(complain.to_string()))
        .await
        .unwrap();
    let (out, err, _) = until_the_end(&mut socket).await;
    assert_eq!((out, err), (Vec::new(), b"no pearl".to_vec()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_refused_says_why() {
    let mut world = World::new().await;
    let session = world.running().await.session();
    for (named, code) in [
        (json!({ "argv": ["forbidden"] }), "forbidden"),
        (json!({ "argv": ["/no/such"] }), "provider-refused"),
        (json!({ "argv": 7 }), "invalid"),
    ] {
        let mut socket = connect(&mut world, session, To::Command).await;
        socket.send(Message::text(named.to_string())).await.unwrap();
        let PipeWord::Error { code: said, .. } = read(&heard(&mut socket).await) else {
            panic!("{named} was begun");
        };
        assert_eq!(said, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_ports_are_not_reached_and_viewers_reach_none() {
    let world = World::new().await;
    let session = world.running().await.session();
    let ask = || {
        Request::builder()
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(nothing())
            .unwrap()
    };
    let ada = visit(session, "ada", Role::Member);
    for port in OUR_PORTS.into_iter().chain([0]) {
        let answered = world.gateway.port(&mut ask(), &ada, port).await;
        assert_eq!(answered.status(), StatusCode::FORBIDDEN, "{port}");
    }
    let nobody = world.gateway.port(&mut ask(), &ada, 3000).await;
    assert_eq!(nobody.status(), StatusCode::CONFLICT);
    let eve = visit(session, "eve", Role::Viewer);
    let looked = world.gateway.port(&mut ask(), &eve, 3000).await;
    assert_eq!(looked.status(), StatusCode::FORBIDDEN);
    let ran = world.gateway.command(&mut ask(), &eve, admit()).await;
    assert_eq!(ran.status(), StatusCode::FORBIDDEN);
}
