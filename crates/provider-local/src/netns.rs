//! Network namespaces: loopback alone, made ahead of need, used once.
//!
//! They belong to the initial user namespace, so that nobody inside may configure them. A namespace
//! lives as long as a descriptor or a process keeps it; nothing is mounted anywhere.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys;

/// Enough for a burst; each holds some kernel memory and is refilled in the background.
const READY: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct Pool {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<OwnedFd>,
    /// A maker thread runs only while there is something to make.
    making: bool,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
        }
    }

    /// A prepared one if there is, else a new one; and sees to it that more are made.
    pub(crate) fn take(&self) -> io::Result<OwnedFd> {
        let taken = self.lock().ready.pop_front();
        match taken {
            Some(namespace) => {
                self.refill();
                Ok(namespace)
            }
            None => std::thread::scope(|scope| {
                scope
                    .spawn(make)
                    .join()
                    .map_err(|_| io::Error::other("panicked"))?
            }),
        }
    }

    /// Starts to fill the pool; a long-lived process does this once at its start.
    pub(crate) fn refill(&self) {
        let mut state = self.lock();
        if state.making || state.ready.len() >= READY {
            return;
        }
        state.making = true;
        let shared = Arc::clone(&self.shared);
        // The thread leaves our network namespace for good, so it is one of its own.
        let spawned = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn(move || fill(&shared));
        if spawned.is_err() {
            state.making = false;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.lock().expect("no holder of this lock panics")
    }
}

fn fill(shared: &Mutex<State>) {
    // Whoever took the last one is still starting a sandbox with it, and comes first.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 15);
    loop {
        let made = make();
        let mut state = shared.lock().expect("no holder of this lock panics");
        if let Ok(namespace) = made {
            state.ready.push_back(namespace);
            if state.ready.len() < READY {
                continue;
            }
        }
        state.making = false;
        return;
    }
}

/// Moves this thread into a new network namespace and gives a descriptor of it.
fn make() -> io::Result<OwnedFd> {
    sys::unshare_network()?;
    let namespace = open(
        "/proc/thread-self/ns/net",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    sys::bring_loopback_up()?;
    let ports = open(
        "/proc/sys/net/ipv4/ip_unprivileged_port_start",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    rustix::io::write(ports, b"0")?;
    Ok(namespace)
}

/// A process's network namespace.
pub(crate) fn of(pid: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/{pid}/ns/net");
    Ok(open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// A TCP socket that belongs to a network namespace, connected to its loopback: programs that
/// listen on `localhost` do so on either of its addresses.
///
/// A socket keeps the namespace it was made in, whichever thread uses it later.
pub(crate) fn dial(namespace: OwnedFd, port: u16) -> io::Result<std::net::TcpStream> {
    let inside = move || -> io::Result<OwnedFd> {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        match connect((Ipv4Addr::LOCALHOST, port).into()) {
            // Where there is no IPv6, nobody listens on it.
            Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
                connect((Ipv6Addr::LOCALHOST, port).into()).map_err(|_| refused)
            }
            connected => connected,
        }
    };
    let socket = std::thread::scope(|scope| {
        scope
            .spawn(inside)
            .join()
            .map_err(|_| io::Error::other("the thread that enters the namespace panicked"))?
    })?;
    let stream = std::net::TcpStream::from(socket);
    stream.set_write_timeout(None)?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn connect(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Loopback answers at once, yes or no; a full backlog is the exception.
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Send,
        Some(std::time::Duration::from_secs(2)),
    )?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}
