//! Server-sent events, as far as OpenCode uses them: only `data:` lines.

use std::collections::VecDeque;

/// A message of a user is sent again with all its diffs, so events can be large; more than this is
/// not kept.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Data(String),
    /// An event that was too big to keep.
    Dropped,
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    too_big: bool,
    line_cut: bool,
    ready: VecDeque<Frame>,
}

impl Parser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend_line(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        self.extend_line(rest);
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let held = self.line.len() + self.data.as_ref().map_or(0, Vec::len);
        if held + bytes.len() > MOST_BYTES {
            self.too_big = true;
            self.line_cut = true;
            self.line.clear();
        }
        if !self.too_big {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if self.too_big {
            self.data = None;
            let is_blank = line.is_empty() && !std::mem::take(&mut self.line_cut);
            if is_blank {
                self.too_big = false;
                self.ready.push_back(Frame::Dropped);
            }
            return;
        }
        if line.is_empty() {
            self.end_event();
        } else if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
    }

    fn end_event(&mut self) {
        let Some(data) = self.data.take() else {
            return;
        };
        let text = String::from_utf8_lossy(&data);
        if text.trim() != "[DONE]" {
            self.ready.push_back(Frame::Data(text.into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut parser = Parser::default();
        for piece in pieces {
            parser.push(piece);
        }
        std::iter::from_fn(|| parser.pop()).collect()
    }

    fn data(text: &str) -> Frame {
        Frame::Data(text.to_owned())
    }

    #[test]
    fn both_kinds_of_line_ends_separate_events() {
        let wire = b"data: one\r\n\r\ndata:two\n\n: a comment\nevent: x\ndata: three\n\n";
        assert_eq!(frames(&[wire]), [data("one"), data("two"), data("three")]);
    }

    #[test]
    fn several_lines_of_data_are_one_event() {
        assert_eq!(frames(&[b"data: a\ndata: b\n\n"]), [data("a\nb")]);
    }

    #[test]
    fn the_end_marker_is_no_event() {
        assert_eq!(frames(&[b"data: [DONE]\n\n"]), []);
    }

    #[test]
    fn an_event_that_is_too_big_is_dropped_and_the_next_is_not() {
        let big = format!("data: {}\n\n", "x".repeat(MOST_BYTES));
        assert_eq!(
            frames(&[big.as_bytes(), b"data: next\n\n"]),
            [Frame::Dropped, data("next")]
        );
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_wire_is_cut(
            events in prop::collection::vec("[a-zé ]{1,12}", 0..6), cuts in prop::collection::vec(1..9usize, 0..30)
        ) {
            let wire: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            let wire = wire.concat();
            let mut rest = wire.as_bytes();
            let mut parser = Parser::default();
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                parser.push(now);
                rest = later;
            }
            parser.push(rest);
            let read: Vec<Frame> = std::iter::from_fn(|| parser.pop()).collect();
            let told: Vec<Frame> = events.iter().map(|event| data(event)).collect();
            prop_assert_eq!(read, told);
        }
    }
}
