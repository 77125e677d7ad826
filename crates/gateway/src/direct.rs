//! A client that has everything and waits is written to where something is told, without waking a
//! task for it. What cannot be written at once is left to the client's own task.
//!
//! ```text
//!          park, with everything given           written whole
//!  busy ─────────────────────────────► parked ◄───────────────┐
//!   ▲                                    │ └──────────────────┘
//!   └────────── unpark ── left ◄─────────┘ not all was taken
//! ```

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::frame::Batch;

/// One client's connection, as the feed sees it.
#[derive(Debug)]
pub(crate) struct Direct {
    inner: Mutex<Inner>,
    /// Something is to be done that only the client's task can do.
    pub(crate) woken: Notify,
}

#[derive(Debug)]
struct Inner {
    at: At,
    /// The feed has it among those that wait.
    is_listed: bool,
    /// None once the client is gone.
    stream: Option<Arc<TcpStream>>,
}

#[derive(Debug)]
enum At {
    Busy,
    Parked(Place),
    /// What is left of a batch, after which it is at the place.
    Left(Place, Bytes),
}

/// How far a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The position of the batch that it gets next.
    pub(crate) next: u64,
    /// The last number that it was given since it was parked.
    pub(crate) seq: Option<u64>,
}

impl Direct {
    pub(crate) fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                at: At::Busy,
                is_listed: false,
                stream: Some(stream),
            }),
            woken: Notify::new(),
        }
    }

    /// True if the feed has to put it on its list.
    pub(crate) fn park(&self, next: u64) -> bool {
        let mut inner = self.inner();
        inner.at = At::Parked(Place { next, seq: None });
        !std::mem::replace(&mut inner.is_listed, true)
    }

    /// From now on the client's task writes. Where it is, and what it has to write first.
    pub(crate) fn unpark(&self) -> Option<(Place, Bytes)> {
        match std::mem::replace(&mut self.inner().at, At::Busy) {
            At::Busy => None,
            At::Parked(place) => Some((place, Bytes::new())),
            At::Left(place, rest) => Some((place, rest)),
        }
    }

    /// Writes a batch to one that waits for it. False if it does not wait any more.
    pub(crate) fn push(&self, position: u64, batch: &Batch) -> bool {
        let mut inner = self.inner();
        let At::Parked(place) = inner.at else {
            inner.is_listed = false;
            return false;
        };
        // It has been here since, and took it by itself.
        if place.next > position {
            return true;
        }
        let taken = match &inner.stream {
            Some(stream) if place.next == position => stream.try_write(batch.bytes()),
            _ => Err(io::ErrorKind::NotConnected.into()),
        };
        let place = Place {
            next: position + 1,
            seq: batch.last_seq().or(place.seq),
        };
        match taken {
            Ok(length) if length == batch.bytes().len() => {
                inner.at = At::Parked(place);
                return true;
            }
            Ok(length) => {
                let mut rest = batch.bytes().clone();
                rest.advance(length);
                inner.at = At::Left(place, rest);
            }
            // Its task finds out why, from where it was.
            Err(_) => {}
        }
        inner.is_listed = false;
        drop(inner);
        self.woken.notify_one();
        false
    }

    /// Takes it off the list, for its task to look.
    pub(crate) fn wake(&self) {
        self.inner().is_listed = false;
        self.woken.notify_one();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }
}

/// When the client goes, its connection does: the feed may hold the rest a while longer.
#[derive(Debug)]
pub(crate) struct Closing(pub(crate) Arc<Direct>);

impl Drop for Closing {
    fn drop(&mut self) {
        let mut inner = self.0.inner();
        inner.at = At::Busy;
        inner.stream = None;
    }
}

/// A connection that two may write to, one at a time.
#[derive(Debug, Clone)]
pub(crate) struct Plain(pub(crate) Arc<TcpStream>);

impl AsyncRead for Plain {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Plain {
    fn poll_try(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Gone already is as good.
        let _ = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
