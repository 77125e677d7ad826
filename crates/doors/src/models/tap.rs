//! Reads what was used out of an answer that passes by.

use hyper::header::{CONTENT_TYPE, HeaderMap};
use memchr::{memchr, memmem};
use serde_json::Value;
use wire::link::Usage;

use super::config::Api;
use super::usage::{self, Seen};

/// An event or an answer longer than this is not read. The largest are ends of long responses,
/// which repeat all that was said.
const LONGEST: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Tap {
    api: Api,
    form: Form,
    seen: Seen,
}

#[derive(Debug)]
enum Form {
    Events(Line),
    Whole(Line),
    /// Nothing that tells.
    Other,
}

/// What of a line, or of a whole answer, has come.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Tap {
    pub(super) fn new(api: Api, headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let form = match kind {
            "text/event-stream" => Form::Events(Line::default()),
            "application/json" => Form::Whole(Line::default()),
            _ => Form::Other,
        };
        Self {
            api,
            form,
            seen: Seen::default(),
        }
    }

    pub(super) fn pass(&mut self, mut chunk: &[u8]) {
        match &mut self.form {
            Form::Events(line) => {
                while let Some(end) = memchr(b'\n', chunk) {
                    line.push(&chunk[..end]);
                    read_line(self.api, &line.take(), &mut self.seen);
                    chunk = &chunk[end + 1..];
                }
                line.push(chunk);
            }
            Form::Whole(whole) => whole.push(chunk),
            Form::Other => {}
        }
    }

    /// The answer is over. A last line without its end counts too.
    pub(super) fn end(&mut self) {
        match &mut self.form {
            Form::Events(line) => read_line(self.api, &line.take(), &mut self.seen),
            Form::Whole(whole) => {
                if let Ok(value) = serde_json::from_slice::<Value>(&whole.take()) {
                    usage::read_whole(self.api, &value, &mut self.seen);
                }
            }
            Form::Other => {}
        }
    }

    pub(super) fn usage(&self) -> Usage {
        self.seen.usage
    }

    pub(super) fn is_complete(&self) -> bool {
        self.seen.is_complete
    }
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.bytes.len() + bytes.len() > LONGEST {
            self.is_too_long = true;
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Empty, if it was too long.
    fn take(&mut self) -> Vec<u8> {
        self.is_too_long = false;
        std::mem::take(&mut self.bytes)
    }
}

fn read_line(api: Api, line: &[u8], seen: &mut Seen) {
    let Some(data) = line.strip_prefix(b"data:") else {
        return;
    };
    // Most events are a few words of text: not worth parsing.
    if memmem::find(data, b"\"usage\"").is_none() {
        return;
    }
    if let Ok(event) = serde_json::from_slice::<Value>(data) {
        usage::read_event(api, &event, seen);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tap(api: Api, kind: &'static str) -> Tap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        Tap::new(api, &headers)
    }

    const ANTHROPIC: &str = "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":7,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}\r\n\r\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\nevent: message_delta\r\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\r\n\r\n";

    proptest! {
        #[test]
        fn it_does_not_matter_how_a_stream_is_cut(at in proptest::collection::vec(0..ANTHROPIC.len(), 0..6)) {
            let mut at = at;
            at.sort_unstable();
            at.push(ANTHROPIC.len());
            let mut tap = tap(Api::Anthropic, "text/event-stream; charset=utf-8");
            let mut from = 0;
            for to in at {
                tap.pass(&ANTHROPIC.as_bytes()[from..to]);
                from = to;
            }
            tap.end();
            let usage = tap.usage();
            prop_assert_eq!((usage.input_tokens, usage.output_tokens), (25, 15));
            prop_assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (7, 3));
            prop_assert!(tap.is_complete());
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for api in [Api::Anthropic, Api::OpenAi] {
                for kind in ["text/event-stream", "application/json"] {
                    let mut tap = tap(api, kind);
                    tap.pass(b"data: {\"usage\":");
                    tap.pass(&bytes);
                    tap.end();
                }
            }
        }
    }

    #[test]
    fn a_line_without_end_is_let_go() {
        let mut tap = tap(Api::Anthropic, "text/event-stream");
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            tap.pass(&piece);
        }
        let Form::Events(line) = &tap.form else {
            panic!("events are read as events");
        };
        assert!(line.bytes.is_empty() && line.is_too_long);
        tap.pass(b"\n");
        tap.pass(ANTHROPIC.as_bytes());
        assert_eq!(tap.usage().output_tokens, 15);
    }
}
