//! Commands and files: what PID 1 does for us, each on a connection of its own.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wire::frame::{read_frame, write_frame};
use wire::guest::{self, Exec, Exited, Input, WindowSize};
use wire::workplace::{MAX_MESSAGE, Order, Reply, Request};
use wire::{Channel, Frame, FrameError, MAX_DATA};

/// Our end of the conversation with PID 1.
#[derive(Debug)]
pub struct Hands {
    runner: OwnedFd,
}

#[derive(Debug, thiserror::Error)]
pub enum HandsError {
    #[error("PID 1 cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("the conversation with PID 1 broke off")]
    Broken(#[from] FrameError),
    #[error("PID 1 gave an answer to another question")]
    Confused,
    /// What was asked for cannot be done.
    #[error("{}", .0.message)]
    Failed(guest::Failed),
    #[error("the door {door} is closed: {reason}")]
    Closed { door: String, reason: String },
}

impl Hands {
    /// Takes the conversation that we were started with, and the order on it.
    pub fn take(runner: OwnedFd) -> Result<(Self, Order), HandsError> {
        let (order, _) = receive(runner.as_fd()).map_err(HandsError::Unreachable)?;
        Ok((Self { runner }, order))
    }

    /// The same conversation, for somebody who owns it too.
    pub fn again(&self) -> Result<Self, HandsError> {
        let runner = self.runner.try_clone().map_err(HandsError::Unreachable)?;
        Ok(Self { runner })
    }

    /// Starts a command. Dropping what comes back kills it and everything it started, unless it is
    /// detached.
    pub async fn exec(&self, exec: Exec) -> Result<Running, HandsError> {
        self.start(&guest::Request::Exec(exec)).await
    }

    /// As [`Hands::exec`]; what the command leaves behind is ended with it.
    pub async fn exec_whole(&self, exec: Exec) -> Result<Running, HandsError> {
        self.start(&guest::Request::Whole(exec)).await
    }

    async fn start(&self, request: &guest::Request) -> Result<Running, HandsError> {
        let mut connection = self.operate()?;
        let frame = Frame::control(request);
        write_frame(&mut connection, Channel::Control, &frame.payload).await?;
        let pid = match reply(&mut connection).await? {
            guest::Reply::Started { pid } => pid,
            guest::Reply::Failed(failed) => return Err(HandsError::Failed(failed)),
            _ => return Err(HandsError::Confused),
        };
        let (output, input) = connection.into_split();
        Ok(Running {
            pid,
            output: Output(output),
            input: Writer(input),
        })
    }

    /// A connection on which PID 1 takes one request of [`wire::guest`].
    pub fn operate(&self) -> Result<UnixStream, HandsError> {
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(HandsError::Unreachable)?;
        ours.set_nonblocking(true)
            .map_err(HandsError::Unreachable)?;
        send(self.runner.as_fd(), &Request::Operate, Some(theirs.as_fd()))
            .map_err(HandsError::Unreachable)?;
        UnixStream::from_std(ours).map_err(HandsError::Unreachable)
    }

    /// A connection to whoever serves a door. Doors open to PID 1 alone, so it connects for us, at
    /// once or not at all.
    pub fn knock(&self, door: &str) -> Result<UnixStream, HandsError> {
        let request = Request::Knock {
            door: door.to_owned(),
        };
        send(self.runner.as_fd(), &request, None).map_err(HandsError::Unreachable)?;
        match receive(self.runner.as_fd()).map_err(HandsError::Unreachable)? {
            (Reply::Door, Some(connection)) => {
                let connection = std::os::unix::net::UnixStream::from(connection);
                connection
                    .set_nonblocking(true)
                    .and_then(|()| UnixStream::from_std(connection))
                    .map_err(HandsError::Unreachable)
            }
            (Reply::Closed { reason }, None) => Err(HandsError::Closed {
                door: door.to_owned(),
                reason,
            }),
            _ => Err(HandsError::Confused),
        }
    }
}

/// A command under way.
#[derive(Debug)]
pub struct Running {
    /// Inside the sandbox.
    pub pid: i32,
    pub output: Output,
    pub input: Writer,
}

#[derive(Debug)]
pub struct Output(OwnedReadHalf);

#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// Nothing follows.
    Exited(Exited),
}

impl Output {
    /// Not cancel-safe: give it a task of its own, or drop the command with it.
    pub async fn next(&mut self) -> Result<Said, HandsError> {
        let frame = read_frame(&mut self.0).await?.ok_or(FrameError::Closed)?;
        match frame.channel {
            Channel::Stdout => Ok(Said::Stdout(frame.payload)),
            Channel::Stderr => Ok(Said::Stderr(frame.payload)),
            Channel::Control => match frame.message()? {
                guest::Reply::Exited(exited) => Ok(Said::Exited(exited)),
                guest::Reply::Failed(failed) => Err(HandsError::Failed(failed)),
                _ => Err(HandsError::Confused),
            },
            Channel::Stdin | Channel::Data => Err(HandsError::Confused),
        }
    }
}

#[derive(Debug)]
pub struct Writer(OwnedWriteHalf);

impl Writer {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), HandsError> {
        for piece in bytes.chunks(MAX_DATA) {
            write_frame(&mut self.0, Channel::Stdin, piece).await?;
        }
        Ok(())
    }

    pub async fn end(&mut self) -> Result<(), HandsError> {
        Ok(write_frame(&mut self.0, Channel::Stdin, &[]).await?)
    }

    pub async fn resize(&mut self, size: WindowSize) -> Result<(), HandsError> {
        self.say(&Input::Resize(size)).await
    }

    /// To the command's process group.
    pub async fn signal(&mut self, number: i32) -> Result<(), HandsError> {
        self.say(&Input::Signal(number)).await
    }

    async fn say(&mut self, input: &Input) -> Result<(), HandsError> {
        let frame = Frame::control(input);
        Ok(write_frame(&mut self.0, Channel::Control, &frame.payload).await?)
    }
}

async fn reply(connection: &mut UnixStream) -> Result<guest::Reply, HandsError> {
    let frame = read_frame(connection).await?.ok_or(FrameError::Closed)?;
    Ok(frame.message()?)
}

fn send(
    to: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).expect("our own types serialise");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let pieces = [IoSlice::new(&bytes)];
    rustix::io::retry_on_intr(|| sendmsg(to, &pieces, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn receive<T: DeserializeOwned>(from: BorrowedFd<'_>) -> io::Result<(T, Option<OwnedFd>)> {
    let mut bytes = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(
            from,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
        _ => None,
    });
    let message = serde_json::from_slice(&bytes[..received.bytes])?;
    Ok((message, descriptor))
}
