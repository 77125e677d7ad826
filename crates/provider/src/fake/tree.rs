//! What a sandbox's disk starts with, what the probe does to it, and how it looks.

use std::collections::{BTreeMap, HashMap};

use super::disk::Disk;
use super::node::{Content, Errno, Inode, Kind, Node, Who};
use crate::probe::{
    self, CAP_NET_BIND_SERVICE, CAPABILITY_XATTR, FileWork, LineKind, ManifestLine, SPARSE_END,
};

/// The fake's bare image.
pub(super) fn bare() -> Disk {
    let mut disk = Disk::empty();
    let who = Who::SUPERUSER;
    let works = [
        mkdir("/etc", 0o755),
        mkdir("/opt", 0o755),
        mkdir("/root", 0o700),
        mkdir("/tmp", 0o1777),
        mkdir("/home/user", 0o755),
        FileWork::Chown {
            path: b"/home/user".to_vec(),
            uid: 1000,
            gid: 1000,
        },
        FileWork::Write {
            path: probe::PATH.into(),
            text: b"the fake knows what it does".to_vec(),
        },
        FileWork::Chmod {
            path: probe::PATH.into(),
            mode: 0o755,
        },
    ];
    for one in works {
        work(&mut disk, who, one).expect("an empty disk takes all of this");
    }
    disk
}

fn mkdir(path: &str, mode: u32) -> FileWork {
    FileWork::Mkdir {
        path: path.into(),
        mode,
    }
}

pub(super) const MACHINE_ID: &str = "/etc/machine-id";

pub(super) fn work(disk: &mut Disk, who: Who, work: FileWork) -> Result<(), Errno> {
    match work {
        FileWork::Write { path, text } => write(disk, who, &path, Content::from(&text[..])),
        FileWork::Append { path, text } => {
            let inode = disk.open(&path, who)?;
            disk.append(inode, &text)
        }
        FileWork::Rm(path) => disk.remove_file(&path, who),
        FileWork::Rmdir(path) => disk.remove_directory(&path, who),
        FileWork::Rmtree(path) => disk.remove_tree(&path, who),
        FileWork::Mv { from, to } => disk.rename(&from, &to, who),
        FileWork::Mkdir { path, mode } => {
            let inode = disk.make_directories(&path, who)?;
            chmod(disk, who, inode, mode)
        }
        FileWork::Chmod { path, mode } => {
            let inode = disk.find(&path)?;
            chmod(disk, who, inode, mode)
        }
        FileWork::Chown { path, uid, gid } => {
            let inode = disk.find_itself(&path)?;
            if who.uid != 0 {
                return Err(Errno::Denied);
            }
            let node = disk.node_mut(inode);
            (node.uid, node.gid) = (uid, gid);
            Ok(())
        }
        FileWork::Setxattr { path, name, value } => setxattr(disk, &path, name, value),
        FileWork::Setcap(path) => setxattr(
            disk,
            &path,
            CAPABILITY_XATTR.to_owned(),
            CAP_NET_BIND_SERVICE.to_vec(),
        ),
        FileWork::Sparse { path, size } => {
            let zeros = size.saturating_sub(SPARSE_END.len() as u64);
            write(
                disk,
                who,
                &path,
                Content {
                    zeros,
                    hole: true,
                    bytes: SPARSE_END.to_vec(),
                },
            )
        }
        FileWork::Mkfifo(path) => disk
            .insert(&path, Node::new(Kind::Fifo, 0o644, who), who)
            .map(drop),
        FileWork::Socket(path) => disk
            .insert(&path, Node::new(Kind::Socket, 0o755, who), who)
            .map(drop),
        FileWork::Symlink { target, path } => disk
            .insert(&path, Node::new(Kind::Symlink(target), 0o777, who), who)
            .map(drop),
        FileWork::Link { existing, path } => disk.link(&existing, &path, who),
    }
}

pub(super) fn write(disk: &mut Disk, who: Who, path: &[u8], content: Content) -> Result<(), Errno> {
    let inode = disk.open(path, who)?;
    disk.set_content(inode, content)
}

fn chmod(disk: &mut Disk, who: Who, inode: Inode, mode: u32) -> Result<(), Errno> {
    let node = disk.node_mut(inode);
    if who.uid != 0 && who.uid != node.uid {
        return Err(Errno::Denied);
    }
    node.mode = mode;
    Ok(())
}

fn setxattr(disk: &mut Disk, path: &[u8], name: String, value: Vec<u8>) -> Result<(), Errno> {
    let inode = disk.find_itself(path)?;
    disk.node_mut(inode).xattrs.insert(name, value);
    Ok(())
}

pub(super) fn manifest(disk: &Disk, path: &[u8]) -> Result<Vec<ManifestLine>, Errno> {
    let root = disk.find_itself(path)?;
    let mut seen = HashMap::new();
    let mut lines = vec![line(disk, ".".to_owned(), root, &mut seen)];
    for (path, inode) in disk.below(root) {
        lines.push(line(disk, probe::escape(&path), inode, &mut seen));
    }
    Ok(lines)
}

fn line(
    disk: &Disk,
    path: String,
    inode: Inode,
    seen: &mut HashMap<Inode, String>,
) -> ManifestLine {
    let node = disk.node(inode);
    let (kind, size, hash, sparse) = match &node.kind {
        Kind::File(content) => {
            let hash = probe::hash([content.whole().as_slice()]);
            let sparse = ManifestLine::is_sparse(content.size(), content.allocated());
            (LineKind::File, content.size(), Some(hash), sparse)
        }
        Kind::Directory(_) => (LineKind::Directory, 0, None, false),
        Kind::Symlink(target) => (
            LineKind::Symlink,
            target.len() as u64,
            Some(probe::hash([target.as_slice()])),
            false,
        ),
        Kind::Fifo => (LineKind::Fifo, 0, None, false),
        Kind::Socket => (LineKind::Socket, 0, None, false),
    };
    let links = if kind == LineKind::Directory {
        1
    } else {
        disk.links(inode)
    };
    let same_as = (links > 1).then(|| seen.entry(inode).or_insert_with(|| path.clone()).clone());
    ManifestLine {
        path,
        kind,
        mode: node.mode,
        uid: node.uid,
        gid: node.gid,
        size,
        hash,
        sparse,
        links,
        same_as,
        xattrs: xattrs(node),
    }
}

fn xattrs(node: &Node) -> BTreeMap<String, String> {
    let wanted = node
        .xattrs
        .iter()
        .filter(|(name, _)| ManifestLine::wants_xattr(name));
    wanted
        .map(|(name, value)| (name.clone(), probe::hexadecimal(value)))
        .collect()
}
