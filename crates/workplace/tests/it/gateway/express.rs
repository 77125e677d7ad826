//! Plain requests by cookie, whose answers go by without entering the gateway. That they are answered
//! as all others is in `proxy`, whose tests run both ways; here is what only this way could get wrong.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use workplace::gateway::Limits;
use workplace::tunnels::Protocol;

use super::ask::{HOST, raw};
use super::proxy::say;
use super::world::{Setup, World, with, with_gateway};

/// As hyper never writes one.
fn get(path: &str, cookie: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nCookie: __Host-gateway_session={cookie}\r\n\r\n"
    )
}

/// A backend to be spoken for by hand.
async fn backend(world: &World) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    world.tunnels.register("app", port, Protocol::Http).unwrap();
    listener
}

/// Both ends of a plain request that was asked and is not answered yet.
async fn asked(world: &World) -> (TcpStream, TcpStream) {
    let cookie = world.cookie().await;
    let listener = backend(world).await;
    let mut client = TcpStream::connect(world.address).await.unwrap();
    let ask = get("/t/app/", &cookie);
    client.write_all(ask.as_bytes()).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    until(&mut stream, b"\r\n\r\n").await;
    (client, stream)
}

/// A backend that answers so and closes; how often it was asked.
async fn counting(world: &mut World, answer: &'static [u8]) -> Rc<Cell<u32>> {
    let listener = backend(world).await;
    let asked = Rc::new(Cell::new(0));
    let count = Rc::clone(&asked);
    world.tasks.spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            until(&mut stream, b"\r\n\r\n").await;
            count.set(count.get() + 1);
            stream.write_all(answer).await.unwrap();
        }
    });
    asked
}

fn limited(limits: Limits) -> Setup {
    Setup {
        limits,
        ..Setup::usual()
    }
}

async fn until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut got = Vec::new();
    while !got.ends_with(end) {
        let shown = String::from_utf8_lossy(&got).into_owned();
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{shown}");
    }
    got
}

#[test]
fn a_plain_request_goes_the_short_way_and_others_do_not() {
    with_gateway(async |mut world| {
        say(
            &mut world,
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        )
        .await;
        let cookie = world.cookie().await;
        // hyper puts a date on what has none.
        let plain = world.get("/t/said/").cookie(&cookie).send().await;
        assert_eq!(plain.text(), "ok");
        assert_eq!(plain.header("date"), "");
        for other in [
            world.get("/t/said/").bearer(&world.token()),
            world
                .get("/t/said/")
                .cookie(&cookie)
                .header("origin", &format!("http://{HOST}")),
            world.ask(hyper::Method::POST, "/t/said/").cookie(&cookie),
        ] {
            let reply = other.send().await;
            assert_eq!(reply.text(), "ok");
            assert_ne!(reply.header("date"), "");
        }
    });
}

#[test]
fn requests_that_come_at_once_are_answered_in_order_and_one_that_is_not_plain_ends_nothing() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        let mut client = TcpStream::connect(world.address).await.unwrap();
        let post = format!(
            "POST /vscode/3 HTTP/1.1\r\nHost: {HOST}\r\ncontent-length: 4\r\n\
             Cookie: __Host-gateway_session={cookie}\r\n\r\nbody"
        );
        let all = [
            get("/vscode/1", &cookie),
            get("/vscode/2", &cookie),
            post,
            get("/vscode/4", &cookie).replacen("Host", "Connection: close\r\nHost", 1),
        ];
        client.write_all(all.concat().as_bytes()).await.unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        let targets: Vec<&str> = answers
            .match_indices(r#""target":""#)
            .map(|(at, found)| &answers[at + found.len()..][..2])
            .collect();
        assert_eq!(targets, ["/1", "/2", "/3", "/4"], "{answers}");
        assert!(answers.contains(r#""body":"body""#), "{answers}");
    });
}

#[test]
fn a_body_of_any_size_passes_whole_whichever_way_it_is_framed() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        let listener = backend(&world).await;
        let body: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut chunked = Vec::new();
        for piece in body.chunks(100_000) {
            chunked.extend(format!("{:x};x=y\r\n", piece.len()).as_bytes());
            chunked.extend(piece);
            chunked.extend(b"\r\n");
        }
        chunked.extend(b"0\r\n\r\n");
        let length = format!("content-length: {}\r\n", body.len());
        for (framing, sent) in [
            (length.as_str(), &body),
            ("transfer-encoding: chunked\r\n", &chunked),
            ("connection: close\r\n", &body),
        ] {
            let ask = world.get("/t/app/").cookie(&cookie);
            let answering = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                until(&mut stream, b"\r\n\r\n").await;
                let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(sent).await.unwrap();
            };
            let (reply, ()) = tokio::join!(ask.send(), answering);
            assert!(reply.body == body, "{framing}: {} bytes", reply.body.len());
            assert_eq!(reply.header("date"), "");
        }
    });
}

#[test]
fn an_answer_that_we_read_too_strictly_is_left_to_hyper() {
    with_gateway(async |mut world| {
        let cookie = world.cookie().await;
        for answer in [
            &b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        ] {
            say(&mut world, answer).await;
            let reply = world.get("/t/said/").cookie(&cookie).send().await;
            assert_eq!(reply.text(), "ok");
        }
    });
}

#[test]
fn what_follows_an_answer_unasked_is_nobodys_answer() {
    with_gateway(async |mut world| {
        let cookie = world.cookie().await;
        let two = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok\
            HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
        say(&mut world, two).await;
        for _ in 0..3 {
            let reply = world.get("/t/said/").cookie(&cookie).send().await;
            assert_eq!(reply.text(), "ok");
        }
    });
}

#[test]
fn a_cookie_that_lets_nobody_in_is_refused_as_ever() {
    with_gateway(async |world| {
        let cookie = world.cookie().await;
        let answer = raw(
            world.address,
            get("/vscode/", "unknown").replacen("Host", "Connection: close\r\nHost", 1),
        );
        assert!(answer.await.starts_with("HTTP/1.1 401"));
        assert!(world.log().contains("unknown or expired cookie"));
        world.wait(16 * 60);
        let status = world.get("/vscode/").cookie(&cookie).status().await;
        assert_eq!(status, hyper::StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn a_client_that_reads_nothing_lets_go_of_the_backend_in_time() {
    let limits = Limits {
        write: Duration::from_millis(100),
        ..Limits::usual()
    };
    with(limited(limits), async |world| {
        let (_client, mut stream) = asked(&world).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let piece = vec![7; 1 << 20];
        while stream.write_all(&piece).await.is_ok() {}
    });
}

#[test]
fn a_client_that_leaves_in_the_middle_of_events_takes_the_backends_connection_along() {
    with_gateway(async |world| {
        let (mut client, mut stream) = asked(&world).await;
        let first = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
        stream.write_all(first).await.unwrap();
        until(&mut client, b"ok\r\n").await;
        drop(client);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

#[test]
fn what_a_backend_sends_of_a_head_is_bounded() {
    with_gateway(async |mut world| {
        let cookie = world.cookie().await;
        let listener = backend(&world).await;
        world.tasks.spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let line = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 20));
                let _ = stream.write_all(line.as_bytes()).await;
            }
        });
        let status = world.get("/t/app/").cookie(&cookie).status().await;
        assert_eq!(status, hyper::StatusCode::BAD_GATEWAY);
    });
}

#[test]
fn a_backend_that_says_nothing_is_asked_once() {
    with_gateway(async |mut world| {
        let cookie = world.cookie().await;
        let asked = counting(&mut world, b"").await;
        let status = world.get("/t/app/").cookie(&cookie).status().await;
        assert_eq!(status, hyper::StatusCode::BAD_GATEWAY);
        assert_eq!(asked.get(), 1);
    });
}

#[test]
fn a_backend_that_is_not_understood_is_asked_again_the_first_time_alone() {
    with_gateway(async |mut world| {
        let cookie = world.cookie().await;
        let answer = b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok";
        let asked = counting(&mut world, answer).await;
        for times in [2, 3, 4] {
            let reply = world.get("/t/app/").cookie(&cookie).send().await;
            assert_eq!((reply.text().as_str(), asked.get()), ("ok", times));
        }
    });
}

#[test]
fn an_answer_without_a_length_that_breaks_off_does_not_look_whole() {
    let limits = Limits {
        silence: Duration::from_millis(100),
        ..Limits::usual()
    };
    with(limited(limits), async |world| {
        let (mut client, mut stream) = asked(&world).await;
        let half = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf";
        stream.write_all(half).await.unwrap();
        until(&mut client, b"half").await;
        assert!(client.read(&mut [0; 8]).await.is_err());
    });
}
