//! What `verify` shows: the files of one folder, for the hub to fetch. The sandbox uploads nothing.

use serde::Serialize;
use tokio::net::UnixStream;
use wire::Channel;
use wire::guest::{Reply, Work};

use super::{FileError, Files, content_type, is_file, next, relative, reply};
use crate::hands::HandsError;

pub const DEFAULT_FOLDER: &str = ".nacre/.verification";

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub files: usize,
    /// Of one file.
    pub size: u64,
    /// Of all together.
    pub total: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 200,
            size: 16 << 20,
            total: 64 << 20,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceFile {
    /// Below the folder.
    pub path: String,
    pub size: u64,
    pub content_type: &'static str,
}

/// One file after the other. What goes beyond the limits is left out and counted.
#[derive(Debug)]
pub struct Evidence {
    connection: UnixStream,
    limits: Limits,
    taken: usize,
    bytes: u64,
    left_out: usize,
    ended: bool,
}

impl Files {
    /// The files below a folder; links are left out.
    pub async fn evidence(
        &self,
        folder: Option<&str>,
        limits: Limits,
    ) -> Result<Evidence, FileError> {
        let path = relative(folder.unwrap_or(DEFAULT_FOLDER));
        Ok(Evidence {
            connection: self.ask(Work::Tree { path }).await?,
            limits,
            taken: 0,
            bytes: 0,
            left_out: 0,
            ended: false,
        })
    }
}

impl Evidence {
    /// `None` after the last. A folder that is not there has none.
    pub async fn next(&mut self) -> Result<Option<(EvidenceFile, Vec<u8>)>, FileError> {
        while !self.ended {
            match reply(&mut self.connection).await? {
                Reply::Entry(entry) => {
                    let content = self.content().await?;
                    if !is_file(&entry.kind) {
                        continue;
                    }
                    let room = self.limits.total - self.bytes;
                    let Some(content) = content
                        .filter(|content| content.len() as u64 <= room)
                        .filter(|_| self.taken < self.limits.files)
                    else {
                        self.left_out += 1;
                        continue;
                    };
                    self.taken += 1;
                    self.bytes += content.len() as u64;
                    let path = String::from_utf8_lossy(&entry.path.0).into_owned();
                    let file = EvidenceFile {
                        size: content.len() as u64,
                        content_type: content_type(&path, &content),
                        path,
                    };
                    return Ok(Some((file, content)));
                }
                Reply::Done { .. } => self.ended = true,
                _ => return Err(FileError::Hands(HandsError::Confused)),
            }
        }
        Ok(None)
    }

    /// How many files went beyond the limits so far.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Of the entry under way; `None` when it is too long.
    async fn content(&mut self) -> Result<Option<Vec<u8>>, FileError> {
        let mut content = Some(Vec::new());
        loop {
            let frame = next(&mut self.connection).await?;
            if frame.channel == Channel::Data {
                content = content
                    .filter(|kept| (kept.len() + frame.payload.len()) as u64 <= self.limits.size);
                if let Some(kept) = &mut content {
                    kept.extend(frame.payload);
                }
                continue;
            }
            return match frame.message()? {
                Reply::EndOfEntry => Ok(content),
                Reply::Failed(failed) => Err(HandsError::Failed(failed).into()),
                _ => Err(FileError::Hands(HandsError::Confused)),
            };
        }
    }
}
