//! The framing that both protocols share: four bytes of length (little endian, payload only), one
//! byte of channel, the payload. Control frames are JSON, the rest is bytes as they are.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest control frame: an argument list as long as the kernel takes fits.
pub const MAX_CONTROL: usize = 4 << 20;
/// The largest data frame.
pub const MAX_DATA: usize = 256 << 10;
pub const HEADER: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    Control = 0,
    Stdin = 1,
    Stdout = 2,
    Stderr = 3,
    /// Content of a file under way.
    Data = 4,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub channel: Channel,
    pub payload: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the other side sent a frame on unknown channel {0}")]
    UnknownChannel(u8),
    #[error("the other side announced a frame of {length} bytes; the limit is {limit}")]
    TooLong { length: usize, limit: usize },
    #[error("the other side sent a control frame that cannot be read")]
    Malformed(#[source] serde_json::Error),
    #[error("the other side closed in the middle of the conversation")]
    Closed,
    #[error("reading or writing the connection failed")]
    Io(#[from] io::Error),
}

/// Reads a header; the length is checked here, before anyone allocates.
pub fn parse_header(header: [u8; HEADER]) -> Result<(Channel, usize), FrameError> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    let channel = match header[4] {
        0 => Channel::Control,
        1 => Channel::Stdin,
        2 => Channel::Stdout,
        3 => Channel::Stderr,
        4 => Channel::Data,
        other => return Err(FrameError::UnknownChannel(other)),
    };
    let limit = if channel == Channel::Control {
        MAX_CONTROL
    } else {
        MAX_DATA
    };
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    Ok((channel, length))
}

impl Frame {
    pub fn control(message: &impl Serialize) -> Self {
        let payload = serde_json::to_vec(message).expect("our own types serialise");
        Self {
            channel: Channel::Control,
            payload,
        }
    }

    pub fn message<T: DeserializeOwned>(&self) -> Result<T, FrameError> {
        if self.channel != Channel::Control {
            return Err(FrameError::UnknownChannel(self.channel as u8));
        }
        serde_json::from_slice(&self.payload).map_err(FrameError::Malformed)
    }

    /// Header and payload, ready to be written in one go.
    pub fn encode(&self) -> Vec<u8> {
        encode(self.channel, &self.payload)
    }

    /// `None` when the other side closed between two frames.
    pub fn read(from: &mut impl Read) -> Result<Option<Self>, FrameError> {
        let mut header = [0u8; HEADER];
        match from.read(&mut header)? {
            0 => return Ok(None),
            read => from.read_exact(&mut header[read..]).map_err(closed)?,
        }
        let (channel, length) = parse_header(header)?;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).map_err(closed)?;
        Ok(Some(Self { channel, payload }))
    }

    pub fn write(&self, to: &mut impl Write) -> Result<(), FrameError> {
        to.write_all(&self.encode())?;
        Ok(())
    }
}

fn closed(error: io::Error) -> FrameError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        FrameError::Closed
    } else {
        error.into()
    }
}

/// One frame as bytes. The payload must be within the channel's limit.
pub fn encode(channel: Channel, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("frames are bounded far below 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(channel as u8);
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(feature = "tokio")]
mod asynchronous {
    use super::{Channel, Frame, FrameError, HEADER, closed, encode, parse_header};
    use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

    /// `None` when the other side closed between two frames. Not cancel-safe: give it a task of
    /// its own, or drop the connection with it.
    pub async fn read_frame(
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<Frame>, FrameError> {
        let mut header = [0u8; HEADER];
        match from.read(&mut header).await? {
            0 => return Ok(None),
            read => {
                from.read_exact(&mut header[read..]).await.map_err(closed)?;
            }
        }
        let (channel, length) = parse_header(header)?;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await.map_err(closed)?;
        Ok(Some(Frame { channel, payload }))
    }

    pub async fn write_frame(
        to: &mut (impl AsyncWrite + Unpin),
        channel: Channel,
        payload: &[u8],
    ) -> Result<(), FrameError> {
        to.write_all(&encode(channel, payload)).await?;
        Ok(())
    }
}

#[cfg(feature = "tokio")]
pub use asynchronous::{read_frame, write_frame};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_longer_than_its_limit_is_refused_before_it_is_read() {
        let mut bytes = (u32::MAX).to_le_bytes().to_vec();
        bytes.push(Channel::Stdout as u8);
        let error = Frame::read(&mut bytes.as_slice()).unwrap_err();
        assert!(matches!(error, FrameError::TooLong { .. }));
    }

    #[test]
    fn a_connection_cut_inside_a_frame_says_so() {
        let whole = encode(Channel::Stdout, b"pearl");
        for cut in 1..whole.len() {
            let error = Frame::read(&mut &whole[..cut]).unwrap_err();
            assert!(matches!(error, FrameError::Closed), "cut at {cut}");
        }
        assert!(Frame::read(&mut [].as_slice()).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            let mut bytes = bytes.as_slice();
            while let Ok(Some(frame)) = Frame::read(&mut bytes) {
                let _ = frame.message::<crate::guest::Reply>();
            }
        }

        #[test]
        fn frames_survive_the_way(payload: Vec<u8>) {
            let frame = Frame { channel: Channel::Data, payload };
            prop_assert_eq!(Frame::read(&mut frame.encode().as_slice()).unwrap(), Some(frame));
        }
    }
}
