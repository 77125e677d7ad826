use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::task::coop::consume_budget;
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
    /// For the next of it to be taken.
    pub taking: Duration,
}

/// Which end of a way is gone before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It broke, or fell silent.
    From,
    /// It closed in good order.
    Ended,
    To,
}

impl Way<'_> {
    /// Carries a body after `first`, which goes together with what of the body is there already.
    pub async fn carry(mut self, body: Body, first: Vec<u8>) -> Result<(), Gone> {
        match body {
            Body::None => self.give(&first).await,
            Body::Length(length) => self.carry_length(length, first).await,
            Body::Chunked => self.carry_chunks(first).await,
            // The end of the connection is the end of the body.
            Body::UntilClose => match self.carry_length(u64::MAX, first).await {
                Err(Gone::Ended) => Ok(()),
                other => other,
            },
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
        self.give(&first).await?;
        while left > 0 {
            // One who always has more, and one who always takes it, are not to keep the others out.
            consume_budget().await;
            let taken = match timeout(self.silence, pipe.take(self.from, left)).await {
                Ok(Ok(0)) => return Err(Gone::Ended),
                Ok(Ok(taken)) => taken,
                Ok(Err(_)) | Err(_) => return Err(Gone::From),
            };
            let given = pipe.give(self.to, taken, self.taking).await;
            given.map_err(|_| Gone::To)?;
            left -= taken as u64;
            self.count(taken);
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
            consume_budget().await;
            match timeout(self.silence, fill(self.from, self.unread)).await {
                Ok(Ok(1..)) => {}
                _ => return Err(Gone::From),
            }
        }
    }

    async fn give(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        let written = self.to.write_within(bytes, self.taking).await;
        written.map_err(|_| Gone::To)?;
        self.count(bytes.len());
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
