//! What clients send over a WebSocket, read strictly: what the standard forbids ends the socket.

use bytes::{Buf as _, Bytes, BytesMut};

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Text(Vec<u8>),
    /// Nobody sends us these; what is in it is skipped.
    Binary,
    Ping(Bytes),
    Pong,
    Close(Option<u16>),
}

/// The code and the reason with which such a socket is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foul(pub(crate) u16, pub(crate) &'static str);

const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const TOO_BIG: u16 = 1009;

#[derive(Debug)]
pub(crate) struct Hearing {
    unread: BytesMut,
    /// Of a message whose end has not come.
    message: Vec<u8>,
    is_text: Option<bool>,
    most: usize,
}

impl Hearing {
    pub(crate) fn new(read: &[u8], most: usize) -> Self {
        Self {
            unread: BytesMut::from(read),
            message: Vec::new(),
            is_text: None,
            most,
        }
    }

    /// Room for what comes: little while nothing does, because most clients say little.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        let room = if self.unread.is_empty() {
            512
        } else {
            16 << 10
        };
        if self.unread.capacity() - self.unread.len() < 64 {
            self.unread.reserve(room);
        }
        &mut self.unread
    }

    /// The next message, once all of it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Heard>, Foul> {
        while let Some((head, payload)) = self.frame()? {
            if let Some(heard) = self.take(head, payload)? {
                return Ok(Some(heard));
            }
        }
        Ok(None)
    }

    /// The first byte of the next frame, and what it carries.
    fn frame(&mut self) -> Result<Option<(u8, BytesMut)>, Foul> {
        let [first, second, ..] = self.unread[..] else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err(Foul(PROTOCOL, "an extension that was not agreed on"));
        }
        if second & 0x80 == 0 {
            return Err(Foul(PROTOCOL, "a client's frame is masked"));
        }
        let is_control = first & 0x08 != 0;
        let short = usize::from(second & 0x7f);
        if is_control && (short > 125 || first & 0x80 == 0) {
            return Err(Foul(PROTOCOL, "a control frame is short and whole"));
        }
        let (head, length) = match short {
            126 => match self.unread.get(2..4) {
                Some(bytes) => (4, u64::from(u16::from_be_bytes([bytes[0], bytes[1]]))),
                None => return Ok(None),
            },
            127 => match self.unread.get(2..10).map(<[u8; 8]>::try_from) {
                Some(Ok(bytes)) => (10, u64::from_be_bytes(bytes)),
                _ => return Ok(None),
            },
            short => (2, short as u64),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.most || self.message.len() + length > self.most {
            return Err(Foul(TOO_BIG, "a frame has at most 1 MiB"));
        }
        if self.unread.len() < head + 4 + length {
            return Ok(None);
        }
        self.unread.advance(head);
        let mask = self.unread.split_to(4);
        let mut payload = self.unread.split_to(length);
        for (place, byte) in payload.iter_mut().enumerate() {
            *byte ^= mask[place % 4];
        }
        Ok(Some((first, payload)))
    }

    fn take(&mut self, first: u8, payload: BytesMut) -> Result<Option<Heard>, Foul> {
        let is_last = first & 0x80 != 0;
        match first & 0x0f {
            kind @ (1 | 2) => {
                if self.is_text.is_some() {
                    return Err(Foul(PROTOCOL, "a message inside another"));
                }
                self.is_text = Some(kind == 1);
            }
            0 if self.is_text.is_some() => {}
            8 => return close(&payload).map(Some),
            9 => return Ok(Some(Heard::Ping(payload.freeze()))),
            10 => return Ok(Some(Heard::Pong)),
            _ => return Err(Foul(PROTOCOL, "a frame of no known kind")),
        }
        self.message.extend_from_slice(&payload);
        if !is_last {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.message);
        match self.is_text.take() {
            Some(true) if std::str::from_utf8(&message).is_err() => {
                Err(Foul(NOT_TEXT, "a text message is UTF-8"))
            }
            Some(true) => Ok(Some(Heard::Text(message))),
            _ => Ok(Some(Heard::Binary)),
        }
    }
}

fn close(payload: &[u8]) -> Result<Heard, Foul> {
    match payload {
        [] => Ok(Heard::Close(None)),
        [high, low, reason @ ..] if std::str::from_utf8(reason).is_ok() => {
            let code = u16::from_be_bytes([*high, *low]);
            match code {
                1000..=1003 | 1007..=1014 | 3000..=4999 => Ok(Heard::Close(Some(code))),
                _ => Err(Foul(PROTOCOL, "no such close code")),
            }
        }
        _ => Err(Foul(PROTOCOL, "a close that says nothing")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        crate::frame::put_head(&mut bytes, first, payload.len());
        bytes[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        bytes.extend_from_slice(&mask);
        let hidden = payload.iter().enumerate();
        bytes.extend(hidden.map(|(place, byte)| byte ^ mask[place % 4]));
        bytes.to_vec()
    }

    fn hear(bytes: &[u8]) -> Result<Option<Heard>, Foul> {
        Hearing::new(bytes, 1 << 20).next()
    }

    proptest! {
        #[test]
        fn a_message_is_the_same_however_it_is_cut(
            text in "\\PC{0,400}",
            cuts in proptest::collection::vec(0usize..500, 0..5),
            pieces in 1usize..5,
        ) {
            let bytes = text.as_bytes();
            let each = bytes.len().div_ceil(pieces).max(1);
            let mut frames: Vec<&[u8]> = bytes.chunks(each).collect();
            if frames.is_empty() {
                frames.push(&[]);
            }
            let mut sent = Vec::new();
            for (place, frame) in frames.iter().enumerate() {
                let kind = u8::from(place == 0);
                let last = if place + 1 == frames.len() { 0x80 } else { 0 };
                sent.extend(masked(kind | last, frame));
                // A control frame may stand between the pieces.
                sent.extend(masked(0x8a, b"pong"));
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (sent.len() + 1)).collect();
            cuts.push(sent.len());
            cuts.sort_unstable();
            let (mut hearing, mut from, mut heard) = (Hearing::new(&[], 1 << 20), 0, Vec::new());
            for cut in cuts {
                hearing.unread.extend_from_slice(&sent[from..cut]);
                from = cut;
                while let Some(one) = hearing.next().unwrap() {
                    if one != Heard::Pong {
                        heard.push(one);
                    }
                }
            }
            prop_assert_eq!(heard, vec![Heard::Text(bytes.to_vec())]);
        }

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut hearing = Hearing::new(&bytes, 100);
            while let Ok(Some(_)) = hearing.next() {}
        }
    }

    #[test]
    fn what_the_standard_forbids_ends_the_socket() {
        let unmasked = [0x81, 1, b'x'];
        let wrong: [(&str, Vec<u8>, u16); 9] = [
            ("not masked", unmasked.to_vec(), 1002),
            ("reserved bit", masked(0xc1, b"x"), 1002),
            ("unknown kind", masked(0x83, b"x"), 1002),
            ("continues nothing", masked(0x80, b"x"), 1002),
            ("long ping", masked(0x89, &[0; 126]), 1002),
            ("ping in pieces", masked(0x09, b"x"), 1002),
            ("not UTF-8", masked(0x81, &[0xff]), 1007),
            ("too long", masked(0x81, &vec![b'x'; (1 << 20) + 1]), 1009),
            ("no close code", masked(0x88, &[0x03, 0xed]), 1002),
        ];
        for (what, bytes, code) in wrong {
            assert_eq!(hear(&bytes).unwrap_err().0, code, "{what}");
        }
        let mut twice = masked(0x01, b"x");
        twice.extend(masked(0x81, b"y"));
        assert_eq!(hear(&twice).unwrap_err().0, 1002);
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_it_comes() {
        let mut bytes = vec![0x82, 0xff];
        bytes.extend(u64::MAX.to_be_bytes());
        assert_eq!(hear(&bytes).unwrap_err().0, 1009);
    }
}
