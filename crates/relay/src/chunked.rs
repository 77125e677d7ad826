/// A size line holds sixteen digits and perhaps an extension.
const MAX_SIZE_LINE: usize = 256;
const MAX_TRAILERS: usize = 8 << 10;

/// Finds the end of a chunked body in bytes that are passed on as they are.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// Of the line or the trailers that are being read.
    length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size { value: u64, digits: u8 },
    Extension { value: u64 },
    SizeEnd { value: u64 },
    Data { left: u64 },
    DataReturn,
    DataEnd,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastEnd,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of a body are not as they must be")]
pub struct ChunkedError;

impl Default for Chunked {
    fn default() -> Self {
        Self {
            state: State::Size {
                value: 0,
                digits: 0,
            },
            length: 0,
        }
    }
}

impl Chunked {
    /// How many of these bytes belong to the body; all of them unless it ends among them.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<usize, ChunkedError> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            if let State::Data { left } = self.state {
                let here = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                at += here;
                let left = left - here as u64;
                self.state = if left == 0 {
                    State::DataReturn
                } else {
                    State::Data { left }
                };
                continue;
            }
            self.state = self.next(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn next(&mut self, byte: u8) -> Result<State, ChunkedError> {
        self.length += 1;
        let most = match self.state {
            State::TrailerStart | State::Trailer | State::TrailerEnd | State::LastEnd => {
                MAX_TRAILERS
            }
            _ => MAX_SIZE_LINE,
        };
        if self.length > most {
            return Err(ChunkedError);
        }
        Ok(match (self.state, byte) {
            (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                State::Size {
                    value: value << 4 | u64::from(digit),
                    digits: digits + 1,
                }
            }
            (State::Size { value, digits: 1.. }, b';')
            | (State::Extension { value }, b'\t' | b' '..=b'~') => State::Extension { value },
            (State::Size { value, digits: 1.. } | State::Extension { value }, b'\r') => {
                State::SizeEnd { value }
            }
            (State::SizeEnd { value: 0 }, b'\n') => {
                self.length = 0;
                State::TrailerStart
            }
            (State::SizeEnd { value }, b'\n') => State::Data { left: value },
            (State::DataReturn, b'\r') => State::DataEnd,
            (State::DataEnd, b'\n') => {
                self.length = 0;
                State::Size {
                    value: 0,
                    digits: 0,
                }
            }
            (State::TrailerStart, b'\r') => State::LastEnd,
            (State::TrailerStart | State::Trailer, b'\t' | b' '..=b'~' | 0x80..) => State::Trailer,
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::LastEnd, b'\n') => State::Done,
            _ => return Err(ChunkedError),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end_of(bytes: &[u8]) -> Result<Option<usize>, ChunkedError> {
        let mut chunked = Chunked::default();
        let end = chunked.advance(bytes)?;
        Ok(chunked.is_done().then_some(end))
    }

    #[test]
    fn a_body_ends_with_its_empty_chunk() {
        for (body, rest) in [
            ("0\r\n\r\n", "GET"),
            ("5\r\nhello\r\n0\r\n\r\n", ""),
            ("a;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: a\r\n\r\n", "x"),
            ("00\r\n\r\n", ""),
        ] {
            let all = format!("{body}{rest}");
            assert_eq!(end_of(all.as_bytes()), Ok(Some(body.len())), "{all}");
        }
    }

    #[test]
    fn chunks_that_could_be_read_differently_are_refused() {
        for bad in [
            "5\nhello\r\n",
            "0x5\r\nhello\r\n",
            " 5\r\n",
            "5 \r\n",
            "-1\r\n",
            "\r\n",
            ";\r\n",
            "5;\n",
            "5;a\nb\r\n",
            "5\r\nhelloX",
            "5\r\nhello\n",
            "0\r\n\n",
            "0\r\na\n\r\n",
            "fffffffffffffffff\r\n",
        ] {
            assert_eq!(end_of(bad.as_bytes()), Err(ChunkedError), "{bad:?}");
        }
        let long = format!("1;{}\r\n", "a".repeat(300));
        assert_eq!(end_of(long.as_bytes()), Err(ChunkedError));
        let many = format!("0\r\n{}", "a: b\r\n".repeat(2000));
        assert_eq!(end_of(many.as_bytes()), Err(ChunkedError));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_which_pieces_it_comes(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..5),
            cut in 0usize..120,
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            let cut = cut.min(body.len());
            let mut chunked = Chunked::default();
            let first = chunked.advance(&body[..cut]).unwrap();
            prop_assert_eq!(first, cut);
            prop_assert_eq!(chunked.advance(&body[cut..]).unwrap(), body.len() - cut);
            prop_assert!(chunked.is_done());
        }
    }
}
