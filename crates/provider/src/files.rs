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

/// How large the pieces are that [`files_from`] makes: below the largest frame of any protocol.
const PIECE: usize = 64 << 10;

/// A stream of files that are already in memory.
pub fn files_from(files: Vec<(FileEntry, Bytes)>) -> FileStream {
    let pieces: usize = files
        .iter()
        .map(|(_, data)| 1 + data.len().div_ceil(PIECE))
        .sum();
    let (sender, receiver) = mpsc::channel(pieces.max(1));
    let send = |event| {
        sender
            .try_send(Ok(event))
            .expect("there is room for every piece");
    };
    for (entry, mut data) in files {
        send(FileEvent::Entry(entry));
        while !data.is_empty() {
            send(FileEvent::Data(data.split_to(PIECE.min(data.len()))));
        }
    }
    receiver
}
