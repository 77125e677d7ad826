//! A network in memory: what is dialled on one side is accepted on the other. Nothing here waits
//! for the kernel, so it goes together with paused time.

use std::io;

use agent::dial::{Dial, Stream};
use async_trait::async_trait;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

const BACKLOG: usize = 64;
const BUFFER: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct MemoryDial(mpsc::Sender<DuplexStream>);

#[derive(Debug)]
pub struct MemoryListener(mpsc::Receiver<DuplexStream>);

pub fn network() -> (MemoryDial, MemoryListener) {
    let (dialled, accepted) = mpsc::channel(BACKLOG);
    (MemoryDial(dialled), MemoryListener(accepted))
}

#[async_trait]
impl Dial for MemoryDial {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let (near, far) = tokio::io::duplex(BUFFER);
        let sent = self.0.send(far).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(Box::new(near))
    }
}

impl MemoryListener {
    /// `None` when nobody can dial any more.
    pub async fn accept(&mut self) -> Option<DuplexStream> {
        self.0.recv().await
    }
}
