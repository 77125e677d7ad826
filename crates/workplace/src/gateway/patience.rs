//! How long we wait for somebody who says nothing.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};

/// A limit to waiting: runs from the first time that nothing happened to the next that something
/// does.
#[derive(Debug)]
struct Limit {
    after: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl Limit {
    fn new(after: Duration) -> Self {
        Self {
            after,
            sleep: None,
            is_running: false,
        }
    }

    /// Passes on what happened, or gives up on what did not.
    fn apply<T>(&mut self, cx: &mut Context<'_>, what: Poll<T>) -> Poll<Result<T, io::Error>> {
        if let Poll::Ready(done) = what {
            self.is_running = false;
            return Poll::Ready(Ok(done));
        }
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep(self.after)));
        if !self.is_running {
            self.is_running = true;
            sleep.as_mut().reset(Instant::now() + self.after);
        }
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A body whose next piece must come in time.
#[derive(Debug)]
pub(super) struct Patient {
    body: Incoming,
    limit: Limit,
}

impl Patient {
    pub(super) fn new(body: Incoming, limit: Duration) -> Self {
        let limit = Limit::new(limit);
        Self { body, limit }
    }
}

impl Body for Patient {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.limit.apply(cx, frame).map(|frame| match frame {
            Ok(Some(Ok(frame))) => Some(Ok(frame)),
            Ok(Some(Err(error))) => Some(Err(io::Error::other(error))),
            Ok(None) => None,
            Err(late) => Some(Err(late)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose other end must take what is written in time.
#[derive(Debug)]
pub(super) struct Taken<T> {
    stream: T,
    limit: Limit,
    /// Of what comes, what was read already.
    read: Bytes,
}

impl<T> Taken<T> {
    pub(super) fn new(stream: T, read: Bytes, limit: Duration) -> Self {
        let limit = Limit::new(limit);
        Self {
            stream,
            limit,
            read,
        }
    }
}

impl<T: Read + Unpin> Read for Taken<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read.is_empty() {
            let here = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read.split_to(here));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for Taken<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit.apply(cx, written).map(Result::flatten)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.limit.apply(cx, written).map(Result::flatten)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
