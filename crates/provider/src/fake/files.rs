//! Files from outside.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::disk::Disk;
use super::exec::who;
use super::machine::{Inside, Machine};
use super::node::{Content, Errno, Inode, Kind, Node, Who};
use crate::probe::escape;
use crate::{EXEC_QUEUE, FileEntry, FileEvent, FileKind, FileStream, ProviderError};

const PIECE: usize = 64 << 10;

pub(super) fn read(
    machine: &mut Machine,
    path: &[u8],
    user: Option<&str>,
) -> Result<FileStream, ProviderError> {
    who(user)?;
    let found = {
        let disk = machine.inside.disk();
        match disk.find(path) {
            Ok(root) => entries(&disk, root),
            Err(Errno::Missing | Errno::NotDirectory) => vec![],
            Err(error) => return Err(refused(path, error)),
        }
    };
    let (sender, receiver) = mpsc::channel(EXEC_QUEUE);
    machine.spawn(async move {
        for (entry, mut content) in found {
            let mut events = vec![FileEvent::Entry(entry)];
            while !content.is_empty() {
                events.push(FileEvent::Data(content.split_to(PIECE.min(content.len()))));
            }
            for event in events {
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}

fn entries(disk: &Disk, root: Inode) -> Vec<(FileEntry, Bytes)> {
    let mut all = vec![(Vec::new(), root)];
    all.extend(disk.below(root));
    all.into_iter()
        .filter_map(|(path, inode)| entry(disk.node(inode), path))
        .collect()
}

/// None for what cannot be read, such as a fifo.
fn entry(node: &Node, path: Vec<u8>) -> Option<(FileEntry, Bytes)> {
    let (kind, content) = match &node.kind {
        Kind::File(content) => (FileKind::File, Bytes::from(content.whole())),
        Kind::Directory(_) => (FileKind::Directory, Bytes::new()),
        Kind::Symlink(target) => (
            FileKind::Symlink {
                target: target.clone(),
            },
            Bytes::new(),
        ),
        Kind::Fifo | Kind::Socket => return None,
    };
    let entry = FileEntry {
        path,
        kind,
        mode: node.mode,
        uid: Some(node.uid),
        gid: Some(node.gid),
    };
    Some((entry, content))
}

pub(super) async fn write(
    inside: &Arc<Inside>,
    path: &[u8],
    user: Option<&str>,
    mut files: FileStream,
) -> Result<(), ProviderError> {
    let who = who(user)?;
    inside
        .step(|disk| disk.make_directories(path, who))
        .await
        .map_err(|e| refused(path, e))?;
    let mut open = None;
    while let Some(event) = files.recv().await {
        match event? {
            FileEvent::Entry(entry) => {
                if !stays_below(&entry.path) {
                    let shown = escape(&entry.path);
                    return Err(ProviderError::refused(format!(
                        "`{shown}` leads out of its folder"
                    )));
                }
                let at = if entry.path.is_empty() {
                    path.to_vec()
                } else {
                    [path, b"/", &entry.path].concat()
                };
                let made = inside.step(|disk| put(disk, &at, &entry, who)).await;
                open = made.map_err(|error| refused(&at, error))?;
            }
            FileEvent::Data(data) => {
                let Some(inode) = open else {
                    return Err(ProviderError::refused("data without a file to put it in"));
                };
                let appended = inside.step(|disk| append(disk, inode, &data)).await;
                appended.map_err(|error| refused(path, error))?;
            }
        }
    }
    inside.save()
}

/// Makes one entry; the answer is where a file's data goes.
fn put(disk: &mut Disk, path: &[u8], entry: &FileEntry, who: Who) -> Result<Option<Inode>, Errno> {
    let parent = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(&b""[..], |at| &path[..at]);
    disk.make_directories(parent, who)?;
    let inode = match &entry.kind {
        FileKind::File => {
            let inode = disk.open(path, who)?;
            disk.set_content(inode, Content::default())?;
            inode
        }
        FileKind::Directory => disk.make_directories(path, who)?,
        FileKind::Symlink { target } => {
            if disk.find_itself(path).is_ok() {
                disk.remove_file(path, who)?;
            }
            disk.insert(
                path,
                Node::new(Kind::Symlink(target.clone()), 0o777, who),
                who,
            )?
        }
    };
    let node = disk.node_mut(inode);
    if !matches!(entry.kind, FileKind::Symlink { .. }) {
        node.mode = entry.mode & 0o7777;
    }
    if who.uid == 0 {
        (node.uid, node.gid) = (entry.uid.unwrap_or(who.uid), entry.gid.unwrap_or(who.gid));
    }
    Ok((entry.kind == FileKind::File).then_some(inode))
}

fn append(disk: &mut Disk, inode: Inode, data: &[u8]) -> Result<(), Errno> {
    // The file may have been removed from inside meanwhile; then these bytes go where its name went.
    if !disk.nodes.contains_key(&inode) {
        return Ok(());
    }
    disk.append(inode, data)
}

fn stays_below(path: &[u8]) -> bool {
    path.first() != Some(&b'/')
        && !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|name| name != b"..")
}

fn refused(path: &[u8], error: Errno) -> ProviderError {
    ProviderError::refused(format!("{}: {error}", escape(path)))
}
