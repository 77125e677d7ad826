//! Our side of the keeper.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use camino::Utf8Path;
use provider::{BoxError, ProviderError, SandboxId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{PidfdFlags, pidfd_open};
use wire::Frame;
use wire::keeper::{Ended, Launched, Reply, Request, Start};

use crate::error::{self, Doing as _};

/// How long a living keeper may take to answer: longer than anything else that it does.
const ANSWERING: Duration = Duration::from_secs(45);
/// How long a keeper that does not answer may take to be gone.
const DYING: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Keepers that this process started: they outlive it, but while it lives it must collect them.
#[derive(Debug, Default)]
pub(crate) struct Children(Mutex<HashMap<SandboxId, Child>>);

/// A keeper that waits for its order. Dropped without one, it ends.
#[derive(Debug)]
pub(crate) struct Waiting {
    child: Child,
    socket: OwnedFd,
}

impl Children {
    /// Starts a keeper; it gets going while we prepare what it will be ordered to do.
    pub(crate) fn spawn(&self, program: &Utf8Path) -> Result<Waiting, ProviderError> {
        self.collect();
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .doing("starting the keeper")?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        pass_fail_point(&mut command);
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ProviderError::refused(format!(
                "{program} cannot be executed: is the home's file system mounted noexec? Mount it without, or set NACRE_HOME to another"
            )),
            _ => ProviderError::unavailable("starting the keeper", error),
        })?;
        // The command still holds the keeper's end of the pair: with it open we would never see
        // the keeper die.
        drop(command);
        Ok(Waiting {
            child,
            socket: ours,
        })
    }

    /// Waits until the sandbox is up, or is not going to be.
    pub(crate) fn order(
        &self,
        waiting: Waiting,
        id: SandboxId,
        start: &Start,
        network: Option<OwnedFd>,
    ) -> Result<Launched, ProviderError> {
        let Waiting { mut child, socket } = waiting;
        let fds: Vec<_> = network.iter().map(|fd| fd.as_fd()).collect();
        let reply = exchange(&socket, &Frame::control(start), &fds)
            .map_err(|error| ProviderError::unavailable("starting the keeper", error));
        drop(network);
        let launched = match reply.and_then(|(frame, _)| understand(&frame)) {
            Ok(Reply::Launched(launched)) => Ok(launched),
            Ok(_) => Err(ProviderError::unavailable(
                "starting the keeper",
                "it gave an answer to another question",
            )),
            Err(error) => Err(error),
        };
        if launched.is_err() {
            drop(socket);
            let _ = child.wait();
        } else {
            self.lock().insert(id, child);
        }
        launched
    }

    /// Ends a keeper that is not needed after all.
    pub(crate) fn dismiss(waiting: Waiting) {
        let Waiting { mut child, socket } = waiting;
        drop(socket);
        let _ = child.wait();
    }

    /// Waits for the keeper of a sandbox that has ended, if it is our child.
    pub(crate) fn join(&self, id: SandboxId) {
        let child = self.lock().remove(&id);
        if let Some(mut child) = child {
            let _ = child.wait();
        }
    }

    /// Keepers that ended by themselves.
    fn collect(&self) {
        self.lock()
            .retain(|_, child| !matches!(child.try_wait(), Ok(Some(_))));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SandboxId, Child>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

/// A keeper starts with no environment, but a test may want it to die somewhere.
#[expect(
    clippy::disallowed_methods,
    reason = "a test's switch, absent from release builds"
)]
fn pass_fail_point(command: &mut Command) {
    if cfg!(debug_assertions)
        && let Some(value) = std::env::var_os("NACRE_FAILPOINT")
    {
        command.env("NACRE_FAILPOINT", value);
    }
}

fn exchange(
    socket: impl AsFd,
    question: &Frame,
    fds: &[BorrowedFd<'_>],
) -> Result<(Frame, Vec<OwnedFd>), BoxError> {
    wire::pass::send(&socket, question, fds)?;
    let answer = wire::pass::receive(&socket)?;
    answer.ok_or_else(|| "it ended without an answer".into())
}

fn understand(frame: &Frame) -> Result<Reply, ProviderError> {
    match frame.message() {
        Ok(Reply::Failed { stage, message }) => Err(failure(&stage, message)),
        Ok(reply) => Ok(reply),
        Err(error) => Err(ProviderError::unavailable("talking to the keeper", error)),
    }
}

/// The kernel's number is at the end of its words. A full disk is for the caller to do something
/// about, wherever it is noticed.
fn failure(stage: &str, message: String) -> ProviderError {
    let full = [Errno::NOSPC, Errno::DQUOT]
        .into_iter()
        .find(|errno| message.ends_with(&format!("(os error {})", errno.raw_os_error())));
    match full {
        Some(errno) => error::classify(format!("the keeper: {stage}"), errno.into()),
        None => ProviderError::unavailable(format!("the keeper: {stage}"), message),
    }
}

/// A connection to a keeper. What it froze, it thaws when this is dropped, unless told to keep it.
#[derive(Debug)]
pub(crate) struct Keeper(UnixStream);

impl Keeper {
    pub(crate) fn connect(directory: &Utf8Path) -> io::Result<Self> {
        connect_in(directory, "keeper.sock").map(Self)
    }

    /// The living keeper of a sandbox, if it has one. One that was killed takes connections until
    /// the kernel has taken it apart, and answers none; this waits until it is gone, since its
    /// successor must not meet it.
    pub(crate) fn reach(directory: &Utf8Path) -> Result<Option<Self>, ProviderError> {
        let Ok(keeper) = Self::connect(directory) else {
            return Ok(None);
        };
        let patience = |within| set_socket_timeout(&keeper.0, Timeout::Recv, within);
        patience(Some(ANSWERING)).doing("talking to the keeper")?;
        let Err(silent) = keeper.exchange(&Request::Hello) else {
            patience(None).doing("talking to the keeper")?;
            return Ok(Some(keeper));
        };
        let pid = socket_peercred(&keeper.0)
            .doing("asking who the keeper is")?
            .pid;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).doing("watching the keeper end"),
            Ok(process) => {
                let mut ended = [PollFd::new(&process, PollFlags::IN)];
                let gone = retry_on_intr(|| poll(&mut ended, Some(&DYING)));
                if gone.doing("watching the keeper end")? > 0 {
                    return Ok(None);
                }
            }
        }
        Err(ProviderError::unavailable("talking to the keeper", silent))
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<Reply, ProviderError> {
        self.ask_for_fd(request).map(|(reply, _)| reply)
    }

    pub(crate) fn ask_for_fd(
        &self,
        request: &Request,
    ) -> Result<(Reply, Option<OwnedFd>), ProviderError> {
        let (frame, fds) = self
            .exchange(request)
            .map_err(|error| ProviderError::unavailable("talking to the keeper", error))?;
        Ok((understand(&frame)?, fds.into_iter().next()))
    }

    fn exchange(&self, request: &Request) -> Result<(Frame, Vec<OwnedFd>), BoxError> {
        exchange(&self.0, &Frame::control(request), &[])
    }

    /// `None` when the keeper was lost on the way.
    pub(crate) fn end(&self) -> Result<Option<Ended>, ProviderError> {
        let Ok((frame, _)) = self.exchange(&Request::End) else {
            return Ok(None);
        };
        match understand(&frame)? {
            Reply::Ended(ended) => Ok(Some(ended)),
            _ => Err(ProviderError::unavailable(
                "ending the sandbox",
                "the keeper gave another answer",
            )),
        }
    }
}

/// By way of the directory's descriptor: a socket's path may have 107 bytes at most, a home's more.
pub(crate) fn connect_in(directory: &Utf8Path, name: &str) -> io::Result<UnixStream> {
    let directory = rustix::fs::open(
        directory.as_std_path(),
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    UnixStream::connect(format!(
        "/proc/self/fd/{}/{name}",
        directory.as_fd().as_raw_fd()
    ))
}
