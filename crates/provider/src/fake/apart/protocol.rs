//! What is said on the socket. A connection begins with a [`Request`] and its answer, a
//! `Result<_, Failure>`; what follows depends on the request.
//!
//! ```text
//! exec         client  Stdin* · Stdin(empty) = end of input · guest::Input*
//!              server  (Stdout | Stderr)* · Ended
//! read_files   server  (FileMessage::Entry · Data*)* · End or Failed
//! write_files  client  (FileMessage::Entry · Data*)* · End; its answer comes after that
//! dial, accept bytes, both ways
//! serve        server  Knock*; each is fetched by an `accept` on a connection of its own
//! ```

use std::time::Duration;

use model::{SnapshotId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use wire::Raw;
use wire::frame::{Channel, FrameError, MAX_CONTROL, read_frame, write_frame};
use wire::guest;

use crate::error::chain;
use crate::fake::Victim;
use crate::{
    Capabilities, Capability, ExecSpec, Exit, FileEntry, FileKind, Pass, ProviderError, SandboxId,
    SandboxSpec, WindowSize,
};

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Hello,
    Ensure(SandboxSpec),
    Create(SandboxSpec),
    Terminate(SandboxId),
    Stop(SandboxId),
    Remove(SandboxId),
    Snapshot {
        id: SandboxId,
        name: Option<String>,
    },
    Pause(SandboxId),
    Resume(SandboxId),
    Fork {
        id: SandboxId,
        count: usize,
    },
    Extend {
        id: SandboxId,
        until: Timestamp,
    },
    Exec {
        id: SandboxId,
        spec: guest::Exec,
    },
    ReadFiles {
        id: SandboxId,
        path: Raw,
        user: Option<String>,
    },
    WriteFiles {
        id: SandboxId,
        path: Raw,
        user: Option<String>,
    },
    Dial {
        id: SandboxId,
        port: u16,
    },
    Serve {
        id: SandboxId,
        name: String,
    },
    /// Fetches a connection that a [`Knock`] told of.
    Accept(Knock),
    LetOut {
        id: SandboxId,
        passes: Vec<Pass>,
    },
    Refusals {
        id: SandboxId,
        since: Option<String>,
    },
    Endpoints(SandboxId),
    Alive(Vec<SandboxId>),
    Health,
    List(Vec<(String, String)>),
    SnapshotMemory(SandboxId),
    RestoreMemory {
        snapshot: SnapshotId,
        spec: SandboxSpec,
    },
    DeleteSnapshot(SnapshotId),
    Kill {
        id: SandboxId,
        victim: Victim,
    },
    Runs,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) capabilities: Capabilities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Knock(pub(super) u64);

/// How a command ended, or why nobody knows.
pub(super) type Ended = Result<guest::Exited, Failure>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FileMessage {
    Entry(guest::Entry),
    End,
    Failed(Failure),
}

/// A [`ProviderError`] on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    NotFound(String),
    Damaged { what: String, how: String },
    Unsupported(Capability),
    Refused(String),
    Throttled(Option<Duration>),
    Unavailable { operation: String, cause: String },
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::NotFound { what } => Self::NotFound(what),
            ProviderError::Damaged { what, how } => Self::Damaged { what, how },
            ProviderError::Unsupported(capability) => Self::Unsupported(capability),
            ProviderError::Refused { reason } => Self::Refused(reason),
            ProviderError::Throttled { retry_after } => Self::Throttled(retry_after),
            ProviderError::Unavailable { operation, source } => Self::Unavailable {
                operation,
                cause: chain(source.as_ref()),
            },
        }
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound(what) => Self::NotFound { what },
            Failure::Damaged { what, how } => Self::Damaged { what, how },
            Failure::Unsupported(capability) => Self::Unsupported(capability),
            Failure::Refused(reason) => Self::Refused { reason },
            Failure::Throttled(retry_after) => Self::Throttled { retry_after },
            Failure::Unavailable { operation, cause } => Self::unavailable(operation, cause),
        }
    }
}

pub(super) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> Result<(), FrameError> {
    let payload = serde_json::to_vec(message).map_err(FrameError::Malformed)?;
    if payload.len() > MAX_CONTROL {
        return Err(FrameError::TooLong {
            length: payload.len(),
            limit: MAX_CONTROL,
        });
    }
    write_frame(to, Channel::Control, &payload).await
}

pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<T, FrameError> {
    read_frame(from).await?.ok_or(FrameError::Closed)?.message()
}

pub(super) fn exec_to_wire(spec: ExecSpec) -> guest::Exec {
    guest::Exec {
        argv: spec.argv.into_iter().map(Raw).collect(),
        cwd: spec.cwd.map(Raw),
        env: spec
            .env
            .into_iter()
            .map(|(name, value)| (Raw(name), Raw(value)))
            .collect(),
        user: spec.user,
        pty: spec.pty.map(size_to_wire),
        timeout_ms: spec
            .timeout
            .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        detach: spec.detach,
    }
}

pub(super) fn exec_from_wire(spec: guest::Exec) -> ExecSpec {
    ExecSpec {
        argv: spec.argv.into_iter().map(|arg| arg.0).collect(),
        cwd: spec.cwd.map(|cwd| cwd.0),
        env: spec
            .env
            .into_iter()
            .map(|(name, value)| (name.0, value.0))
            .collect(),
        user: spec.user,
        pty: spec.pty.map(size_from_wire),
        timeout: spec.timeout_ms.map(Duration::from_millis),
        detach: spec.detach,
    }
}

pub(super) fn size_to_wire(size: WindowSize) -> guest::WindowSize {
    guest::WindowSize {
        rows: size.rows,
        columns: size.columns,
    }
}

pub(super) fn size_from_wire(size: guest::WindowSize) -> WindowSize {
    WindowSize {
        rows: size.rows,
        columns: size.columns,
    }
}

pub(super) fn exit_to_wire(exit: Exit) -> guest::Exited {
    guest::Exited {
        code: exit.code,
        signal: exit.signal,
        timed_out: exit.timed_out,
    }
}

pub(super) fn exit_from_wire(exit: guest::Exited) -> Exit {
    Exit {
        code: exit.code,
        signal: exit.signal,
        timed_out: exit.timed_out,
    }
}

pub(super) fn entry_to_wire(entry: FileEntry) -> guest::Entry {
    let kind = match entry.kind {
        FileKind::File => guest::EntryKind::File,
        FileKind::Directory => guest::EntryKind::Directory,
        FileKind::Symlink { target } => guest::EntryKind::Symlink {
            target: Raw(target),
        },
    };
    guest::Entry {
        path: Raw(entry.path),
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
    }
}

pub(super) fn entry_from_wire(entry: guest::Entry) -> FileEntry {
    let kind = match entry.kind {
        guest::EntryKind::File => FileKind::File,
        guest::EntryKind::Directory => FileKind::Directory,
        guest::EntryKind::Symlink { target } => FileKind::Symlink { target: target.0 },
    };
    FileEntry {
        path: entry.path.0,
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
    }
}
