//! `nacre-egress`: the proxy beside one sandbox. Started by its keeper, which sends the order and
//! the listening sockets on standard input; when that closes, the keeper is gone and so are we.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use model::SystemClock;
use nacre_egress::log::Log;
use nacre_egress::passes::Passes;
use nacre_egress::policy::{Policy, RuleError};
use nacre_egress::{Limits, Lookup, Proxy, serve};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Gid, Uid};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use wire::keeper::{EgressOrder, EgressSockets};

/// Threads that wait for the host's name service.
const RESOLVERS: usize = 4;
/// Each connection has two sockets and two pipes; the rest is for us.
const DESCRIPTORS: u64 = 256 * 6 + 64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads what we print; the code says which half failed.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    // The keeper goes before everybody else; we are as anybody.
    let _ = rustix::process::setpriority_process(None, 0);
    let keeper = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
    let Ok(Some((frame, fds))) = wire::pass::receive(&keeper) else {
        return Err(io::Error::other(
            "nacre-egress is started by a keeper alone",
        ));
    };
    let (order, sockets): (EgressOrder, EgressSockets) =
        frame.message().map_err(io::Error::other)?;
    // The last thing that takes root. What is in it was written by somebody who is not.
    let directory = open(
        &*order.log,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let passes = open_passes(order.passes.as_deref())?;
    let (uid, gid) = (Uid::from_raw(order.user), Gid::from_raw(order.user));
    rustix::fs::fchown(&directory, Some(uid), Some(gid))?;
    step_down(uid, gid)?;
    let proxy = prepare(&order, directory, passes)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(RESOLVERS)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_stack_size(256 << 10)
        .build()?;
    runtime.block_on(async {
        let mut fds = fds.into_iter();
        let mut next = |is_there: bool| if is_there { fds.next() } else { None };
        let (door, port) = (next(sockets.door), next(sockets.port));
        let proxy = Arc::new(proxy);
        tokio::select! {
            () = serve(Arc::clone(&proxy), door.map(unix).transpose()?, port.map(tcp).transpose()?) => {}
            () = until_closed(keeper)? => {}
        }
        proxy.log.write();
        Ok(())
    })
}

/// A sandbox of an earlier nacre has no place for them.
fn open_passes(directory: Option<&str>) -> io::Result<Option<OwnedFd>> {
    let Some(directory) = directory else {
        return Ok(None);
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open(directory, flags, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn prepare(order: &EgressOrder, log: OwnedFd, passes: Option<OwnedFd>) -> io::Result<Proxy> {
    let parsed = || -> Result<Policy, RuleError> {
        Ok(Policy::new(
            order
                .allow
                .iter()
                .map(|rule| rule.parse())
                .collect::<Result<_, _>>()?,
            order
                .private
                .iter()
                .map(|place| place.parse())
                .collect::<Result<_, _>>()?,
        ))
    };
    let upstream = order
        .upstream
        .as_ref()
        .map(|text| text.parse())
        .transpose()
        .map_err(io::Error::other)?;
    Ok(Proxy {
        policy: parsed().map_err(io::Error::other)?,
        passes: match passes {
            Some(passes) => Passes::in_directory(passes, Arc::new(SystemClock)),
            None => Passes::none(Arc::new(SystemClock)),
        },
        upstream,
        lookup: Lookup::of_the_host(),
        log: Arc::new(Log::in_directory(log, Arc::new(SystemClock))?),
        limits: Limits::default(),
    })
}

/// What we read is hostile, so we keep nothing of root: an id of the sandbox's own range, which no
/// other sandbox's proxy shares.
fn step_down(uid: Uid, gid: Gid) -> io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    let wanted = most.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        },
    )?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

fn unix(fd: OwnedFd) -> io::Result<UnixListener> {
    let listener = std::os::unix::net::UnixListener::from(fd);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn tcp(fd: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The keeper says no more; it only goes.
fn until_closed(keeper: OwnedFd) -> io::Result<impl Future<Output = ()>> {
    let stream = std::os::unix::net::UnixStream::from(keeper);
    stream.set_nonblocking(true)?;
    let mut stream = UnixStream::from_std(stream)?;
    Ok(async move {
        let mut byte = [0u8; 1];
        while matches!(stream.read(&mut byte).await, Ok(1..)) {}
    })
}
