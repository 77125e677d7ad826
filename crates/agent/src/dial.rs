//! How an agent's server is reached: by loopback TCP from inside its sandbox, through a provider
//! from outside, in memory in a test.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[async_trait]
pub trait Dial: fmt::Debug + Send + Sync {
    async fn dial(&self) -> io::Result<Box<dyn Stream>>;
}

#[derive(Debug, Clone, Copy)]
pub struct Tcp(pub SocketAddr);

#[async_trait]
impl Dial for Tcp {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.0).await?;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}
