//! The door to the agent's tools, and those who crowd in it.

use std::time::{Duration, Instant};

use model::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use workplace::tools::serve;

/// The first line of the answer, or nothing.
async fn asked(port: u16, request: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        return String::new();
    };
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 256];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await;
    let length = read.ok().and_then(Result::ok).unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    answer.lines().next().unwrap_or_default().to_owned()
}

fn get(path: &str, token: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: tools\r\nAuthorization: Bearer {token}\r\n\r\n")
}

#[tokio::test]
async fn a_flood_at_the_tools_passes_and_lets_nobody_in() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (calls, mut called) = mpsc::channel(1);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { serve(listener, Secret::new("pearl"), &[], calls).await });
    assert_eq!(
        asked(port, &get("/mcp", "wrong")).await,
        "HTTP/1.1 401 Unauthorized"
    );
    assert_eq!(
        asked(port, &get("/mcp", "")).await,
        "HTTP/1.1 401 Unauthorized"
    );
    let huge = "POST /mcp HTTP/1.1\r\nHost: tools\r\nAuthorization: Bearer pearl\r\n\
                Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    let huge = format!(
        "{huge}Content-Length: 2000000\r\n\r\n{}",
        "x".repeat(2_000_000)
    );
    let refused = asked(port, &huge).await;
    assert!(
        refused.is_empty() || refused.starts_with("HTTP/1.1 4"),
        "{refused}"
    );
    // More than it takes, each with half a head.
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut one = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let _ = one.write_all(b"POST /mcp HTTP/1.1\r\nHost: to").await;
        crowd.push(one);
    }
    let since = Instant::now();
    let found = "HTTP/1.1 404 Not Found";
    while asked(port, &get("/elsewhere", "pearl")).await != found {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "it is shut for good"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(called.try_recv().is_err());
}
