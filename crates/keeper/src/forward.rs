//! Ports on the sandbox's loopback that lead to addresses of the host.
//!
//! The listeners were made inside the sandbox's network namespace; what they accept is carried,
//! byte for byte, to a connection of the host's.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, connect, shutdown, socket_with,
};
use wire::keeper::Forward;

/// Each holds at most two buffers, so a keeper stays small whatever the sandbox does.
const MAX_PAIRS: usize = 128;
const BUFFER: usize = 8 << 10;
const PIECES_A_TURN: usize = 8;

#[derive(Default)]
pub(crate) struct Forwards {
    listeners: Vec<(TcpListener, SocketAddr)>,
    pairs: Vec<Pair>,
}

struct Pair {
    inside: OwnedFd,
    host: OwnedFd,
    out: Flow,
    back: Flow,
}

/// Bytes on their way in one direction.
#[derive(Default)]
struct Flow {
    bytes: Vec<u8>,
    ended: bool,
    closed: bool,
}

/// Binds every port, in the network namespace that the caller has entered.
pub(crate) fn listen(forwards: &[Forward]) -> io::Result<Forwards> {
    let mut listeners = Vec::with_capacity(forwards.len());
    for forward in forwards {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, forward.port))?;
        listener.set_nonblocking(true)?;
        listeners.push((listener, forward.to));
    }
    Ok(Forwards {
        listeners,
        pairs: Vec::new(),
    })
}

impl Forwards {
    pub(crate) fn poll_for<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if self.pairs.len() < MAX_PAIRS {
            fds.extend(
                self.listeners
                    .iter()
                    .map(|(l, _)| PollFd::from_borrowed_fd(l.as_fd(), PollFlags::IN)),
            );
        }
        for pair in &self.pairs {
            for (fd, incoming, outgoing) in [
                (&pair.inside, &pair.out, &pair.back),
                (&pair.host, &pair.back, &pair.out),
            ] {
                let mut wanted = PollFlags::empty();
                wanted.set(PollFlags::IN, !incoming.ended && incoming.bytes.is_empty());
                wanted.set(PollFlags::OUT, !outgoing.bytes.is_empty());
                // Without a wish a hung-up socket would still wake us, for nothing.
                if !wanted.is_empty() {
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), wanted));
                }
            }
        }
    }

    /// Moves what can be moved without waiting.
    pub(crate) fn carry(&mut self) {
        for (listener, to) in &self.listeners {
            while self.pairs.len() < MAX_PAIRS
                && let Ok((inside, _)) = listener.accept()
            {
                let connected = inside.set_nonblocking(true).and_then(|()| dial(*to));
                if let Ok(host) = connected {
                    let pair = Pair {
                        inside: inside.into(),
                        host,
                        out: Flow::default(),
                        back: Flow::default(),
                    };
                    self.pairs.push(pair);
                }
            }
        }
        self.pairs.retain_mut(|pair| {
            pair.out.carry(&pair.inside, &pair.host).is_ok()
                && pair.back.carry(&pair.host, &pair.inside).is_ok()
                && !(pair.out.closed && pair.back.closed)
        });
    }
}

fn dial(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

impl Flow {
    fn carry(&mut self, from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
        // Only so much at a time: others wait, the sandbox's end among them.
        for _ in 0..PIECES_A_TURN {
            if self.bytes.is_empty() && !self.ended {
                let mut buffer = [0u8; BUFFER];
                match rustix::io::read(from, &mut buffer) {
                    Ok(0) => self.ended = true,
                    Ok(length) => self.bytes = buffer[..length].to_vec(),
                    // A connection still being made answers so.
                    Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if self.bytes.is_empty() {
                if self.ended && !self.closed {
                    self.closed = true;
                    // The other side may be gone already.
                    let _ = shutdown(to, Shutdown::Write);
                }
                return Ok(());
            }
            match rustix::net::send(to, &self.bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.bytes.drain(..sent);
                }
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
