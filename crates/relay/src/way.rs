use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::time::timeout;

use crate::{Body, Chunked, Pipe, Stream, fill};

/// One direction of an exchange.
#[derive(Debug)]
pub struct Way<'a> {
    pub from: &'a Stream,
    /// What came from there and nobody has used yet.
    pub unread: &'a mut BytesMut,
    /// For bodies from there; empty between two.
    pub pipe: &'a mut Option<Pipe>,
    pub to: &'a Stream,
    /// Grows by what was carried.
    pub count: &'a AtomicU64,
    /// For the next piece to come.
    pub silence: Duration,
    /// For a piece to be taken.
    pub taking: Duration,
}

/// Which end of a way broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    From,
    To,
}

impl Way<'_> {
    /// Carries a body after `first`, which goes together with what of the body is there already.
    pub async fn carry(mut self, body: Body, first: Vec<u8>) -> Result<(), Gone> {
        match body {
            Body::None => self.give(&first).await,
            Body::Length(length) => self.carry_length(length, first).await,
            Body::Chunked => self.carry_chunks(first).await,
            Body::UntilClose => self.carry_length(u64::MAX, first).await.or_else(|gone| {
                // The end of the connection is the end of the body.
                match gone {
                    Gone::From => Ok(()),
                    Gone::To => Err(gone),
                }
            }),
        }
    }

    async fn carry_length(&mut self, length: u64, mut first: Vec<u8>) -> Result<(), Gone> {
        let here = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(self.unread.len());
        first.extend_from_slice(&self.unread[..here]);
        self.unread.advance(here);
        let mut left = length - here as u64;
        if left == 0 {
            return self.give(&first).await;
        }
        let pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            None => Pipe::new().map_err(|_| Gone::To)?,
        };
        let begun = timeout(self.taking, pipe.begin(self.from, self.to, &first, left)).await;
        let mut taken = begun.map_err(|_| Gone::To)??;
        self.count(first.len());
        loop {
            match timeout(self.taking, pipe.give(self.to, taken)).await {
                Ok(Ok(())) => {}
                _ => return Err(Gone::To),
            }
            left -= taken as u64;
            self.count(taken);
            if left == 0 {
                break;
            }
            match timeout(self.silence, pipe.take(self.from, left)).await {
                Ok(Ok(more @ 1..)) => taken = more,
                _ => return Err(Gone::From),
            }
        }
        // Only now: one that failed may still hold bytes.
        *self.pipe = Some(pipe);
        Ok(())
    }

    async fn carry_chunks(&mut self, mut out: Vec<u8>) -> Result<(), Gone> {
        let mut chunked = Chunked::default();
        loop {
            let used = chunked.advance(self.unread).map_err(|_| Gone::From)?;
            out.extend_from_slice(&self.unread[..used]);
            self.unread.advance(used);
            self.give(&out).await?;
            if chunked.is_done() {
                return Ok(());
            }
            out.clear();
            match timeout(self.silence, fill(self.from, self.unread)).await {
                Ok(Ok(1..)) => {}
                _ => return Err(Gone::From),
            }
        }
    }

    async fn give(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        match timeout(self.taking, self.to.write_all(bytes)).await {
            Ok(Ok(())) => {
                self.count(bytes.len());
                Ok(())
            }
            _ => Err(Gone::To),
        }
    }

    fn count(&self, bytes: usize) {
        self.count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
