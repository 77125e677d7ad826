//! Clients of a relay: they count what they are told, and how old it was.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::stats::Samples;

/// What an event of a bench has, and nothing else; microseconds follow.
pub(super) const SENT: &str = "\"sent\":";

/// Until all clients are let in.
const PATIENCE: Duration = Duration::from_mins(1);

/// All on a thread of their own; they go when dropped.
pub(super) struct Clients {
    told: Arc<Told>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

struct Told {
    /// Events times clients.
    count: AtomicU64,
    here: AtomicU64,
    ages: Mutex<Samples>,
    begun: Instant,
}

impl Clients {
    /// So many that read, and so many that never do.
    pub(super) async fn connect(
        to: SocketAddr,
        head: &str,
        reading: usize,
        stalled: usize,
        begun: Instant,
    ) -> anyhow::Result<Self> {
        let told = Arc::new(Told {
            count: AtomicU64::new(0),
            here: AtomicU64::new(0),
            ages: Mutex::default(),
            begun,
        });
        let (stop, stopped) = oneshot::channel();
        let (all, head) = (Arc::clone(&told), head.to_owned());
        let thread = std::thread::Builder::new().name("clients".to_owned());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                tokio::select! {
                    ended = listen(to, &head, reading, stalled, &all) => ended,
                    _ = stopped => Ok(()),
                }
            })
        })?;
        let clients = Self {
            told,
            stop: Some(stop),
            thread: Some(thread),
        };
        let expected = (reading + stalled) as u64;
        clients
            .until(PATIENCE, |told| {
                told.here.load(Ordering::Relaxed) >= expected
            })
            .await
            .context("not all clients were let in")?;
        Ok(clients)
    }

    /// Until each event has come to each client.
    pub(super) async fn until_told(&self, deliveries: u64) -> anyhow::Result<()> {
        let enough = |told: &Told| told.count.load(Ordering::Relaxed) >= deliveries;
        let waited = self.until(PATIENCE, enough).await;
        waited.with_context(|| {
            let count = self.told.count.load(Ordering::Relaxed);
            format!("{count} of {deliveries} deliveries came")
        })
    }

    /// How old events were, and none of those before.
    pub(super) fn ages(&self) -> Samples {
        let mut ages = self.told.ages.lock().expect("no holder panics");
        self.told.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut ages)
    }

    async fn until(&self, patience: Duration, is_so: impl Fn(&Told) -> bool) -> anyhow::Result<()> {
        let waiting = async {
            while !is_so(&self.told) {
                if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                    bail!("a client lost its connection");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        };
        tokio::time::timeout(patience, waiting).await?
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn listen(
    to: SocketAddr,
    head: &str,
    reading: usize,
    stalled: usize,
    told: &Arc<Told>,
) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..reading {
        let stream = enter(to, head, None).await?;
        told.here.fetch_add(1, Ordering::Relaxed);
        clients.spawn(hear(stream, Arc::clone(told)));
    }
    let mut silent = Vec::new();
    for _ in 0..stalled {
        silent.push(enter(to, head, Some(4 << 10)).await?);
        told.here.fetch_add(1, Ordering::Relaxed);
    }
    match clients.join_next().await {
        Some(ended) => ended?,
        None => std::future::pending().await,
    }
}

/// A socket after its handshake.
pub(super) async fn enter(
    to: SocketAddr,
    head: &str,
    buffer: Option<u32>,
) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(buffer) = buffer {
        socket.set_recv_buffer_size(buffer)?;
    }
    let mut stream = socket.connect(to).await?;
    let request = format!(
        "GET {head}Upgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    // Byte by byte up to the end of the head: what comes after it are frames.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > 4096 {
            bail!("the answer has no end");
        }
        answer.push(stream.read_u8().await?);
    }
    if !answer.starts_with(b"HTTP/1.1 101") {
        let first = String::from_utf8_lossy(&answer).into_owned();
        bail!("not let in: {}", first.lines().next().unwrap_or_default());
    }
    Ok(stream)
}

async fn hear(mut stream: TcpStream, told: Arc<Told>) -> anyhow::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            bail!("it was closed");
        }
        let now = told.begun.elapsed().as_secs_f64() * 1e6;
        filled += read;
        let mut at = 0;
        while let Some((payload, length)) = frame(&buffer[at..filled]) {
            if let Some(sent) = sent(payload) {
                told.count.fetch_add(1, Ordering::Relaxed);
                let mut ages = told.ages.lock().expect("no holder panics");
                ages.add_ms((now - sent) / 1000.0);
            }
            at += length;
        }
        buffer.copy_within(at..filled, 0);
        filled -= at;
    }
}

/// A server's frame at the beginning of these bytes, and how long it is with its head.
fn frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (&[_, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, head) = match length {
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (
            usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?,
            10,
        ),
        length => (usize::from(length), 2),
    };
    Some((bytes.get(head..head + length)?, head + length))
}

fn sent(payload: &[u8]) -> Option<f64> {
    // Near the beginning, after the number.
    let payload = &payload[..payload.len().min(80)];
    let at = payload
        .windows(SENT.len())
        .position(|window| window == SENT.as_bytes())?;
    let digits = payload[at + SENT.len()..].split(|byte| !byte.is_ascii_digit());
    std::str::from_utf8(digits.into_iter().next()?)
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart_whatever_their_length() {
        for length in [0, 5, 125, 126, 300, 70_000] {
            let mut bytes = vec![0x81];
            match length {
                0..=125 => bytes.push(u8::try_from(length).unwrap()),
                126..=0xffff => {
                    bytes.push(126);
                    bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
                }
                _ => {
                    bytes.push(127);
                    bytes.extend((length as u64).to_be_bytes());
                }
            }
            bytes.resize(bytes.len() + length, b'x');
            let whole = bytes.len();
            assert!(frame(&bytes[..whole - 1]).is_none());
            bytes.extend([0x81, 0]);
            let (payload, taken) = frame(&bytes).unwrap();
            assert_eq!((payload.len(), taken), (length, whole));
        }
    }

    #[test]
    fn only_events_of_the_bench_have_an_age() {
        assert_eq!(sent(br#"{"seq":1,"sent":1234,"type":"x"}"#), Some(1234.0));
        assert_eq!(sent(br#"{"type":"presence"}"#), None);
    }
}
