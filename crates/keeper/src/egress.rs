//! The proxy beside a sandbox with a way out: `nacre-egress`, a child of ours.
//!
//! We make its sockets and keep them, so that nobody inside can take their place while it is
//! started again. It ends with us, because its standard input does.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use wire::Frame;
use wire::keeper::{EGRESS_PORT, Egress, EgressSockets};

/// How soon it is started again after it died, and how late at most.
const FIRST_DELAY: Duration = Duration::from_millis(50);
const LAST_DELAY: Duration = Duration::from_secs(5);
/// One that lived this long died of something new.
const HEALTHY: Duration = Duration::from_secs(30);
/// The proxy of a killed keeper needs a moment to let go of the port.
const TAKEOVER: Duration = Duration::from_secs(1);

pub(crate) struct Proxy {
    order: Egress,
    door: Option<OwnedFd>,
    port: Option<TcpListener>,
    running: Option<Running>,
    start_at: Instant,
    delay: Duration,
}

struct Running {
    child: Child,
    /// Its end tells of the child's.
    lifeline: OwnedFd,
    since: Instant,
}

/// Binds the port, in the network namespace that the caller has entered.
pub(crate) fn listen() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, EGRESS_PORT))
}

/// Binds it after the last keeper was killed. Something inside that was quicker keeps it; the door
/// is left then.
pub(crate) fn listen_again() -> Option<TcpListener> {
    let deadline = Instant::now() + TAKEOVER;
    loop {
        match listen() {
            Ok(listener) => return Some(listener),
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => return None,
        }
    }
}

impl Proxy {
    pub(crate) fn new(order: Egress, door: Option<OwnedFd>, port: Option<TcpListener>) -> Self {
        Self {
            order,
            door,
            port,
            running: None,
            start_at: Instant::now(),
            delay: FIRST_DELAY,
        }
    }

    pub(crate) fn poll_for<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(running) = &self.running {
            fds.push(PollFd::from_borrowed_fd(
                running.lifeline.as_fd(),
                PollFlags::IN,
            ));
        }
    }

    /// How long until something is to be done.
    pub(crate) fn until_next(&self) -> Option<Duration> {
        match self.running {
            Some(_) => None,
            None => Some(self.start_at.saturating_duration_since(Instant::now())),
        }
    }

    /// Notices its end, and starts it when it is time.
    pub(crate) fn mind(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if let Some(running) = &mut self.running {
            if !matches!(running.child.try_wait(), Ok(None)) {
                self.delay = if now.duration_since(running.since) > HEALTHY {
                    FIRST_DELAY
                } else {
                    (self.delay * 2).min(LAST_DELAY)
                };
                self.start_at = now + self.delay;
                self.running = None;
            }
            return Ok(());
        }
        if now < self.start_at {
            return Ok(());
        }
        // Before the attempt: one that fails must not be made again at once.
        self.delay = (self.delay * 2).min(LAST_DELAY);
        self.start_at = now + self.delay;
        self.running = Some(self.start()?);
        Ok(())
    }

    fn start(&self) -> io::Result<Running> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut command = Command::new(&self.order.program);
        command
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        // It holds the child's end of the pair, which would then never close.
        drop(command);
        let sockets = EgressSockets {
            door: self.door.is_some(),
            port: self.port.is_some(),
        };
        let fds: Vec<BorrowedFd<'_>> = self
            .door
            .iter()
            .map(|door| door.as_fd())
            .chain(self.port.iter().map(|port| port.as_fd()))
            .collect();
        let frame = Frame::control(&(&self.order.order, sockets));
        if let Err(error) = wire::pass::send(&ours, &frame, &fds) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(io::Error::other(error));
        }
        Ok(Running {
            child,
            lifeline: ours,
            since: Instant::now(),
        })
    }
}

/// A connection that it has not read from yet may hold a file of the sandbox in flight, and with it
/// the disk; so it is gone when this is.
impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
