//! The keeper's loop: answers requests, carries forwards, minds the sandbox.
//!
//! ```text
//!            Freeze                     Keep
//!  Running ─────────► Held(connection) ─────► Paused ── to_disk_after, or memory scarce ──► ended
//!     ▲  ▲                 │                    │
//!     │  └─ its end, Thaw ─┘                    │
//!     └──────────────── Thaw ──────────────────┘      over the disk limit: Running ─► Paused
//! ```

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use wire::Frame;
use wire::keeper::{EGRESS_DOOR, Reply, Request, Runtime};

use crate::cgroup;
use crate::egress::Proxy;
use crate::forward::Forwards;
use crate::memory::Watch;
use crate::sandbox::{Handle, socket_in};

/// Whoever talks to a keeper is a nacre process with one or two things to say.
const MAX_CONNECTIONS: usize = 32;
const MAX_DOORS: usize = 32;
/// A nacre process that stops in the middle of a frame must not stop the keeper.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a paused sandbox looks whether the machine is short of memory.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(15);
/// Below this part of the machine's memory available, paused sandboxes go to disk.
const SCARCE_PERCENT: u64 = 5;
const DISK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Held { by: u64 },
    Paused { since: Instant },
}

pub(crate) struct Serving {
    handle: Handle,
    listener: UnixListener,
    connections: BTreeMap<u64, UnixStream>,
    next_connection: u64,
    /// The directory behind `/run/nacre`, to be written to.
    place_of_doors: OwnedFd,
    doors: BTreeMap<String, OwnedFd>,
    forwards: Forwards,
    proxy: Option<Proxy>,
    state: State,
    next_disk_check: Instant,
    memory: Option<Watch>,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Ended,
}

impl Serving {
    pub(crate) fn new(
        handle: Handle,
        listener: UnixListener,
        place_of_doors: OwnedFd,
        forwards: Forwards,
        paused: bool,
    ) -> Self {
        let state = if paused {
            State::Paused {
                since: Instant::now(),
            }
        } else {
            State::Running
        };
        // Under gVisor all memory is that of one process, and with it the sandbox would end.
        let is_native = handle.order.runtime == Runtime::Native;
        let memory = is_native.then(|| Watch::new(&handle.order.cgroups));
        Self {
            handle,
            listener,
            connections: BTreeMap::new(),
            next_connection: 0,
            place_of_doors,
            doors: BTreeMap::new(),
            forwards,
            proxy: None,
            state,
            next_disk_check: Instant::now() + DISK_INTERVAL,
            memory: memory.flatten(),
        }
    }

    /// Opens the way out, if the sandbox has one, at its door and at the port that was bound for it.
    pub(crate) fn open_egress(&mut self, port: Option<TcpListener>) -> std::io::Result<()> {
        if let Some(order) = self.handle.order.egress.clone() {
            let door = socket_in(&self.place_of_doors, EGRESS_DOOR, 0o666)?;
            self.proxy = Some(Proxy::new(order, Some(door.into()), port));
        }
        Ok(())
    }

    /// The doors that the previous keeper held: their sockets are still in the directory.
    pub(crate) fn reopen_doors(&mut self) {
        let place = format!("/proc/self/fd/{}", self.place_of_doors.as_raw_fd());
        let Ok(entries) = fs_err::read_dir(&place) else {
            return;
        };
        let names: Vec<String> = entries
            .flatten()
            .filter(|entry| {
                entry
                    .file_type()
                    .is_ok_and(|t| std::os::unix::fs::FileTypeExt::is_socket(&t))
            })
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        let is_other = |name: &String| self.proxy.is_none() || name != EGRESS_DOOR;
        let names: Vec<String> = names.into_iter().filter(is_other).collect();
        for name in names.into_iter().take(MAX_DOORS) {
            // A gateway that serves it still holds the listener; then it stays as it is.
            if UnixStream::connect(format!("{place}/{name}")).is_err() {
                let _ = self.open_door(&name);
            }
        }
    }

    /// Ends a sandbox that nobody knows of.
    pub(crate) fn abandon(mut self) {
        self.let_go();
        let _ = self.handle.end(None);
    }

    /// Runs until the sandbox has ended.
    pub(crate) fn run(mut self) {
        loop {
            match self.turn() {
                Ok(Next::Continue) => {}
                Ok(Next::Ended) => return,
                Err(error) => {
                    let _ = self
                        .handle
                        .write("keeper.log", format!("{error}\n").as_bytes());
                    // Without the kernel's help nothing can be minded; the sandbox itself runs on
                    // and the next nacre process gives it a new keeper.
                    return;
                }
            }
        }
    }

    fn turn(&mut self) -> std::io::Result<Next> {
        let timeout = Timespec::try_from(self.until_next_chore()).map_err(std::io::Error::other)?;
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.handle.pidfd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        let order: Vec<u64> = self.connections.keys().copied().collect();
        fds.extend(
            self.connections
                .values()
                .map(|c| PollFd::from_borrowed_fd(c.as_fd(), PollFlags::IN)),
        );
        self.forwards.poll_for(&mut fds);
        if let Some(proxy) = &self.proxy {
            proxy.poll_for(&mut fds);
        }
        let before_memory = fds.len();
        if let Some(memory) = &self.memory {
            memory.poll_for(&mut fds);
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            self.let_go();
            self.handle.buried(None)?;
            return Ok(Next::Ended);
        }
        if ready[1] {
            self.accept();
        }
        for (index, connection) in order.iter().enumerate() {
            if ready[2 + index] && self.hear(*connection) == Next::Ended {
                return Ok(Next::Ended);
            }
        }
        self.forwards.carry();
        self.mind_proxy();
        self.mind_memory(ready.get(before_memory) == Some(&true));
        self.do_chores()
    }

    /// A proxy that cannot be started is no reason to leave the sandbox alone.
    fn mind_proxy(&mut self) {
        if let Some(Err(error)) = self.proxy.as_mut().map(Proxy::mind) {
            let _ = self.handle.write(
                "keeper.log",
                format!("starting the proxy: {error}\n").as_bytes(),
            );
        }
    }

    fn mind_memory(&mut self, rung: bool) {
        let pid = self.handle.pid;
        let minded = self.memory.as_mut().map(|memory| memory.mind(rung, pid));
        if matches!(minded, Some(Err(_))) {
            self.memory = None;
        }
    }

    /// A file in flight, at a door or at the proxy, sent and never received, would keep the disk
    /// mounted.
    fn let_go(&mut self) {
        self.doors.clear();
        self.proxy = None;
    }

    fn until_next_chore(&self) -> Duration {
        let proxy = self.proxy.as_ref().and_then(Proxy::until_next);
        let memory = self.memory.as_ref().and_then(Watch::until_next);
        let own = self.until_next_own_chore();
        [proxy, memory].into_iter().flatten().fold(own, Ord::min)
    }

    fn until_next_own_chore(&self) -> Duration {
        let now = Instant::now();
        match self.state {
            State::Paused { since } => {
                let to_disk = (since + self.to_disk_after()).saturating_duration_since(now);
                to_disk.min(PRESSURE_INTERVAL)
            }
            State::Running if self.handle.order.disk_limit.is_some() => {
                self.next_disk_check.saturating_duration_since(now)
            }
            State::Running | State::Held { .. } => Duration::from_hours(1),
        }
    }

    fn to_disk_after(&self) -> Duration {
        Duration::from_millis(self.handle.order.to_disk_after_ms)
    }

    fn do_chores(&mut self) -> std::io::Result<Next> {
        let now = Instant::now();
        match self.state {
            State::Paused { since }
                if now >= since + self.to_disk_after() || memory_is_scarce() =>
            {
                self.let_go();
                self.handle.end(Some("to_disk"))?;
                Ok(Next::Ended)
            }
            State::Running if now >= self.next_disk_check => {
                self.check_disk();
                Ok(Next::Continue)
            }
            _ => Ok(Next::Continue),
        }
    }

    fn check_disk(&mut self) {
        let Some(limit) = self.handle.order.disk_limit else {
            return;
        };
        let started = Instant::now();
        let named = crate::disk::used(&format!("{}/upper", self.handle.order.disk));
        let used = named.saturating_add(crate::disk::held(&self.handle.order.cgroups.unified));
        // A large tree takes long to measure: at most a fiftieth of the time goes into it.
        self.next_disk_check = Instant::now() + DISK_INTERVAL.max(started.elapsed() * 50);
        if used > limit && cgroup::freeze(&self.handle.order.cgroups).is_ok() {
            self.state = State::Paused {
                since: Instant::now(),
            };
            let _ = self
                .handle
                .write("frozen.json", br#"{"reason":"disk_limit"}"#);
        }
    }

    fn accept(&mut self) {
        let Ok((connection, _)) = self.listener.accept() else {
            return;
        };
        if self.connections.len() >= MAX_CONNECTIONS {
            return;
        }
        let patient = set_socket_timeout(&connection, Timeout::Recv, Some(PATIENCE))
            .and_then(|()| set_socket_timeout(&connection, Timeout::Send, Some(PATIENCE)));
        if patient.is_ok() {
            self.connections.insert(self.next_connection, connection);
            self.next_connection += 1;
        }
    }

    fn hear(&mut self, connection: u64) -> Next {
        let Some(stream) = self.connections.get(&connection) else {
            return Next::Continue;
        };
        let Ok(Some((frame, _))) = wire::pass::receive(stream) else {
            self.hang_up(connection);
            return Next::Continue;
        };
        let (reply, door) = match frame.message::<Request>() {
            Ok(Request::Door { name }) => match self.open_door(&name) {
                Ok(()) => (Reply::Door, self.doors.get(&name)),
                Err(error) => (failed("opening the door", &error), None),
            },
            Ok(request) => (self.answer(connection, &request), None),
            Err(error) => (
                Reply::Failed {
                    stage: "request".to_owned(),
                    message: error.to_string(),
                },
                None,
            ),
        };
        let fds: Vec<_> = door.into_iter().map(|fd| fd.as_fd()).collect();
        let sent = self
            .connections
            .get(&connection)
            .is_some_and(|stream| wire::pass::send(stream, &Frame::control(&reply), &fds).is_ok());
        if matches!(reply, Reply::Ended(_)) {
            return Next::Ended;
        }
        if !sent {
            self.hang_up(connection);
        }
        Next::Continue
    }

    /// A connection that held the sandbox frozen and is gone held it for nothing.
    fn hang_up(&mut self, connection: u64) {
        self.connections.remove(&connection);
        if self.state == (State::Held { by: connection })
            && cgroup::thaw(&self.handle.order.cgroups).is_ok()
        {
            self.state = State::Running;
        }
    }

    fn answer(&mut self, connection: u64, request: &Request) -> Reply {
        let cgroups = &self.handle.order.cgroups;
        match request {
            Request::Hello => Reply::Done,
            Request::Freeze => match self.state {
                State::Held { by } if by != connection => Reply::Failed {
                    stage: "freezing".to_owned(),
                    message: "another nacre process is taking a snapshot".to_owned(),
                },
                State::Held { .. } | State::Paused { .. } => Reply::Frozen { took_us: 0 },
                State::Running => match cgroup::freeze(cgroups) {
                    Ok(took) => {
                        self.state = State::Held { by: connection };
                        Reply::Frozen {
                            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                        }
                    }
                    Err(error) => failed("freezing", &error),
                },
            },
            Request::Keep => {
                if self.state == (State::Held { by: connection }) {
                    self.state = State::Paused {
                        since: Instant::now(),
                    };
                }
                Reply::Done
            }
            Request::Thaw => match cgroup::thaw(cgroups) {
                Ok(()) => {
                    self.state = State::Running;
                    self.next_disk_check = Instant::now() + DISK_INTERVAL;
                    let _ = fs_err::remove_file(format!("{}/frozen.json", self.handle.order.dir));
                    Reply::Done
                }
                Err(error) => failed("thawing", &error),
            },
            Request::End => {
                self.let_go();
                match self.handle.end(Some("terminated")) {
                    Ok(ended) => Reply::Ended(ended),
                    Err(error) => failed("ending", &error),
                }
            }
            Request::Door { .. } => unreachable!("answered with its descriptor by the caller"),
        }
    }

    fn open_door(&mut self, name: &str) -> std::io::Result<()> {
        if self.doors.contains_key(name) {
            return Ok(());
        }
        if self.doors.len() >= MAX_DOORS {
            return Err(std::io::Error::other("too many doors"));
        }
        if self.proxy.is_some() && name == EGRESS_DOOR {
            return Err(std::io::Error::other("the sandbox's way out is behind it"));
        }
        if !wire::keeper::is_door_name(name) {
            return Err(std::io::Error::other("that is no name for a door"));
        }
        // Everyone inside may knock; whoever answers checks who it is.
        let door = socket_in(&self.place_of_doors, name, 0o666)?;
        self.doors.insert(name.to_owned(), door.into());
        Ok(())
    }
}

fn failed(stage: &str, error: &std::io::Error) -> Reply {
    Reply::Failed {
        stage: stage.to_owned(),
        message: error.to_string(),
    }
}

fn memory_is_scarce() -> bool {
    let Ok(text) = fs_err::read_to_string("/proc/meminfo") else {
        return false;
    };
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
    };
    match (value("MemAvailable:"), value("MemTotal:")) {
        (Some(available), Some(total)) => available * 100 < total * SCARCE_PERCENT,
        _ => false,
    }
}
