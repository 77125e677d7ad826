//! Takes a key out of a stream, wherever it is cut.

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use model::Secret;

const INSTEAD: &[u8] = b"[redacted]";

/// Shorter values would take innocent words out of answers.
const SHORTEST: usize = 6;

/// Holds back only what may be the beginning of the key.
#[derive(Default)]
pub(crate) struct Scrubber {
    needle: Vec<u8>,
    held: Vec<u8>,
}

impl Scrubber {
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        let needle = key.map_or(&[][..], |key| key.expose().as_bytes());
        Self {
            needle: if needle.len() < SHORTEST {
                Vec::new()
            } else {
                needle.to_vec()
            },
            held: Vec::new(),
        }
    }

    /// What may go on; nothing, if all of it may be the beginning of the key.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Bytes {
        if self.needle.is_empty() {
            return chunk;
        }
        let mut rest = if self.held.is_empty() {
            chunk
        } else {
            let mut joined = BytesMut::from(&std::mem::take(&mut self.held)[..]);
            joined.extend_from_slice(&chunk);
            joined.freeze()
        };
        let mut out = BytesMut::new();
        while let Some(at) = memmem::find(&rest, &self.needle) {
            out.extend_from_slice(&rest.split_to(at));
            out.extend_from_slice(INSTEAD);
            let _key = rest.split_to(self.needle.len());
        }
        let begun = self.begun(&rest);
        self.held = rest.split_off(rest.len() - begun).to_vec();
        if out.is_empty() {
            return rest;
        }
        out.extend_from_slice(&rest);
        out.freeze()
    }

    /// What was held back, at the end.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    /// How many bytes at the end are a beginning of the key.
    fn begun(&self, bytes: &[u8]) -> usize {
        let most = bytes.len().min(self.needle.len() - 1);
        (1..=most)
            .rev()
            .find(|&length| bytes.ends_with(&self.needle[..length]))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scrub(key: &str, chunks: &[&[u8]]) -> Vec<u8> {
        let mut scrubber = Scrubber::new(Some(&Secret::new(key)));
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(&scrubber.push(Bytes::copy_from_slice(chunk)));
        }
        out.extend_from_slice(&scrubber.rest());
        out
    }

    #[test]
    fn a_key_cut_in_two_is_found() {
        let out = scrub("sk-secret", &[b"a sk-se", b"cret b sk-", b"other"]);
        assert_eq!(out, b"a [redacted] b sk-other");
    }

    #[test]
    fn a_chunk_with_nothing_of_it_goes_on_at_once() {
        let mut scrubber = Scrubber::new(Some(&Secret::new("sk-secret")));
        let chunk = Bytes::from_static(b"data: {}\n\n");
        assert_eq!(scrubber.push(chunk.clone()), chunk);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_a_stream_is_cut(
            text in "[ab]{0,60}",
            cuts in proptest::collection::vec(0usize..60, 0..8),
        ) {
            let key = "abaaba";
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut from = 0;
            let chunks: Vec<&[u8]> = cuts
                .iter()
                .map(|&to| &bytes[std::mem::replace(&mut from, to)..to])
                .collect();
            prop_assert_eq!(scrub(key, &chunks), text.replace(key, "[redacted]").into_bytes());
        }
    }
}
