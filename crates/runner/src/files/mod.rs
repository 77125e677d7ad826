//! Files to and from the host. The work is done by a child with the ids of whoever it is for, so
//! that the kernel decides what is allowed; nothing here runs as root for another user.

mod below;
mod disk;
mod path;
mod read;
mod write;

use std::io::{BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream as Connection;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::umask;
use tokio::net::UnixStream;
use wire::guest::{self, Failed, Reply};
use wire::{Frame, FrameError, Raw};

use crate::failure::cannot;
use crate::identity::Identity;
use crate::serve::Runner;
use crate::{spawn, users};

#[derive(Debug)]
pub(crate) enum Work {
    Read(Raw),
    Write(Raw),
    Below(Raw, guest::Work),
}

/// Ends when the child has.
pub(crate) async fn serve(runner: &Runner, host: UnixStream, user: Option<&str>, work: Work) {
    let Ok(connection) = host.into_std() else {
        return;
    };
    let prepare = || {
        connection
            .set_nonblocking(false)
            .map_err(|error| cannot("use the connection", errno(&error)))?;
        let identity = Identity::new(&users::find(user)?);
        let group = runner.groups.make()?;
        let pid = spawn::helper(
            &identity,
            connection.as_fd(),
            &group,
            |connection, became| {
                help(connection, became, &work);
            },
        )
        .map_err(|errno| cannot("start a process for it", errno))?;
        Ok((group, runner.reaper.expect(pid)))
    };
    let (group, exit) = match prepare() {
        Ok(started) => started,
        Err(failed) => {
            // A short message into an empty socket: it does not block.
            let _ = Frame::control(&Reply::Failed(failed)).write(&mut &connection);
            return;
        }
    };
    // The child's copy must be the last.
    drop(connection);
    let _ = exit.await;
    group.let_live();
}

/// Why the work ended before its end.
#[derive(Debug)]
enum Stop {
    Failed(Failed),
    /// The host closed, or does not keep to the protocol.
    Gone,
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<FrameError> for Stop {
    fn from(_: FrameError) -> Self {
        Self::Gone
    }
}

/// In the child.
fn help(connection: BorrowedFd<'_>, became: Result<(), Errno>, work: &Work) {
    umask(Mode::from_raw_mode(0o022));
    let Ok(connection) = connection.try_clone_to_owned().map(Connection::from) else {
        return;
    };
    let mut from_host = BufReader::with_capacity(64 << 10, &connection);
    let mut to_host = BufWriter::with_capacity(64 << 10, &connection);
    let done = became
        .map_err(|errno| Stop::Failed(cannot("become the user", errno)))
        .and_then(|()| match work {
            Work::Read(path) => read::send(path, &mut to_host),
            Work::Write(path) => write::receive(path, &mut from_host).map(|()| false),
            Work::Below(root, work) => below::work(root, work, &mut from_host, &mut to_host),
        });
    match done {
        Ok(missing) => {
            let _ = answer(&mut to_host, &Reply::Done { missing });
        }
        Err(Stop::Failed(failed)) => {
            if answer(&mut to_host, &Reply::Failed(failed)).is_ok() {
                let _ = connection.shutdown(Shutdown::Write);
                discard(&mut from_host);
            }
        }
        Err(Stop::Gone) => {}
    }
}

fn answer(to_host: &mut impl Write, reply: &Reply) -> Result<(), FrameError> {
    Frame::control(reply).write(to_host)?;
    Ok(to_host.flush()?)
}

/// A host that is still sending would otherwise see a broken connection instead of our answer.
fn discard(from_host: &mut impl Read) {
    let mut buffer = [0; 8 << 10];
    while from_host.read(&mut buffer).is_ok_and(|count| count > 0) {}
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
