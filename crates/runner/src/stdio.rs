//! A command's standard streams: pipes, a terminal, or nothing.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Uid, fchown, fstat, open};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, ptsname, unlockpt};
use rustix::termios::{SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};
use wire::guest::{Failed, WindowSize};

use crate::failure;
use crate::stream::Stream;
use crate::users::User;

/// The command's side.
#[derive(Debug)]
pub(crate) enum Ends<'a> {
    Pipes([OwnedFd; 3]),
    Terminal(OwnedFd),
    Null(BorrowedFd<'a>),
    /// A conversation with us as its input, and nothing else.
    Served {
        conversation: OwnedFd,
        null: BorrowedFd<'a>,
    },
}

impl Ends<'_> {
    pub(crate) fn each(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Self::Pipes(ends) => ends.each_ref().map(|end| end.as_fd()),
            Self::Terminal(terminal) => [terminal.as_fd(); 3],
            Self::Null(null) => [*null; 3],
            Self::Served { conversation, null } => [conversation.as_fd(), *null, *null],
        }
    }
}

/// Our side.
#[derive(Debug)]
pub(crate) enum Streams {
    Pipes {
        stdin: Stream,
        stdout: Stream,
        stderr: Stream,
    },
    Terminal(Stream),
}

pub(crate) fn pipes(user: &User) -> Result<(Streams, Ends<'static>), Failed> {
    let make = || -> std::io::Result<_> {
        let (stdin, our_stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (our_stdout, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (our_stderr, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let streams = Streams::Pipes {
            stdin: Stream::writer(our_stdin)?,
            stdout: Stream::reader(our_stdout)?,
            stderr: Stream::reader(our_stderr)?,
        };
        Ok((streams, [stdin, stdout, stderr]))
    };
    let (streams, ends) = make().map_err(|error| cannot("make pipes for it", &error))?;
    for end in &ends {
        give_to(user, end);
    }
    Ok((streams, Ends::Pipes(ends)))
}

pub(crate) fn terminal(user: &User, size: WindowSize) -> Result<(Streams, Ends<'static>), Failed> {
    let what = "open a terminal for it";
    // The sandbox's root may have put anything in its place: never wait for it.
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open_both = || -> Result<_, Errno> {
        let ours = open(c"/dev/ptmx", flags, Mode::empty())?;
        unlockpt(&ours)?;
        tcsetwinsize(&ours, winsize(size))?;
        let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let theirs = match ioctl_tiocgptpeer(&ours, peer) {
            // gVisor knows its terminals only by name.
            Err(Errno::NOTTY) => {
                let name = ptsname(&ours, Vec::new())?;
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                open(name.as_c_str(), flags, Mode::empty())?
            }
            other => other?,
        };
        Ok((ours, theirs))
    };
    let (ours, theirs) = open_both().map_err(|errno| failure::cannot(what, errno))?;
    give_to(user, &theirs);
    let ours = Stream::both(ours).map_err(|error| cannot(what, &error))?;
    Ok((Streams::Terminal(ours), Ends::Terminal(theirs)))
}

pub(crate) fn resize(terminal: &Stream, size: WindowSize) {
    let _ = tcsetwinsize(terminal.fd(), winsize(size));
}

/// What the terminal takes for the end of input.
pub(crate) fn end_of_input(terminal: &Stream) -> u8 {
    tcgetattr(terminal.fd()).map_or(4, |settings| settings.special_codes[SpecialCodeIndex::VEOF])
}

/// Opened once, before anything of the sandbox runs and could have replaced it.
pub(crate) fn null() -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let null = open(c"/dev/null", flags, Mode::empty())?;
    let stat = fstat(&null)?;
    if !FileType::from_raw_mode(stat.st_mode).is_char_device() {
        return Err(std::io::Error::other("/dev/null is not the null device"));
    }
    Ok(null)
}

fn winsize(size: WindowSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Without it the user could not open `/dev/stdout` or its own terminal.
fn give_to(user: &User, end: &OwnedFd) {
    if user.uid != 0 {
        let _ = fchown(end, Some(Uid::from_raw(user.uid)), None);
    }
}

fn cannot(what: &str, error: &std::io::Error) -> Failed {
    failure::cannot(what, Errno::from_io_error(error).unwrap_or(Errno::IO))
}
