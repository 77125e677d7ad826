//! Files below one directory, for people, agents and the hub. PID 1's helper does the work as the
//! user, below that directory alone and through no link, so there is no path to check here.

mod content_type;
mod evidence;

use serde::Serialize;
use tokio::net::UnixStream;
use wire::frame::{read_frame, write_frame};
use wire::guest::{self, Below, EntryKind, FailedKind, Listed, ListedKind, Reply, Work};
use wire::{Channel, Frame, FrameError, MAX_DATA, Raw};

use std::rc::Rc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::hands::{Hands, HandsError};
use crate::place::Place;

pub use content_type::content_type;
pub use evidence::{DEFAULT_FOLDER, Evidence, EvidenceFile, Limits};

/// What is listed of one directory.
pub const MAX_LISTED: u32 = 10_000;
/// What is read at once.
pub const MAX_READ: u64 = 16 << 20;
pub const MAX_WRITTEN: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Refused(String),
    /// Out of disk, processes, memory.
    #[error("{0}")]
    Exhausted(String),
    #[error("{MAX_WRITTEN} bytes are the most that a file may have here")]
    TooLong,
    #[error("PID 1 cannot do it")]
    Hands(#[source] HandsError),
}

fn missing(path: &str) -> FileError {
    FileError::NotFound(format!("there is no {path:?}"))
}

impl From<HandsError> for FileError {
    fn from(error: HandsError) -> Self {
        match error {
            HandsError::Failed(failed) => match failed.kind {
                FailedKind::NotFound => Self::NotFound(failed.message),
                FailedKind::Refused => Self::Refused(failed.message),
                FailedKind::Exhausted => Self::Exhausted(failed.message),
            },
            other => Self::Hands(other),
        }
    }
}

impl From<FrameError> for FileError {
    fn from(error: FrameError) -> Self {
        Self::Hands(error.into())
    }
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Files {
    hands: Rc<Hands>,
    root: Utf8PathBuf,
    user: String,
}

/// A name in a directory, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub name: String,
    pub kind: ListedKind,
    pub size: u64,
    pub mode: String,
    pub modified_ms: i64,
}

impl From<Listed> for Shown {
    fn from(listed: Listed) -> Self {
        Self {
            name: String::from_utf8_lossy(&listed.name.0).into_owned(),
            kind: listed.kind,
            size: listed.size,
            mode: format!("{:04o}", listed.mode),
            modified_ms: listed.modified_ms,
        }
    }
}

/// A part of a file.
#[derive(Debug)]
pub struct Part {
    /// Of the whole file.
    pub size: u64,
    pub mode: u32,
    pub modified_ms: i64,
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A file on its way out.
#[derive(Debug)]
pub struct Reading {
    connection: UnixStream,
    /// Of the whole file.
    pub size: u64,
    pub mode: u32,
    pub modified_ms: i64,
    left: u64,
    ended: bool,
}

impl Reading {
    /// `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        if self.ended {
            return Ok(None);
        }
        let frame = next(&mut self.connection).await?;
        if frame.channel != Channel::Data {
            settled(&frame)?;
            self.ended = true;
            return Ok(None);
        }
        let rest = self.left.checked_sub(frame.payload.len() as u64);
        self.left = rest.ok_or(FileError::Hands(HandsError::Confused))?;
        Ok(Some(frame.payload))
    }
}

/// A file on its way in. Dropped before it is finished, it never was.
#[derive(Debug)]
pub struct Writing {
    connection: UnixStream,
    room: usize,
}

impl Writing {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let rest = self.room.checked_sub(bytes.len());
        self.room = rest.ok_or(FileError::TooLong)?;
        for piece in bytes.chunks(MAX_DATA) {
            if write_frame(&mut self.connection, Channel::Data, piece)
                .await
                .is_err()
            {
                // It said why before it closed.
                return settled(&next(&mut self.connection).await?).map(drop);
            }
        }
        Ok(())
    }

    pub async fn finish(mut self) -> Result<(), FileError> {
        let end = Frame::control(&Reply::EndOfEntry);
        write_frame(&mut self.connection, Channel::Control, &end.payload).await?;
        settled(&next(&mut self.connection).await?).map(drop)
    }
}

impl Files {
    /// The workspace's.
    pub fn new(hands: Rc<Hands>, place: &Place) -> Self {
        Self {
            hands,
            root: place.workspace.clone(),
            user: place.user.clone(),
        }
    }

    /// Of another directory.
    pub fn below(hands: Rc<Hands>, root: Utf8PathBuf, user: &str) -> Self {
        Self {
            hands,
            root,
            user: user.to_owned(),
        }
    }

    pub(crate) fn root(&self) -> &Utf8Path {
        &self.root
    }

    pub async fn list(&self, path: &str) -> Result<Vec<Shown>, FileError> {
        let mut listed = self.listed(path, MAX_LISTED).await?;
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed.into_iter().map(Shown::from).collect())
    }

    /// At most `limit` names, in no order.
    pub(crate) async fn listed(&self, path: &str, limit: u32) -> Result<Vec<Listed>, FileError> {
        let mut connection = self
            .ask(Work::List {
                path: relative(path),
                limit,
            })
            .await?;
        let mut listed = Vec::new();
        loop {
            match reply(&mut connection).await? {
                Reply::Listed(entry) => listed.push(entry),
                Reply::Done { missing: false } => return Ok(listed),
                Reply::Done { missing: true } => return Err(missing(path)),
                _ => return Err(FileError::Hands(HandsError::Confused)),
            }
        }
    }

    /// What a name is, itself; `None` when nothing has it.
    pub(crate) async fn look(&self, path: &str) -> Result<Option<ListedKind>, FileError> {
        let path = relative(path);
        let mut connection = self.ask(Work::Look { path }).await?;
        match reply(&mut connection).await? {
            Reply::Listed(listed) => Ok(Some(listed.kind)),
            Reply::Done { missing: true } => Ok(None),
            _ => Err(FileError::Hands(HandsError::Confused)),
        }
    }

    /// At most [`MAX_READ`] bytes from `offset` on.
    pub async fn read(&self, path: &str, offset: u64, length: u64) -> Result<Part, FileError> {
        let mut reading = self.open(path, offset, length.min(MAX_READ)).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = reading.next().await? {
            bytes.extend(piece);
        }
        Ok(Part {
            size: reading.size,
            mode: reading.mode,
            modified_ms: reading.modified_ms,
            offset,
            bytes,
        })
    }

    /// From `offset` on, piece by piece.
    pub async fn open(&self, path: &str, offset: u64, length: u64) -> Result<Reading, FileError> {
        let mut connection = self
            .ask(Work::Read {
                path: relative(path),
                offset,
                length,
            })
            .await?;
        match reply(&mut connection).await? {
            Reply::Listed(listed) => Ok(Reading {
                connection,
                size: listed.size,
                mode: listed.mode,
                modified_ms: listed.modified_ms,
                left: length,
                ended: false,
            }),
            Reply::Done { missing: true } => Err(missing(path)),
            _ => Err(FileError::Hands(HandsError::Confused)),
        }
    }

    /// Whole or not at all. Directories on the way are made.
    pub async fn write(
        &self,
        path: &str,
        content: &[u8],
        mode: Option<u32>,
    ) -> Result<(), FileError> {
        let mut writing = self.create(path, mode).await?;
        writing.write(content).await?;
        writing.finish().await
    }

    /// A file that appears when it is finished, and not before.
    pub async fn create(&self, path: &str, mode: Option<u32>) -> Result<Writing, FileError> {
        self.create_within(path, mode, MAX_WRITTEN).await
    }

    /// The same for what is longer than people write.
    pub async fn create_within(
        &self,
        path: &str,
        mode: Option<u32>,
        room: usize,
    ) -> Result<Writing, FileError> {
        let path = relative(path);
        let connection = self.ask(Work::Write { path, mode }).await?;
        Ok(Writing { connection, room })
    }

    pub async fn make_directory(&self, path: &str) -> Result<(), FileError> {
        let path = relative(path);
        self.done(Work::MakeDirectory { path }).await.map(drop)
    }

    /// A link in the place of another or of nothing.
    pub async fn link(&self, path: &str, target: &str) -> Result<(), FileError> {
        let (path, target) = (relative(path), target.into());
        self.done(Work::Link { path, target }).await.map(drop)
    }

    /// With everything below it.
    pub async fn remove(&self, path: &str) -> Result<(), FileError> {
        let work = Work::Remove {
            path: relative(path),
        };
        self.found(work, path).await
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let work = Work::Rename {
            from: relative(from),
            to: relative(to),
        };
        self.found(work, from).await
    }

    async fn found(&self, work: Work, path: &str) -> Result<(), FileError> {
        if self.done(work).await? {
            Ok(())
        } else {
            Err(missing(path))
        }
    }

    /// Whether there was something to do it to.
    async fn done(&self, work: Work) -> Result<bool, FileError> {
        let mut connection = self.ask(work).await?;
        settled(&next(&mut connection).await?)
    }

    async fn ask(&self, work: Work) -> Result<UnixStream, FileError> {
        let mut connection = self.hands.operate()?;
        let request = guest::Request::Below(Below {
            root: self.root.as_str().into(),
            user: Some(self.user.clone()),
            work,
        });
        let frame = Frame::control(&request);
        write_frame(&mut connection, Channel::Control, &frame.payload).await?;
        Ok(connection)
    }
}

/// As people write them: `.`, `./a`, `a/` are fine, what leads up or elsewhere is for the helper to
/// refuse.
fn relative(path: &str) -> Raw {
    let path = path.strip_prefix("./").unwrap_or(path);
    let path = path
        .strip_suffix('/')
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path);
    Raw::from(if path == "." { "" } else { path })
}

async fn next(connection: &mut UnixStream) -> Result<Frame, FileError> {
    Ok(read_frame(connection).await?.ok_or(FrameError::Closed)?)
}

async fn reply(connection: &mut UnixStream) -> Result<Reply, FileError> {
    match next(connection).await?.message()? {
        Reply::Failed(failed) => Err(HandsError::Failed(failed).into()),
        reply => Ok(reply),
    }
}

/// At the end of an operation: whether there was something to do it to.
fn settled(frame: &Frame) -> Result<bool, FileError> {
    match frame.message()? {
        Reply::Done { missing } => Ok(!missing),
        Reply::Failed(failed) => Err(HandsError::Failed(failed).into()),
        _ => Err(FileError::Hands(HandsError::Confused)),
    }
}

/// Of an entry of a tree.
fn is_file(kind: &EntryKind) -> bool {
    *kind == EntryKind::File
}
