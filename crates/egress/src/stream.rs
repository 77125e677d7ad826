//! Connections from inside, at the door or the port, and those to servers.

use std::io;
use std::net::SocketAddr;

use bytes::BytesMut;
use rustix::fd::AsFd as _;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// How much is asked for at once: what we ask a pipe to hold. A response of 64 KiB and its head go
/// through in one piece.
const PIECE: usize = 256 << 10;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        // Heads and bodies are written whole; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        Self::Tcp(stream)
    }

    /// Appends what there is; 0 at the end.
    pub(crate) async fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
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

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Self::Tcp(stream) => stream.try_write(bytes),
                Self::Unix(stream) => stream.try_write(bytes),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Nothing more will be written; the other side may go on.
    pub(crate) fn finish(&self) {
        // Gone already is as good.
        let _ = match self {
            Self::Tcp(stream) => rustix::net::shutdown(stream.as_fd(), Shutdown::Write),
            Self::Unix(stream) => rustix::net::shutdown(stream.as_fd(), Shutdown::Write),
        };
    }

    /// Whether the other side said something or closed while it had nothing to say.
    pub(crate) fn is_stale(&self) -> bool {
        let mut byte = [0u8; 1];
        let read = match self {
            Self::Tcp(stream) => stream.try_read(&mut byte),
            Self::Unix(stream) => stream.try_read(&mut byte),
        };
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
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
pub(crate) struct Pipe {
    read: std::os::fd::OwnedFd,
    write: std::os::fd::OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // One that stays as small as it was made takes less at a time.
        let _ = fcntl_setpipe_size(&write, PIECE);
        Ok(Self { read, write })
    }

    /// Moves at most `most` bytes, whatever is there; 0 at the end.
    pub(crate) async fn carry(&self, from: &Stream, to: &Stream, most: u64) -> io::Result<u64> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let most = usize::try_from(most).unwrap_or(PIECE).min(PIECE);
        let taken = loop {
            let taken = from.try_io(Interest::READABLE, || {
                Ok(splice(from.fd(), None, &self.write, None, most, flags)?)
            });
            match taken {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => from.readable().await?,
                other => break other?,
            }
        };
        // The pipe is empty again before more goes in: then a full one never looks like a
        // connection with nothing to read.
        let mut left = taken;
        while left > 0 {
            let given = to.try_io(Interest::WRITABLE, || {
                Ok(splice(&self.read, None, to.fd(), None, left, flags)?)
            });
            match given {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
                other => left -= other?,
            }
        }
        Ok(taken as u64)
    }
}
