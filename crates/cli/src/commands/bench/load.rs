//! A server, and clients that ask it as fast as they can.

use std::time::{Duration, Instant};

use anyhow::bail;
use provider::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::stats::number;

/// Requests a second over all these connections at once. Each answer holds so many bytes.
pub(super) async fn rate(
    streams: Vec<Box<dyn Stream>>,
    request: &str,
    bytes: usize,
    each: Duration,
) -> anyhow::Result<f64> {
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    let deadline = begun + each;
    for stream in streams {
        clients.spawn(ask(stream, request.as_bytes().to_vec(), bytes, deadline));
    }
    let mut answered = 0;
    while let Some(client) = clients.join_next().await {
        answered += client??;
    }
    Ok(number(answered) / begun.elapsed().as_secs_f64())
}

async fn ask(
    mut stream: Box<dyn Stream>,
    request: Vec<u8>,
    bytes: usize,
    deadline: Instant,
) -> anyhow::Result<u64> {
    let mut buffer = vec![0u8; 128 << 10];
    let mut answered = 0;
    while Instant::now() < deadline {
        stream.write_all(&request).await?;
        let (mut filled, mut whole) = (0, None);
        while whole.is_none_or(|whole| filled < whole) {
            let read = stream.read(&mut buffer[filled..]).await?;
            if read == 0 {
                bail!("the connection ended in the middle of a response");
            }
            filled += read;
            if whole.is_none() {
                if !buffer.starts_with(b"HTTP/1.1 200 ") {
                    let first = String::from_utf8_lossy(&buffer[..filled.min(120)]).into_owned();
                    bail!("not the server's answer: {first}");
                }
                let end = buffer[..filled]
                    .windows(4)
                    .position(|four| four == b"\r\n\r\n");
                whole = end.map(|end| end + 4 + bytes);
            }
        }
        answered += 1;
    }
    Ok(answered)
}

/// Answers `GET /N` with N bytes, for each of these sizes, to whoever comes.
pub(super) async fn serve(listener: TcpListener, bodies: &[usize]) {
    let answers: Vec<(Vec<u8>, Vec<u8>)> = bodies
        .iter()
        .map(|bytes| {
            let mut answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
            answer.resize(answer.len() + bytes, b'x');
            (format!("GET /{bytes} ").into_bytes(), answer)
        })
        .collect();
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(answer(stream, answers.clone()));
    }
}

async fn answer(mut stream: TcpStream, answers: Vec<(Vec<u8>, Vec<u8>)>) {
    let _ = stream.set_nodelay(true);
    let mut buffer = vec![0u8; 16 << 10];
    let mut filled = 0;
    loop {
        match stream.read(&mut buffer[filled..]).await {
            Ok(read @ 1..) => filled += read,
            _ => return,
        }
        if !buffer[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        let found = answers.iter().find(|(ask, _)| buffer.starts_with(ask));
        let Some((_, answer)) = found else { return };
        filled = 0;
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
