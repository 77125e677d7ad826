//! An answer on its way into the sandbox: each chunk as it comes, read and scrubbed, never kept.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use hyper::body::{Body, Frame};
use hyper::header::HeaderMap;

use super::account::Account;
use crate::content::BoxError;
use crate::gate::Slot;
use crate::scrub::Scrubber;

pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// What an upstream said.
pub(crate) struct Reply {
    pub(crate) status: hyper::StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) chunks: Chunks,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

pub(super) struct Passing {
    /// `None` after the end.
    pub(super) chunks: Option<Chunks>,
    pub(super) scrubber: Scrubber,
    pub(super) account: Account,
    /// The session's, until the last byte.
    pub(super) _slot: Slot,
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            let Some(chunks) = &mut this.chunks else {
                return Poll::Ready(None);
            };
            match std::task::ready!(chunks.as_mut().poll_next(cx)) {
                Some(Ok(chunk)) => {
                    this.account.pass(&chunk);
                    let chunk = this.scrubber.push(chunk);
                    if !chunk.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                }
                // The connection is cut then, as the upstream's was.
                Some(Err(error)) => {
                    this.chunks = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    this.chunks = None;
                    this.account.end();
                    let rest = this.scrubber.rest();
                    if !rest.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(rest))));
                    }
                }
            }
        }
    }
}
