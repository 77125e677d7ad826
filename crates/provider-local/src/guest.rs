//! Our side of the runner: one connection per operation. Everything that comes back is hostile.

use std::time::Duration;

use bytes::Bytes;
use camino::Utf8Path;
use provider::{
    Exec, ExecInput, ExecOutput, ExecSpec, Exit, FileEntry, FileEvent, FileKind, FileStream,
    ProviderError, WindowSize,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use wire::frame::{read_frame, write_frame};
use wire::guest::{self, Entry, EntryKind, FailedKind, Input, Reply, Request};
use wire::{Channel, Frame, MAX_DATA, Raw};

use crate::error::Doing as _;
use crate::keeper::connect_in;

const QUEUE: usize = 16;
/// A runner enforces a time limit itself; one that does not is broken or taken over.
const LIMIT_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Guest {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
}

impl Guest {
    pub(crate) fn connect(directory: &Utf8Path) -> Result<Self, ProviderError> {
        let stream = connect_in(directory, "guest.sock").doing("reaching the runner")?;
        stream.set_nonblocking(true).doing("reaching the runner")?;
        let (reader, writer) = UnixStream::from_std(stream)
            .doing("reaching the runner")?
            .into_split();
        Ok(Self { reader, writer })
    }

    async fn request(&mut self, request: &Request) -> Result<(), ProviderError> {
        let frame = Frame::control(request);
        if frame.payload.len() > wire::MAX_CONTROL {
            return Err(ProviderError::refused(
                "the command's arguments and environment are too long",
            ));
        }
        write_frame(&mut self.writer, Channel::Control, &frame.payload)
            .await
            .map_err(broken)
    }

    async fn reply(&mut self) -> Result<Reply, ProviderError> {
        let frame = read_frame(&mut self.reader)
            .await
            .map_err(broken)?
            .ok_or_else(gone)?;
        match frame.message().map_err(broken)? {
            Reply::Failed(failed) => Err(refusal(&failed)),
            reply => Ok(reply),
        }
    }

    /// Starts a command. `tracker` owns the task that carries its streams.
    pub(crate) async fn exec(
        mut self,
        spec: ExecSpec,
        tracker: &TaskTracker,
    ) -> Result<Exec, ProviderError> {
        let limit = spec.timeout;
        let detach = spec.detach;
        self.request(&Request::Exec(convert(spec))).await?;
        // A sandbox that is paused just now answers when it goes on; the time limit holds all the same.
        let started = match limit {
            Some(limit) => tokio::time::timeout(limit + LIMIT_GRACE, self.reply())
                .await
                .map_err(|_| gone())??,
            None => self.reply().await?,
        };
        let Reply::Started { pid } = started else {
            return Err(nonsense());
        };
        let (input, inputs) = mpsc::channel(QUEUE);
        let (outputs, output) = mpsc::channel(QUEUE);
        if !detach {
            tracker.spawn(carry(self, inputs, outputs, limit));
        }
        Ok(Exec {
            pid: Some(pid),
            input,
            output,
        })
    }

    pub(crate) async fn read_files(
        mut self,
        path: &[u8],
        user: Option<&str>,
        tracker: &TaskTracker,
    ) -> Result<FileStream, ProviderError> {
        self.request(&Request::Read {
            path: Raw(path.to_vec()),
            user: user.map(str::to_owned),
        })
        .await?;
        // The first answer tells whether it works at all.
        let first = self.reply().await?;
        let (events, stream) = mpsc::channel(QUEUE);
        tracker.spawn(async move {
            tokio::select! {
                result = receive_files(&mut self.reader, first, &events) => {
                    if let Err(error) = result {
                        let _ = events.send(Err(error)).await;
                    }
                }
                () = events.closed() => {}
            }
        });
        Ok(stream)
    }

    pub(crate) async fn write_files(
        mut self,
        path: &[u8],
        user: Option<&str>,
        mut files: FileStream,
    ) -> Result<(), ProviderError> {
        self.request(&Request::Write {
            path: Raw(path.to_vec()),
            user: user.map(str::to_owned),
        })
        .await?;
        let Self {
            mut reader,
            mut writer,
        } = self;
        let sending = async {
            let mut open = false;
            while let Some(event) = files.recv().await {
                match event? {
                    FileEvent::Entry(entry) => {
                        if open {
                            control(&mut writer, &Reply::EndOfEntry).await?;
                        }
                        control(&mut writer, &Reply::Entry(outgoing(entry))).await?;
                        open = true;
                    }
                    FileEvent::Data(bytes) => {
                        for piece in bytes.chunks(MAX_DATA) {
                            write_frame(&mut writer, Channel::Data, piece)
                                .await
                                .map_err(broken)?;
                        }
                    }
                }
            }
            if open {
                control(&mut writer, &Reply::EndOfEntry).await?;
            }
            control(&mut writer, &Reply::Done { missing: false }).await
        };
        let answer = async {
            let frame = read_frame(&mut reader)
                .await
                .map_err(broken)?
                .ok_or_else(gone)?;
            match frame.message().map_err(broken)? {
                Reply::Done { .. } => Ok(()),
                Reply::Failed(failed) => Err(refusal(&failed)),
                _ => Err(nonsense()),
            }
        };
        tokio::pin!(answer);
        tokio::select! {
            // A refusal in the middle closes the connection; its words are worth more than
            // "broken pipe".
            sent = sending => match sent {
                Ok(()) | Err(ProviderError::Unavailable { .. }) => answer.await,
                Err(error) => Err(error),
            },
            refused = &mut answer => refused,
        }
    }
}

async fn control(writer: &mut OwnedWriteHalf, message: &Reply) -> Result<(), ProviderError> {
    write_frame(writer, Channel::Control, &Frame::control(message).payload)
        .await
        .map_err(broken)
}

/// Carries a command's streams until it has ended or nobody listens any more. Dropping the
/// connection makes the runner kill the command and all it started.
async fn carry(
    guest: Guest,
    mut inputs: mpsc::Receiver<ExecInput>,
    outputs: mpsc::Sender<Result<ExecOutput, ProviderError>>,
    limit: Option<Duration>,
) {
    let Guest {
        mut reader,
        mut writer,
    } = guest;
    let read = async {
        loop {
            let output = match read_frame(&mut reader).await {
                Ok(Some(frame)) => interpret(frame),
                Ok(None) => Err(gone()),
                Err(error) => Err(broken(error)),
            };
            let last = !matches!(output, Ok(ExecOutput::Stdout(_) | ExecOutput::Stderr(_)));
            if outputs.send(output).await.is_err() || last {
                return;
            }
        }
    };
    let write = async {
        while let Some(input) = inputs.recv().await {
            let written = match input {
                ExecInput::Data(bytes) => write_data(&mut writer, &bytes).await,
                ExecInput::Eof => write_frame(&mut writer, Channel::Stdin, &[]).await,
                ExecInput::Resize(size) => {
                    let resize = Frame::control(&Input::Resize(window(size)));
                    write_frame(&mut writer, Channel::Control, &resize.payload).await
                }
                ExecInput::Signal(number) => {
                    let signal = Frame::control(&Input::Signal(number));
                    write_frame(&mut writer, Channel::Control, &signal.payload).await
                }
            };
            if written.is_err() {
                break;
            }
        }
        // Nothing more to say; the command may still have.
        std::future::pending::<()>().await;
    };
    let overdue = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit + LIMIT_GRACE).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
        () = outputs.closed() => {}
        () = overdue => {
            let exit = Exit { code: 128 + 9, signal: Some(9), timed_out: true };
            let _ = outputs.send(Ok(ExecOutput::Exit(exit))).await;
        }
    }
}

async fn write_data(writer: &mut OwnedWriteHalf, bytes: &Bytes) -> Result<(), wire::FrameError> {
    // An empty piece would mean the end of input.
    for piece in bytes.chunks(MAX_DATA).filter(|piece| !piece.is_empty()) {
        write_frame(writer, Channel::Stdin, piece).await?;
    }
    Ok(())
}

fn interpret(frame: Frame) -> Result<ExecOutput, ProviderError> {
    match frame.channel {
        Channel::Stdout => Ok(ExecOutput::Stdout(frame.payload.into())),
        Channel::Stderr => Ok(ExecOutput::Stderr(frame.payload.into())),
        Channel::Control => match frame.message().map_err(broken)? {
            Reply::Exited(exited) => Ok(ExecOutput::Exit(Exit {
                code: exited.code,
                signal: exited.signal,
                timed_out: exited.timed_out,
            })),
            Reply::Failed(failed) => Err(refusal(&failed)),
            _ => Err(nonsense()),
        },
        Channel::Stdin | Channel::Data => Err(nonsense()),
    }
}

async fn receive_files(
    reader: &mut OwnedReadHalf,
    first: Reply,
    events: &mpsc::Sender<Result<FileEvent, ProviderError>>,
) -> Result<(), ProviderError> {
    let mut next = Some(first);
    loop {
        let reply = if let Some(first) = next.take() {
            first
        } else {
            let frame = read_frame(reader).await.map_err(broken)?.ok_or_else(gone)?;
            if frame.channel == Channel::Data {
                let data = FileEvent::Data(frame.payload.into());
                if events.send(Ok(data)).await.is_err() {
                    return Ok(());
                }
                continue;
            }
            frame.message().map_err(broken)?
        };
        match reply {
            Reply::Entry(entry) => {
                if events
                    .send(Ok(FileEvent::Entry(incoming(entry)?)))
                    .await
                    .is_err()
                {
                    return Ok(());
                }
            }
            Reply::EndOfEntry => {}
            Reply::Done { .. } => return Ok(()),
            Reply::Failed(failed) => return Err(refusal(&failed)),
            _ => return Err(nonsense()),
        }
    }
}

fn convert(spec: ExecSpec) -> guest::Exec {
    guest::Exec {
        argv: spec.argv.into_iter().map(Raw).collect(),
        cwd: spec.cwd.map(Raw),
        env: spec
            .env
            .into_iter()
            .map(|(key, value)| (Raw(key), Raw(value)))
            .collect(),
        user: spec.user,
        pty: spec.pty.map(window),
        timeout_ms: spec
            .timeout
            .map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        detach: spec.detach,
    }
}

fn window(size: WindowSize) -> guest::WindowSize {
    guest::WindowSize {
        rows: size.rows,
        columns: size.columns,
    }
}

fn outgoing(entry: FileEntry) -> Entry {
    let kind = match entry.kind {
        FileKind::File => EntryKind::File,
        FileKind::Directory => EntryKind::Directory,
        FileKind::Symlink { target } => EntryKind::Symlink {
            target: Raw(target),
        },
    };
    Entry {
        path: Raw(entry.path),
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
    }
}

/// Checked here once, so that no user of the stream has to.
fn incoming(entry: Entry) -> Result<FileEntry, ProviderError> {
    let bad = |component: &[u8]| matches!(component, b"" | b"." | b"..") || component.contains(&0);
    if !entry.path.0.is_empty() && entry.path.0.split(|byte| *byte == b'/').any(bad) {
        return Err(ProviderError::refused(
            "the sandbox sent a path that leads out of the directory asked for",
        ));
    }
    let kind = match entry.kind {
        EntryKind::File => FileKind::File,
        EntryKind::Directory => FileKind::Directory,
        EntryKind::Symlink { target } => FileKind::Symlink { target: target.0 },
    };
    Ok(FileEntry {
        path: entry.path.0,
        kind,
        mode: entry.mode & 0o7777,
        uid: entry.uid,
        gid: entry.gid,
    })
}

/// Words from inside are shown to people: cut, and free of control characters.
fn refusal(failed: &guest::Failed) -> ProviderError {
    let message: String = failed
        .message
        .chars()
        .filter(|c| !c.is_control())
        .take(500)
        .collect();
    match failed.kind {
        // "Not found" is said of sandboxes alone; to a caller a missing program is a refusal.
        FailedKind::NotFound | FailedKind::Refused => ProviderError::refused(message),
        FailedKind::Exhausted => {
            ProviderError::unavailable("the sandbox is out of a resource", message)
        }
    }
}

fn broken(error: wire::FrameError) -> ProviderError {
    ProviderError::unavailable("talking to the runner", error)
}

fn gone() -> ProviderError {
    ProviderError::unavailable(
        "talking to the runner",
        "the sandbox ended or the runner closed the connection",
    )
}

fn nonsense() -> ProviderError {
    ProviderError::unavailable(
        "talking to the runner",
        "it gave an answer to another question",
    )
}
