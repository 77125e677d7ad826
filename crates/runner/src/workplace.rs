//! The workplace: a program of ours beside us, for everything that talks to people, agents and the
//! hub. It may be large, busy and attacked; when it dies it is started again, and the sandbox lives.
//! It runs nothing by itself: what it wants run, it asks us for, as the host does.

use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Connection;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::WaitStatus;
use serde::Serialize;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use wire::guest::{DOORS, Failed};
use wire::keeper::is_door_name;
use wire::workplace::{MAX_MESSAGE, Order, Reply, Request};

use crate::command::{Command, Cwd, UnderPressure};
use crate::failure::cannot;
use crate::group::Group;
use crate::identity::Identity;
use crate::serve::Runner;
use crate::spawn::{self, REPORT};
use crate::stdio::Ends;
use crate::stream::Stream;
use crate::users;

/// How soon it is started again after it died, and how late at most.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LAST_DELAY: Duration = Duration::from_secs(10);
/// One that lived this long died of something new.
const HEALTHY: Duration = Duration::from_secs(30);

/// Keeps a workplace running for as long as the sandbox lives. `connections` takes those on which
/// it speaks the host's protocol.
pub(crate) async fn keep(
    runner: Rc<Runner>,
    order: Order,
    program: OwnedFd,
    connections: mpsc::Sender<UnixStream>,
) {
    let mut delay = FIRST_DELAY;
    loop {
        let since = Instant::now();
        if let Ok(workplace) = start(&runner, &order, &program).await {
            workplace.accompany(&connections).await;
        }
        if since.elapsed() >= HEALTHY {
            delay = FIRST_DELAY;
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LAST_DELAY);
    }
}

struct Workplace {
    conversation: Stream,
    exit: oneshot::Receiver<WaitStatus>,
    /// Dropped last: it ends what is left of it.
    _group: Group,
}

async fn start(runner: &Runner, order: &Order, program: &OwnedFd) -> Result<Workplace, Failed> {
    let user = users::find(None)?;
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| cannot("talk to the workplace", errno))?;
    let group = runner.groups.make()?;
    let mut env = vec![CString::from(
        c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )];
    env.extend(group.mark().cloned());
    let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let command = Command {
        argv: vec![CString::from(c"nacre-workplace")],
        env,
        candidates: path.into_iter().collect(),
        cwd: Cwd::Asked(CString::from(c"/")),
        under_pressure: UnderPressure::StaysWithUs,
    };
    let ends = Ends::Served {
        conversation: theirs,
        null: runner.null.as_fd(),
    };
    let identity = Identity::new(&user);
    let started = spawn::command(&command, &identity, &ends, runner.descriptors, &group);
    let (pid, reports) = started.map_err(|errno| cannot("start the workplace", errno))?;
    let exit = runner.reaper.expect(pid);
    drop(ends);
    let broken = |error: std::io::Error| {
        cannot(
            "watch the workplace",
            Errno::from_io_error(&error).unwrap_or(Errno::IO),
        )
    };
    let reports = Stream::reader(reports).map_err(broken)?;
    let mut report = [0; REPORT];
    if let Ok(REPORT) = reports.read(&mut report).await
        && let Some((_, errno)) = spawn::parse_report(report)
    {
        return Err(cannot("start the workplace", errno));
    }
    let workplace = Workplace {
        conversation: Stream::both(ours).map_err(broken)?,
        exit,
        _group: group,
    };
    workplace.send(order, None).map_err(broken)?;
    Ok(workplace)
}

impl Workplace {
    /// Until it ends, or talks nonsense.
    async fn accompany(self, connections: &mpsc::Sender<UnixStream>) {
        let Self {
            conversation,
            mut exit,
            _group: group,
        } = self;
        let this = Conversation(&conversation);
        loop {
            let received = tokio::select! {
                _ = &mut exit => return,
                received = this.receive() => received,
            };
            let Some((request, descriptor)) = received else {
                break;
            };
            let went_well = match (request, descriptor) {
                (Request::Operate, Some(connection)) => {
                    operate(connection, connections).await.is_some()
                }
                (Request::Knock { door }, None) => this.knock(&door).await.is_ok(),
                _ => false,
            };
            if !went_well {
                break;
            }
        }
        group.kill();
        let _ = exit.await;
    }

    fn send(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> std::io::Result<()> {
        Conversation(&self.conversation).send(message, descriptor)
    }
}

async fn operate(connection: OwnedFd, connections: &mpsc::Sender<UnixStream>) -> Option<()> {
    let connection = Connection::from(connection);
    connection.set_nonblocking(true).ok()?;
    let connection = UnixStream::from_std(connection).ok()?;
    connections.send(connection).await.ok()
}

struct Conversation<'a>(&'a Stream);

impl Conversation<'_> {
    /// It asks for one thing at a time, so its end of the pair always has room.
    fn send(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> std::io::Result<()> {
        let bytes = serde_json::to_vec(message).expect("our own types serialise");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let pieces = [IoSlice::new(&bytes)];
        sendmsg(self.0.fd(), &pieces, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// `None` at its end, and for what makes no sense.
    async fn receive(&self) -> Option<(Request, Option<OwnedFd>)> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let received = self.0.receive(|socket| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut pieces = [IoSliceMut::new(&mut bytes)];
            let received = recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let descriptor = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
                _ => None,
            });
            Ok((received.bytes, descriptor))
        });
        let (length, descriptor) = received.await.ok()?;
        let request = serde_json::from_slice(bytes.get(..length)?).ok()?;
        Some((request, descriptor))
    }

    async fn knock(&self, door: &str) -> std::io::Result<()> {
        let opened = if is_door_name(door) {
            UnixStream::connect(format!("{DOORS}/{door}")).await
        } else {
            Err(std::io::Error::other("that is no name of a door"))
        };
        match opened {
            Ok(connection) => self.send(&Reply::Door, Some(connection.as_fd())),
            Err(error) => {
                let reason = error.to_string();
                self.send(&Reply::Closed { reason }, None)
            }
        }
    }
}
