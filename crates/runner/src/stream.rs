//! A pipe or terminal of a command, our end.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{ioctl_fionbio, ioctl_fionread};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(crate) struct Stream(AsyncFd<OwnedFd>);

impl Stream {
    pub(crate) fn reader(fd: OwnedFd) -> io::Result<Self> {
        Self::new(fd, Interest::READABLE)
    }

    pub(crate) fn writer(fd: OwnedFd) -> io::Result<Self> {
        Self::new(fd, Interest::WRITABLE)
    }

    pub(crate) fn both(fd: OwnedFd) -> io::Result<Self> {
        Self::new(fd, Interest::READABLE | Interest::WRITABLE)
    }

    #[expect(unsafe_code, reason = "tokio wants a promise about the descriptor")]
    fn new(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        ioctl_fionbio(&fd, true)?;
        // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped, and we never
        // hand it out to be replaced.
        let registered = unsafe { AsyncFd::register_with_interest(fd, interest) };
        Ok(Self(registered?))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        self.0.get_ref()
    }

    pub(crate) async fn readable(&self) {
        // An error here would come back from the read that follows.
        let _ = self
            .0
            .readable()
            .await
            .map(|mut guard| guard.retain_ready());
    }

    /// `WouldBlock` when there is nothing now.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |fd| {
            Ok(rustix::io::read(fd, &mut *buffer)?)
        })
    }

    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0
            .async_io(Interest::READABLE, |fd| {
                Ok(rustix::io::read(fd, &mut *buffer)?)
            })
            .await
    }

    /// Whatever `receive` gets out of the descriptor once there is something.
    pub(crate) async fn receive<T>(
        &self,
        mut receive: impl FnMut(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<T> {
        self.0.async_io(Interest::READABLE, &mut receive).await
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self
                .0
                .async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, bytes)?))
                .await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    pub(crate) fn backlog(&self) -> u64 {
        ioctl_fionread(self.fd()).unwrap_or(0)
    }
}
