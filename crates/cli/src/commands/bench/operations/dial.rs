use std::time::{Duration, Instant};

use provider::{Provider as _, ProviderError, SandboxId, Stream};
use provider_local::Local;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::super::stats::Samples;
use super::{Bench, detach, limited};
use crate::error::CommandError;

const PORT: u16 = 7;
const MESSAGE: [u8; 64] = [b'm'; 64];
/// A round trip takes microseconds.
const TRIPS: usize = 20;
const ECHO: &str = "
import socket
server = socket.create_server(('127.0.0.1', 7))
while True:
    peer, _ = server.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(4096):
        peer.sendall(data)
";

/// To a port inside and back. No goal is set for these; half of it is the echo's Python.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let local = &bench.local;
    let id = local.create(&limited()).await?.id;
    detach(local, id, &["python3", "-c", ECHO]).await?;
    let mut first = when_it_listens(local, id).await?;
    echo(&mut first).await?;
    drop(first);
    let (mut connects, mut trips) = (Samples::default(), Samples::default());
    for _ in 0..bench.runs.often {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        let mut stream = local.dial(id, PORT).await?;
        connects.add(begun.elapsed());
        for _ in 0..TRIPS {
            let begun = Instant::now();
            echo(&mut stream).await?;
            trips.add(begun.elapsed());
        }
    }
    local.remove(id).await?;
    bench.report.times("dial", &connects);
    bench.report.times("dial: 64 bytes there and back", &trips);
    Ok(())
}

async fn echo(stream: &mut Box<dyn Stream>) -> Result<(), CommandError> {
    let mut back = [0; MESSAGE.len()];
    stream.write_all(&MESSAGE).await?;
    stream.read_exact(&mut back).await?;
    Ok(())
}

async fn when_it_listens(local: &Local, id: SandboxId) -> Result<Box<dyn Stream>, CommandError> {
    let begun = Instant::now();
    loop {
        match local.dial(id, PORT).await {
            Ok(stream) => return Ok(stream),
            Err(ProviderError::Refused { .. }) if begun.elapsed() < Duration::from_secs(10) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => {
                return Err(CommandError::from(error)
                    .context("the echo in the sandbox does not listen; it needs python3"));
            }
        }
    }
}
