//! A command's streams to and from the host. Nothing is buffered beyond one frame each way, so
//! that whoever is slow slows the other down.

use std::io;
use std::time::Duration;

use rustix::process::WaitStatus;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use wire::Channel;
use wire::frame::{HEADER, read_frame};
use wire::guest::{Input, WindowSize};

use crate::stdio;
use crate::stream::Stream;

const CHUNK: usize = 64 << 10;
/// After a command's end its pipes may stay open in what it left behind: silence is the end too.
const QUIET: Duration = Duration::from_millis(100);
/// And so is this much more output after all of the command's own.
const LINGER: Duration = Duration::from_secs(1);

/// Sends output until the command has ended and its output too. Fails when the host is gone.
pub(crate) async fn send_output(
    host: &mut WriteHalf<'_>,
    mut stdout: Option<&Stream>,
    mut stderr: Option<&Stream>,
    mut exit: oneshot::Receiver<WaitStatus>,
) -> io::Result<WaitStatus> {
    let mut buffer = vec![0; HEADER + CHUNK];
    let mut ended: Option<Ended> = None;
    loop {
        if let Some(ended) = &ended
            && ((stdout.is_none() && stderr.is_none()) || ended.lingered())
        {
            return Ok(ended.status);
        }
        let channel = tokio::select! {
            // Silence counts only when there is nothing to read.
            biased;
            channel = readable(stdout, stderr), if stdout.is_some() || stderr.is_some() => channel,
            status = &mut exit, if ended.is_none() => {
                let status = status.map_err(|_| io::ErrorKind::BrokenPipe)?;
                let backlog = [stdout, stderr].into_iter().flatten().map(Stream::backlog).sum();
                ended = Some(Ended::new(status, backlog));
                continue;
            }
            () = quiet(ended.as_ref()), if ended.is_some() => {
                if let Some(ended) = ended { return Ok(ended.status) }
                continue;
            }
        };
        let source = if channel == Channel::Stdout {
            &mut stdout
        } else {
            &mut stderr
        };
        let Some(stream) = source else { continue };
        match stream.try_read(&mut buffer[HEADER..]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A terminal ends with an error.
            Ok(0) | Err(_) => *source = None,
            Ok(count) => {
                let length = u32::try_from(count).unwrap_or(0);
                buffer[..4].copy_from_slice(&length.to_le_bytes());
                buffer[4] = channel as u8;
                host.write_all(&buffer[..HEADER + count]).await?;
                if let Some(ended) = &mut ended {
                    ended.sent(count);
                }
            }
        }
    }
}

async fn readable(stdout: Option<&Stream>, stderr: Option<&Stream>) -> Channel {
    async fn wait(stream: Option<&Stream>) {
        match stream {
            Some(stream) => stream.readable().await,
            None => std::future::pending().await,
        }
    }
    // Not biased: neither may starve the other.
    tokio::select! {
        () = wait(stdout) => Channel::Stdout,
        () = wait(stderr) => Channel::Stderr,
    }
}

async fn quiet(ended: Option<&Ended>) {
    match ended {
        Some(ended) => sleep_until(ended.last + QUIET).await,
        None => std::future::pending().await,
    }
}

#[derive(Debug)]
struct Ended {
    status: WaitStatus,
    /// What the command itself had written and we have not sent.
    backlog: u64,
    last: Instant,
    until: Option<Instant>,
}

impl Ended {
    fn new(status: WaitStatus, backlog: u64) -> Self {
        let now = Instant::now();
        Self {
            status,
            backlog,
            last: now,
            until: (backlog == 0).then(|| now + LINGER),
        }
    }

    fn sent(&mut self, count: usize) {
        self.last = Instant::now();
        self.backlog = self.backlog.saturating_sub(count as u64);
        if self.backlog == 0 && self.until.is_none() {
            self.until = Some(self.last + LINGER);
        }
    }

    fn lingered(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Where input goes.
#[derive(Debug)]
pub(crate) enum Sink<'a> {
    Pipe(Stream),
    Terminal(&'a Stream),
    /// The host ended it, or the command does not want any more.
    Closed,
}

/// Takes what the host says until it closes or talks nonsense. A command that does not read keeps
/// us here with its input; the host's closing is noticed all the same.
pub(crate) async fn take_input(
    host: &mut ReadHalf<'_>,
    mut sink: Sink<'_>,
    mut resize: impl FnMut(WindowSize),
    mut signal: impl FnMut(i32),
) {
    while let Ok(Some(frame)) = read_frame(host).await {
        match frame.channel {
            Channel::Stdin => {
                let fed = tokio::select! {
                    fed = feed(&mut sink, &frame.payload) => fed,
                    // Means read-closed alone: a unix socket has no priority data.
                    _ = host.ready(Interest::PRIORITY) => return,
                };
                if fed.is_err() {
                    sink = Sink::Closed;
                }
            }
            Channel::Control => match frame.message() {
                Ok(Input::Resize(size)) => resize(size),
                Ok(Input::Signal(number)) => signal(number),
                Err(_) => return,
            },
            _ => return,
        }
    }
}

async fn feed(sink: &mut Sink<'_>, bytes: &[u8]) -> io::Result<()> {
    match sink {
        Sink::Pipe(_) if bytes.is_empty() => {
            *sink = Sink::Closed;
            Ok(())
        }
        Sink::Pipe(pipe) => pipe.write_all(bytes).await,
        Sink::Terminal(terminal) if bytes.is_empty() => {
            terminal.write_all(&[stdio::end_of_input(terminal)]).await
        }
        Sink::Terminal(terminal) => terminal.write_all(bytes).await,
        Sink::Closed => Ok(()),
    }
}
