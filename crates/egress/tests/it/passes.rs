//! What was let through after the list was made.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use model::{Clock as _, SystemClock, Timestamp};
use nacre_egress::passes::{self, Pass};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{Setup, World, read_head};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nacre-let-{name}-{}", std::process::id()));
        fs_err::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn pass(&self, rule: String, until: Option<Timestamp>) {
        passes::write(&self.0, &[Pass { rule, until }]).expect("written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs_err::remove_dir_all(&self.0);
    }
}

async fn pearl(mut stream: TcpStream) {
    while !read_head(&mut stream).await.is_empty() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npearl";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// A server behind a list that has nothing on it.
async fn closed(scratch: &Scratch) -> (World, u16) {
    let mut servers = World::new(Setup::default()).await;
    let port = servers.server(pearl).await;
    let mut world = World::new(Setup {
        private: &["127.0.0.0/8"],
        passes: Some(&scratch.0),
        ..Setup::default()
    })
    .await;
    world.keep(servers);
    (world, port)
}

fn get(port: u16) -> String {
    format!("GET http://pearl.example:{port}/ HTTP/1.1\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn what_was_refused_is_reached_once_it_is_let_through() {
    let scratch = Scratch::new("reached");
    let (world, port) = closed(&scratch).await;
    let refused = world.ask(get(port)).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");
    assert!(world.asked().is_empty(), "a refused name was looked up");
    scratch.pass(format!("pearl.example:{port}"), None);
    let answer = world.ask(get(port)).await;
    assert!(answer.ends_with("pearl"), "{answer}");
    scratch.pass("other.example".to_owned(), None);
    let refused = world.ask(get(port)).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");
}

#[tokio::test]
async fn when_its_time_is_over_nothing_more_goes_through_and_what_went_is_ended() {
    let scratch = Scratch::new("over");
    let (world, port) = closed(&scratch).await;
    let until = SystemClock.now() + Duration::from_millis(700);
    scratch.pass(format!("pearl.example:{port}"), Some(until));
    let mut tunnel = world.connect().await;
    let connect = format!("CONNECT pearl.example:{port} HTTP/1.1\r\n\r\n");
    tunnel.write_all(connect.as_bytes()).await.expect("sent");
    let head = read_head(&mut tunnel).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let begun = Instant::now();
    let mut rest = Vec::new();
    let ended = tunnel.read_to_end(&mut rest);
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .expect("the tunnel is ended")
        .ok();
    assert!(begun.elapsed() < Duration::from_secs(5));
    let refused = world.ask(get(port)).await;
    assert!(refused.contains("reason=not-listed"), "{refused}");
}

#[tokio::test]
async fn a_pass_opens_no_address_that_is_private() {
    let scratch = Scratch::new("private");
    // Every name of this world is loopback's, and nothing here excepts it: a name that was let
    // through and points elsewhere by now gets no further.
    let mut world = World::new(Setup {
        passes: Some(&scratch.0),
        ..Setup::default()
    })
    .await;
    let port = world.server(pearl).await;
    for (rule, host, reason) in [
        (format!("pearl.example:{port}"), "pearl.example", "loopback"),
        (format!("*:{port}"), "127.0.0.1", "loopback"),
        (format!("*:{port}"), "169.254.169.254", "metadata"),
        (format!("*:{port}"), "10.0.0.1", "private"),
    ] {
        scratch.pass(rule, None);
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n");
        let refused = world.ask(request).await;
        let told = format!("reason={reason}");
        assert!(refused.contains(&told), "{host}: {refused}");
    }
}
