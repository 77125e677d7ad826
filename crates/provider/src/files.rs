use bytes::Bytes;
use tokio::sync::mpsc;

use crate::ProviderError;

/// A file, directory or link on its way in or out. `path` is relative to the path asked for and
/// has no `..`; empty for that path itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    pub path: Vec<u8>,
    pub kind: FileKind,
    pub mode: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink { target: Vec<u8> },
}

/// `Entry`, then for a file its `Data` in order, up to the next `Entry` or the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    Entry(FileEntry),
    Data(Bytes),
}

/// Files of any size, a piece at a time.
pub type FileStream = mpsc::Receiver<Result<FileEvent, ProviderError>>;

/// A stream of small files that are already in memory.
pub fn files_from(files: Vec<(FileEntry, Bytes)>) -> FileStream {
    let (sender, receiver) = mpsc::channel((files.len() * 2).max(1));
    for (entry, data) in files {
        let _ = sender.try_send(Ok(FileEvent::Entry(entry)));
        if !data.is_empty() {
            let _ = sender.try_send(Ok(FileEvent::Data(data)));
        }
    }
    receiver
}
