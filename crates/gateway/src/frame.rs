//! Frames as they go over a socket. A server's frames are not masked, so the bytes are the same
//! for everybody: they are made once, and shared by all who get them.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use store::Event;

/// A whole text message, the last of its kind.
const TEXT: u8 = 0x81;

/// Frames one after the other, each a WebSocket message of its own. Cloning it copies nothing.
#[derive(Debug, Clone)]
pub struct Batch {
    bytes: Bytes,
    frames: Arc<[Cut]>,
}

/// Where a frame's JSON lies in its batch.
#[derive(Debug, Clone, Copy)]
struct Cut {
    seq: Option<u64>,
    start: usize,
    end: usize,
}

impl Batch {
    /// One frame without a number.
    pub fn passing(json: &str) -> Self {
        let mut batch = Builder::default();
        batch.passing(json);
        batch.build()
    }

    pub fn numbered(events: &[Event]) -> Self {
        let mut batch = Builder::default();
        for event in events {
            batch.numbered(event);
        }
        batch.build()
    }

    /// As they are written to a WebSocket.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Each frame's number, if it has one, and its JSON.
    pub fn frames(&self) -> impl Iterator<Item = (Option<u64>, &[u8])> {
        self.frames
            .iter()
            .map(|cut| (cut.seq, &self.bytes[cut.start..cut.end]))
    }

    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// The highest number in it.
    pub fn last_seq(&self) -> Option<u64> {
        self.frames.iter().rev().find_map(|cut| cut.seq)
    }
}

/// Makes a [`Batch`].
#[derive(Debug, Default)]
pub(crate) struct Builder {
    bytes: BytesMut,
    frames: Vec<Cut>,
}

impl Builder {
    pub(crate) fn numbered(&mut self, event: &Event) {
        let at = event.at.to_string();
        let frame = wire::v1::numbered(event.seq, &at, &event.body);
        self.put(Some(event.seq), &frame);
    }

    pub(crate) fn passing(&mut self, json: &str) {
        self.put(None, json);
    }

    fn put(&mut self, seq: Option<u64>, json: &str) {
        self.bytes.reserve(json.len() + 10);
        put_head(&mut self.bytes, TEXT, json.len());
        let start = self.bytes.len();
        self.bytes.put_slice(json.as_bytes());
        self.frames.push(Cut {
            seq,
            start,
            end: self.bytes.len(),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn build(self) -> Batch {
        Batch {
            bytes: self.bytes.freeze(),
            frames: self.frames.into(),
        }
    }
}

/// A head of a frame that is not masked.
pub(crate) fn put_head(bytes: &mut BytesMut, first: u8, length: usize) {
    bytes.put_u8(first);
    match length {
        0..=125 => bytes.put_u8(u8::try_from(length).unwrap_or(125)),
        126..=0xffff => {
            bytes.put_u8(126);
            bytes.put_u16(u16::try_from(length).unwrap_or(u16::MAX));
        }
        _ => {
            bytes.put_u8(127);
            bytes.put_u64(length as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_have_the_head_that_says_it() {
        for (length, head) in [(2, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let json = "x".repeat(length);
            let batch = Batch::passing(&json);
            assert_eq!(batch.bytes().len(), head + length);
            let (seq, payload) = batch.frames().next().unwrap();
            assert_eq!((seq, payload), (None, json.as_bytes()));
        }
    }

    #[test]
    fn a_batch_knows_its_last_number() {
        let mut batch = Builder::default();
        batch.numbered(&Event {
            seq: 7,
            at: model::Timestamp::UNIX_EPOCH,
            kind: "title".to_owned(),
            body: r#"{"type":"title"}"#.into(),
        });
        batch.passing(r#"{"type":"part.delta"}"#);
        let batch = batch.build();
        assert_eq!((batch.count(), batch.last_seq()), (2, Some(7)));
    }
}
