//! Sockets. After the handshake the two byte streams are joined as they are: frames, their kinds,
//! sub-protocols, extensions and close codes pass because nobody touches them, nothing is buffered
//! but what is on its way, and a giant frame costs us nothing. What a client sends before the backend
//! has agreed waits in its own connection, in order, until the kernel lets it send no more.
//!
//! One thing needs frames: a backend that breaks off must not look like a lost network. So its
//! direction is followed from frame to frame ([`Frames`]), and if it ends between two of them without
//! a close, the client is told 1011.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use super::headers::words;

/// A WebSocket of a client after the handshake: frames go over the stream, and we are the server.
#[derive(Debug)]
pub struct Socket {
    pub stream: TokioIo<Upgraded>,
    /// Who was let in.
    pub user: String,
    /// Below the route's prefix, with its query.
    pub path: String,
}

/// How long the other side may take to end after one has.
const FAREWELL: Duration = Duration::from_secs(10);

const PIECE: usize = 16 << 10;

/// Close, 1011, "backend error".
const BACKEND_ERROR: [u8; 17] = *b"\x88\x0f\x03\xf3backend error";

/// Whether this is a handshake that we can answer.
pub(super) fn is_handshake(headers: &HeaderMap) -> bool {
    let is_13 = |value: &HeaderValue| value == "13";
    let is_key = |value: &HeaderValue| value.len() == 24;
    headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .is_some_and(is_13)
        && headers.get(header::SEC_WEBSOCKET_KEY).is_some_and(is_key)
}

/// What proves to the client that we understood its handshake.
pub(super) fn accept(headers: &HeaderMap) -> Option<HeaderValue> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
    let digest = Sha1::new()
        .chain_update(key.as_bytes())
        .chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        .finalize();
    HeaderValue::from_str(&STANDARD.encode(digest)).ok()
}

pub(super) fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .flat_map(words)
        .any(|offered| offered == protocol.as_bytes())
}

/// Carries bytes both ways until both sides have ended, or neither said anything for so long.
pub(super) async fn join(
    client: impl AsyncRead + AsyncWrite,
    backend: impl AsyncRead + AsyncWrite,
    silence: Duration,
) {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_backend, mut to_backend) = tokio::io::split(backend);
    let heard = Heard::new(silence);
    let mut frames = Frames::default();

    let up = async {
        let _ = carry(&mut from_client, &mut to_backend, |_| (), &heard).await;
        let _ = to_backend.shutdown().await;
        // Closing with something unread would destroy what the client has not read yet.
        let _ = tokio::io::copy(&mut from_client, &mut tokio::io::sink()).await;
    };
    let mut up = std::pin::pin!(up);
    let down = async {
        let ended = carry(
            &mut from_backend,
            &mut to_client,
            |bytes| frames.follow(bytes),
            &heard,
        )
        .await;
        if ended.is_ok() && frames.are_cut_short() {
            let _ = to_client.write_all(&BACKEND_ERROR).await;
        }
        let _ = to_client.shutdown().await;
    };
    let mut down = std::pin::pin!(down);

    tokio::select! {
        () = &mut up => { let _ = timeout(FAREWELL, down).await; }
        () = &mut down => { let _ = timeout(FAREWELL, up).await; }
    }
}

/// When either side was last heard.
struct Heard {
    last: Cell<Instant>,
    silence: Duration,
}

impl Heard {
    fn new(silence: Duration) -> Self {
        let last = Cell::new(Instant::now());
        Self { last, silence }
    }

    /// Waits as long as the other direction is alive.
    async fn wait<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            let deadline = self.last.get() + self.silence;
            match timeout_at(deadline, &mut work).await {
                Ok(done) => {
                    self.last.set(Instant::now());
                    return done;
                }
                Err(_) if self.last.get() + self.silence > deadline => {}
                Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }
}

/// Until the reader ends. A reader that breaks ends too: which of the two is not told apart.
async fn carry(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut follow: impl FnMut(&[u8]),
    heard: &Heard,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let length = match heard.wait(from.read(&mut buffer)).await {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
            Err(_) => return Ok(()),
        };
        heard.wait(to.write_all(&buffer[..length])).await?;
        follow(&buffer[..length]);
    }
}

/// Where in its frames a direction is. Contents are skipped over.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; 14],
    length: usize,
    payload: u64,
    is_closed: bool,
}

impl Frames {
    fn follow(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((first, behind)) = rest.split_first() {
            if self.payload > 0 {
                let skipped = self.payload.min(rest.len() as u64);
                self.payload -= skipped;
                rest = &rest[usize::try_from(skipped).unwrap_or(rest.len())..];
                continue;
            }
            self.header[self.length] = *first;
            self.length += 1;
            rest = behind;
            if self.length == self.header_length() {
                self.payload = self.payload_length();
                self.is_closed |= self.header[0] & 0x0f == 8;
                self.length = 0;
            }
        }
    }

    /// Whether something else was to follow, and a frame of ours can.
    fn are_cut_short(&self) -> bool {
        !self.is_closed && self.length == 0 && self.payload == 0
    }

    fn header_length(&self) -> usize {
        let Some(second) = self.header[..self.length].get(1) else {
            return 2;
        };
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        2 + extended + mask
    }

    fn payload_length(&self) -> u64 {
        let read = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        match self.header[1] & 0x7f {
            126 => read(&self.header[2..4]),
            127 => read(&self.header[2..10]),
            short => u64::from(short),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    const SILENCE: Duration = Duration::from_mins(1);

    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![first];
        match length {
            0..126 => bytes.push(u8::try_from(length).unwrap()),
            126..65536 => {
                bytes.push(126);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                bytes.push(127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.resize(bytes.len() + length, 0x88);
        bytes
    }

    #[test]
    fn frames_are_followed_however_they_are_cut() {
        let mut bytes = Vec::new();
        for length in [0, 1, 125, 126, 127, 1000, 65535, 65536, 70_000] {
            bytes.extend(frame(0x82, length));
        }
        for piece in [1, 2, 3, 7, 1000, bytes.len()] {
            let mut frames = Frames::default();
            for bytes in bytes.chunks(piece) {
                frames.follow(bytes);
            }
            assert!(frames.are_cut_short(), "{piece}");
            frames.follow(&[0x82]);
            assert!(!frames.are_cut_short(), "{piece}");
            frames.follow(&[0]);
            frames.follow(&frame(0x88, 2));
            assert!(!frames.are_cut_short(), "{piece}");
        }
    }

    #[test]
    fn a_frame_of_any_length_costs_nothing() {
        let mut frames = Frames::default();
        frames.follow(&[
            0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4,
        ]);
        assert_eq!(frames.payload, u64::MAX);
        assert!(!frames.are_cut_short());
    }

    /// What the client reads when the backend says this and breaks off.
    async fn after_backend_said(said: &[u8]) -> Vec<u8> {
        let (mut client, ours) = duplex(1 << 10);
        let (theirs, mut backend) = duplex(1 << 10);
        let talk = async {
            backend.write_all(said).await.unwrap();
            drop(backend);
            let mut read = Vec::new();
            client.read_to_end(&mut read).await.unwrap();
            drop(client);
            read
        };
        let ((), read) = tokio::join!(join(ours, theirs, SILENCE), talk);
        read
    }

    #[tokio::test]
    async fn a_backend_that_breaks_off_is_an_error_to_the_client() {
        let said = frame(0x81, 5);
        let heard = after_backend_said(&said).await;
        assert_eq!(heard[said.len()..], BACKEND_ERROR);
    }

    #[tokio::test]
    async fn nothing_is_put_into_the_middle_of_a_frame() {
        let said = &frame(0x81, 5)[..4];
        assert_eq!(after_backend_said(said).await, said);
    }

    #[tokio::test]
    async fn nothing_is_said_after_a_close() {
        let said = frame(0x88, 2);
        assert_eq!(after_backend_said(&said).await, said);
    }

    #[tokio::test(start_paused = true)]
    async fn two_that_are_silent_are_parted_and_one_that_talks_keeps_both() {
        let (mut client, ours) = duplex(64);
        let (theirs, mut backend) = duplex(64);
        let started = Instant::now();
        let talk = async {
            for _ in 0..5 {
                tokio::time::sleep(SILENCE / 2).await;
                client.write_all(b"x").await.unwrap();
                backend.read_exact(&mut [0]).await.unwrap();
            }
            backend.read(&mut [0]).await.unwrap()
        };
        let ((), read) = tokio::join!(join(ours, theirs, SILENCE), talk);
        assert_eq!(read, 0);
        assert!(started.elapsed() >= SILENCE * 7 / 2);
    }

    #[test]
    fn a_handshake_is_answered_as_the_standard_has_it() {
        let mut headers = HeaderMap::new();
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
        assert_eq!(accept(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
