//! Connections, and a pipe between two of them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use rustix::fd::AsFd as _;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::head::{HeadError, head_length};

/// What is read at once into our memory.
const READ: usize = 16 << 10;
/// How much is asked for at once: what we ask a pipe to hold. A response of 64 KiB and its head go
/// through in one piece.
const PIECE: usize = 256 << 10;

#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn tcp(stream: TcpStream) -> Self {
        // Heads and bodies are written whole; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }

    /// Appends what there is; 0 at the end.
    async fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            let read = match self {
                Self::Tcp(stream) => stream.try_read_buf(buffer),
                Self::Unix(stream) => stream.try_read_buf(buffer),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable().await?,
                other => return other,
            }
        }
    }

    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_within(bytes, Duration::MAX).await
    }

    /// Whoever reads may take so long for the next of it, however slow they are with the whole.
    pub(crate) async fn write_within(&self, mut bytes: &[u8], each: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Self::Tcp(stream) => stream.try_write(bytes),
                Self::Unix(stream) => stream.try_write(bytes),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(each, self.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes so that whoever reads sees that it is not the end of what was said.
    pub fn break_off(self) {
        // Gone already is as good.
        let _ = rustix::net::sockopt::set_socket_linger(self.fd(), Some(Duration::ZERO));
    }

    /// Nothing more will be written; the other side may go on.
    pub fn finish(&self) {
        // Gone already is as good.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream.as_fd(), Shutdown::Write),
            Self::Unix(stream) => rustix::net::shutdown(stream.as_fd(), Shutdown::Write),
        };
    }

    /// Whether the other side said something or closed while it had nothing to say.
    pub fn is_stale(&self) -> bool {
        let mut byte = [0u8; 1];
        let read = match self {
            Self::Tcp(stream) => stream.try_read(&mut byte),
            Self::Unix(stream) => stream.try_read(&mut byte),
        };
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    fn try_io(
        &self,
        interest: Interest,
        work: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, work),
            Self::Unix(stream) => stream.try_io(interest, work),
        }
    }

    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Carries bytes from one connection to another through a pipe: they never enter our memory.
#[derive(Debug)]
pub struct Pipe {
    read: std::os::fd::OwnedFd,
    write: std::os::fd::OwnedFd,
}

impl Pipe {
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // One that stays as small as it was made takes less at a time.
        let _ = fcntl_setpipe_size(&write, PIECE);
        Ok(Self { read, write })
    }

    /// Moves at most `most` bytes, whatever is there; 0 at the end.
    pub async fn carry(&self, from: &Stream, to: &Stream, most: u64) -> io::Result<u64> {
        let taken = self.take(from, most).await?;
        self.give(to, taken, Duration::MAX).await?;
        Ok(taken as u64)
    }

    /// Fills the pipe, which must be empty: a full one would look like a connection with nothing to
    /// read.
    pub(crate) async fn take(&self, from: &Stream, most: u64) -> io::Result<usize> {
        let most = usize::try_from(most).unwrap_or(PIECE).min(PIECE);
        loop {
            let taken = from.try_io(Interest::READABLE, || {
                Ok(splice(from.fd(), None, &self.write, None, most, FLAGS)?)
            });
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => from.readable().await?,
                other => return other,
            }
        }
    }

    /// Empties the pipe of the `left` bytes that it holds; see [`Stream::write_within`].
    pub(crate) async fn give(
        &self,
        to: &Stream,
        mut left: usize,
        each: Duration,
    ) -> io::Result<()> {
        while left > 0 {
            let given = to.try_io(Interest::WRITABLE, || {
                Ok(splice(&self.read, None, to.fd(), None, left, FLAGS)?)
            });
            match given {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(each, to.writable()).await??;
                }
                other => left -= other?,
            }
        }
        Ok(())
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

/// Appends a piece of what there is; 0 at the end.
pub async fn fill(stream: &Stream, buffer: &mut BytesMut) -> io::Result<usize> {
    buffer.reserve(READ);
    stream.read(buffer).await
}

/// The length of the next head, once it is whole; none if the connection ends before. What was read
/// stays in the buffer, also when this is given up.
pub async fn next_head(stream: &Stream, unread: &mut BytesMut) -> Result<Option<usize>, HeadError> {
    let mut looked_at = 0;
    loop {
        if let Some(length) = head_length(unread, looked_at)? {
            return Ok(Some(length));
        }
        looked_at = unread.len();
        match fill(stream, unread).await {
            Ok(1..) => {}
            // Broken is as good as closed: there is no more to come.
            _ => return Ok(None),
        }
    }
}
