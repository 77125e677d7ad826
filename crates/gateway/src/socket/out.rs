use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::frame::{Batch, put_head};

/// Pieces that are written by one call.
const TOGETHER: usize = 64;

/// What is on its way to one client. Whole frames are put in, and leave in that order.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pieces: VecDeque<Bytes>,
}

impl Out {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn put(&mut self, batches: &mut VecDeque<Batch>) {
        let bytes = batches.drain(..).map(|batch| batch.bytes().clone());
        self.pieces.extend(bytes);
    }

    /// Before all else: the rest of what was begun.
    pub(crate) fn put_first(&mut self, rest: Bytes) {
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
    }

    /// For this client alone.
    pub(crate) fn say(&mut self, frame: &Value) {
        let batch = Batch::passing(&frame.to_string());
        self.pieces.push_back(batch.bytes().clone());
    }

    pub(crate) fn ping(&mut self) {
        self.pieces.push_back(Bytes::from_static(&[0x89, 0]));
    }

    pub(crate) fn pong(&mut self, payload: &[u8]) {
        self.control(0x8a, payload);
    }

    pub(crate) fn close(&mut self, code: u16, reason: &str) {
        let mut payload = BytesMut::new();
        payload.put_u16(code);
        payload.put_slice(&reason.as_bytes()[..reason.floor_char_boundary(120)]);
        self.control(0x88, &payload);
    }

    fn control(&mut self, first: u8, payload: &[u8]) {
        let mut frame = BytesMut::new();
        put_head(&mut frame, first, payload.len());
        frame.put_slice(payload);
        self.pieces.push_back(frame.freeze());
    }

    /// Writes some of it, by one call. Given up, it has written nothing.
    pub(crate) async fn write(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let written = if let [one] = self.pieces.make_contiguous() {
            to.write(one).await?
        } else {
            let mut slices = [IoSlice::new(&[]); TOGETHER];
            let count = self.pieces.len().min(TOGETHER);
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(piece);
            }
            to.write_vectored(&slices[..count]).await?
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.advance(written);
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            if written < piece.len() {
                piece.advance(written);
                return;
            }
            written -= piece.len();
            self.pieces.pop_front();
        }
    }

    pub(crate) async fn flush(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while !self.is_empty() {
            self.write(to).await?;
        }
        to.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_put_in_leaves_in_order_whatever_the_reader_takes() {
        use tokio::io::AsyncReadExt as _;
        let (mut writer, mut reader) = tokio::io::duplex(7);
        let mut out = Out::default();
        let mut batches: VecDeque<Batch> = (0..100)
            .map(|n| Batch::passing(&format!("{{\"n\":{n}}}")))
            .collect();
        let expected: Vec<u8> = batches.iter().flat_map(|b| b.bytes().to_vec()).collect();
        out.put(&mut batches);
        let mut read = vec![0; expected.len()];
        let (flushed, taken) = tokio::join!(out.flush(&mut writer), reader.read_exact(&mut read));
        flushed.unwrap();
        taken.unwrap();
        assert_eq!(read, expected);
    }
}
