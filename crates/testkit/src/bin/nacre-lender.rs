//! Stands in for the workplace: hands the conversation that PID 1 started it with to the test that
//! listens where the order's session says, and waits.

#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use wire::workplace::{MAX_MESSAGE, Order};

fn main() -> io::Result<()> {
    let conversation = rustix::stdio::stdin();
    let mut order = vec![0; MAX_MESSAGE];
    let received = recvmsg(
        conversation,
        &mut [IoSliceMut::new(&mut order)],
        &mut RecvAncillaryBuffer::default(),
        // The borrower takes it again.
        RecvFlags::PEEK,
    )?;
    let order: Order = serde_json::from_slice(&order[..received.bytes])?;
    let borrower = UnixStream::connect(order.session.unwrap_or_default())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [conversation];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(
        &borrower,
        &[IoSlice::new(b"x")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    // Until PID 1 is gone. What it says is the borrower's to hear.
    let mut watched = [PollFd::new(&conversation, PollFlags::empty())];
    while matches!(poll(&mut watched, None), Err(Errno::INTR)) {}
    Ok(())
}
