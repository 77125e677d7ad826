//! Frames that carry descriptors, on unix sockets.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::frame::{Frame, FrameError, HEADER, parse_header};

/// More than this many descriptors never travel with one frame.
pub const MAX_FDS: usize = 64;

/// Sends a frame; the descriptors go with its first byte.
pub fn send(socket: impl AsFd, frame: &Frame, fds: &[BorrowedFd<'_>]) -> Result<(), FrameError> {
    let bytes = frame.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut sent = 0;
    while sent < bytes.len() {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if sent == 0 && !fds.is_empty() {
            assert!(
                control.push(SendAncillaryMessage::ScmRights(fds)),
                "within MAX_FDS"
            );
        }
        sent += rustix::io::retry_on_intr(|| {
            sendmsg(
                &socket,
                &[IoSlice::new(&bytes[sent..])],
                &mut control,
                SendFlags::NOSIGNAL,
            )
        })
        .map_err(std::io::Error::from)?;
    }
    Ok(())
}

/// Receives a frame and the descriptors that came with it; `None` when the other side closed
/// between two frames.
pub fn receive(socket: impl AsFd) -> Result<Option<(Frame, Vec<OwnedFd>)>, FrameError> {
    let mut fds = Vec::new();
    let mut header = [0u8; HEADER];
    if !fill(&socket, &mut header, &mut fds)? {
        return Ok(None);
    }
    let (channel, length) = parse_header(header)?;
    let mut payload = vec![0; length];
    if length > 0 && !fill(&socket, &mut payload, &mut fds)? {
        return Err(FrameError::Closed);
    }
    Ok(Some((Frame { channel, payload }, fds)))
}

/// False when the other side had closed before the first byte.
fn fill(socket: &impl AsFd, buffer: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<bool, FrameError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut filled = 0;
    while filled < buffer.len() {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(
                socket,
                &mut [IoSliceMut::new(&mut buffer[filled..])],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })
        .map_err(std::io::Error::from)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                fds.extend(passed);
            }
        }
        match received.bytes {
            0 if filled == 0 => return Ok(false),
            0 => return Err(FrameError::Closed),
            read => filled += read,
        }
    }
    Ok(true)
}
