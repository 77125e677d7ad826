//! Too much, too long, too slow.

use std::time::Duration;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use workplace::gateway::{Limits, Notice};
use workplace::tunnels::Protocol;

use super::ask::{HOST, raw};
use super::world::{Setup, World, with, with_gateway};

fn impatient() -> Setup {
    let short = Duration::from_millis(200);
    let limits = Limits {
        header: short,
        body: short,
        write: short,
        ..Limits::usual()
    };
    Setup {
        limits,
        ..Setup::usual()
    }
}

/// The gateway still serves others.
async fn assert_alive(world: &World) {
    assert_eq!(world.get_as_ada("/vscode/").status().await, StatusCode::OK);
}

#[test]
fn headers_without_end_are_cut_off() {
    with_gateway(async |world| {
        let one = format!("x: {}\r\n", "a".repeat(100 << 10));
        let many = "x: y\r\n".repeat(20_000);
        for flood in [one, many] {
            let bytes = format!("GET /vscode/ HTTP/1.1\r\nhost: {HOST}\r\n{flood}\r\n");
            let answer = raw(world.address, bytes).await;
            // The answer may be lost, since we were still talking.
            assert!(
                answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
                "{answer}"
            );
        }
        assert_alive(&world).await;
    });
}

#[test]
fn an_address_without_end_is_refused() {
    with_gateway(async |world| {
        let path = format!("/vscode/{}", "a".repeat(10_000));
        let status = world.get_as_ada(&path).status().await;
        assert_eq!(status, StatusCode::URI_TOO_LONG);
    });
}

#[test]
fn a_client_that_does_not_finish_its_header_is_left() {
    with(impatient(), async |world| {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let mut drops = 0;
        // One byte at a time, faster than any wait for a single one would notice.
        for byte in format!(
            "GET /health HTTP/1.1\r\nhost: {HOST}\r\nx: {}",
            "a".repeat(1000)
        )
        .bytes()
        {
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            drops += 1;
        }
        assert!(drops < 1000);
        assert_alive(&world).await;
    });
}

#[test]
fn a_client_that_says_nothing_is_left() {
    with(impatient(), async |world| {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        assert_eq!(stream.read(&mut [0; 16]).await.unwrap(), 0);
    });
}

#[test]
fn a_client_that_does_not_finish_its_body_is_left() {
    with(impatient(), async |world| {
        let bytes = format!(
            "POST /vscode/ HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n\
             content-length: 100\r\n\r\nfirst",
            world.token()
        );
        let answer = raw(world.address, bytes).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert_alive(&world).await;
    });
}

#[test]
fn a_client_that_does_not_read_its_answer_is_left() {
    with(impatient(), async |world| {
        let bytes = format!(
            "GET /vscode/endless HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n\r\n",
            world.token()
        );
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut read = 0;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(length) => read += length,
            }
            assert!(read < 64 << 20, "it went on");
        }
        assert_alive(&world).await;
    });
}

#[test]
fn a_body_that_the_backend_does_not_read_is_held_back() {
    with_gateway(async |world| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        world
            .tunnels
            .register("deaf", port, Protocol::Http)
            .unwrap();
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "POST /t/deaf/ HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {}\r\n\
             content-length: 1000000000\r\n\r\n",
            world.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let _deaf = listener.accept().await.unwrap();
        let piece = vec![0; 1 << 20];
        let mut sent = 0;
        let limit = Duration::from_millis(500);
        while let Ok(written) = tokio::time::timeout(limit, stream.write(&piece)).await {
            sent += written.unwrap();
            assert!(sent < 64 << 20, "the gateway takes it all");
        }
    });
}

#[test]
fn a_body_that_nobody_is_let_in_with_is_not_read() {
    with_gateway(async |world| {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head =
            format!("POST /vscode/ HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 1000000000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let piece = vec![0; 1 << 20];
        let mut sent = 0;
        while let Ok(written) = stream.write(&piece).await {
            sent += written;
            assert!(sent < 100 << 20, "the gateway takes it all");
        }
    });
}

fn narrow() -> Setup {
    let limits = Limits {
        connections: 8,
        ..Limits::usual()
    };
    Setup {
        limits,
        ..Setup::usual()
    }
}

/// A connection on which one request was answered.
async fn held(world: &World, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!("{head} HTTP/1.1\r\nhost: {HOST}\r\n");
    let bearer = format!("authorization: Bearer {}\r\n\r\n", world.token());
    stream.write_all((head + &bearer).as_bytes()).await.unwrap();
    stream.read_exact(&mut [0; 12]).await.unwrap();
    stream
}

#[test]
fn connections_are_counted_and_those_over_the_limit_turned_away() {
    with(narrow(), async |world| {
        let mut kept = Vec::new();
        for _ in 0..8 {
            kept.push(held(&world, "GET /ttyd/").await);
        }
        for _ in 0..5 {
            let answer = raw(world.address, "").await;
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        }
        assert_eq!(*world.notices.borrow(), [Notice::Full]);
        kept.clear();
        while raw(world.address, "GET\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 503")
        {
            tokio::task::yield_now().await;
        }
        assert_alive(&world).await;
    });
}

#[test]
fn strangers_who_hold_connections_keep_nobody_out() {
    with(narrow(), async |world| {
        let friend = held(&world, "GET /ttyd/").await;
        let mut strangers = Vec::new();
        for _ in 0..50 {
            strangers.push(TcpStream::connect(world.address).await.unwrap());
            assert_alive(&world).await;
        }
        assert_eq!(strangers[0].read(&mut [0]).await.unwrap(), 0);
        let nothing = friend.try_read(&mut [0; 4096]);
        assert!(nothing.is_err() || nothing.is_ok_and(|length| length > 0));
    });
}

#[test]
fn after_a_storm_of_ten_thousand_logins_memory_is_flat() {
    with_gateway(async |world| {
        let address = world.address;
        let login = async |n: usize| {
            let token = world.token_of(&format!("user-{n}"));
            let head = format!(
                "GET /ttyd/ HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\
                 authorization: Bearer {token}\r\n\r\n"
            );
            let answer = raw(address, head).await;
            assert!(answer.contains("__Host-gateway_session="));
        };
        for n in 0..2_000 {
            login(n).await;
        }
        let before = resident();
        for n in 2_000..10_000 {
            login(n).await;
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 2 << 20, "{grown} bytes more");
    });
}

/// Bytes in memory.
fn resident() -> usize {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kibibytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kibibytes.parse::<usize>().unwrap() << 10
}
