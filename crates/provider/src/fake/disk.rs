//! A file system in memory: inodes, names, links.

use std::collections::{BTreeMap, VecDeque};

use super::node::{Content, Errno, Inode, Kind, Node, ROOT, Who};

#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) nodes: BTreeMap<Inode, Node>,
    pub(super) limit: Option<u64>,
}

/// As many as Linux follows.
const MOST_LINKS: u32 = 40;
const WRITE: u32 = 2;

impl Disk {
    pub(super) fn empty() -> Self {
        let root = Node::directory(0o755, Who::SUPERUSER);
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            limit: None,
        }
    }

    pub(super) fn node(&self, inode: Inode) -> &Node {
        self.nodes
            .get(&inode)
            .expect("names lead to inodes that are there")
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> &mut Node {
        self.nodes
            .get_mut(&inode)
            .expect("names lead to inodes that are there")
    }

    pub(super) fn entries(&self, inode: Inode) -> Result<&BTreeMap<Vec<u8>, Inode>, Errno> {
        match &self.node(inode).kind {
            Kind::Directory(entries) => Ok(entries),
            _ => Err(Errno::NotDirectory),
        }
    }

    fn entries_mut(&mut self, inode: Inode) -> &mut BTreeMap<Vec<u8>, Inode> {
        match &mut self.node_mut(inode).kind {
            Kind::Directory(entries) => entries,
            _ => unreachable!("only asked of directories"),
        }
    }

    /// What a path names, links followed.
    pub(super) fn find(&self, path: &[u8]) -> Result<Inode, Errno> {
        self.walk(path, true)
    }

    /// What a path names, the last link not followed.
    pub(super) fn find_itself(&self, path: &[u8]) -> Result<Inode, Errno> {
        self.walk(path, false)
    }

    fn walk(&self, path: &[u8], follow_last: bool) -> Result<Inode, Errno> {
        let mut way = vec![ROOT];
        let mut left: VecDeque<Vec<u8>> = components(path).collect();
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            let here = *way.last().expect("the root stays");
            let entries = self.entries(here)?;
            if name == b".." {
                way.truncate((way.len() - 1).max(1));
                continue;
            }
            let next = *entries.get(&name).ok_or(Errno::Missing)?;
            match &self.node(next).kind {
                Kind::Symlink(target) if follow_last || !left.is_empty() => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::Loop);
                    }
                    if target.first() == Some(&b'/') {
                        way.truncate(1);
                    }
                    for name in components(target).collect::<Vec<_>>().into_iter().rev() {
                        left.push_front(name);
                    }
                }
                _ => way.push(next),
            }
        }
        Ok(*way.last().expect("the root stays"))
    }

    /// The directory and the name in it, for what is about to be made or unmade.
    pub(super) fn place(&self, path: &[u8]) -> Result<(Inode, Vec<u8>), Errno> {
        let trimmed = trim_end(path);
        let cut = trimmed
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        let (directory, name) = trimmed.split_at(cut);
        if name.is_empty() || name == b"." || name == b".." || name.len() > 255 {
            return Err(Errno::Invalid);
        }
        let directory = self.find(directory)?;
        self.entries(directory)?;
        Ok((directory, name.to_vec()))
    }

    pub(super) fn insert(&mut self, path: &[u8], node: Node, who: Who) -> Result<Inode, Errno> {
        let (directory, name) = self.place(path)?;
        self.may(directory, WRITE, who)?;
        if self.entries(directory)?.contains_key(&name) {
            return Err(Errno::Exists);
        }
        let inode = self
            .nodes
            .last_key_value()
            .map_or(ROOT, |(last, _)| last + 1);
        self.nodes.insert(inode, node);
        self.entries_mut(directory).insert(name, inode);
        Ok(inode)
    }

    /// A file to write to: the one that is there, through links, or a new one.
    pub(super) fn open(&mut self, path: &[u8], who: Who) -> Result<Inode, Errno> {
        match self.find(path) {
            Ok(inode) => match self.node(inode).kind {
                Kind::File(_) => self.may(inode, WRITE, who).map(|()| inode),
                _ => Err(Errno::IsDirectory),
            },
            Err(Errno::Missing) if self.find_itself(path).is_ok() => {
                // A broken link: the kernel makes what it points at; nobody here needs that.
                Err(Errno::Missing)
            }
            Err(Errno::Missing) => self.insert(path, Node::file(0o644, who), who),
            Err(error) => Err(error),
        }
    }

    pub(super) fn append(&mut self, inode: Inode, bytes: &[u8]) -> Result<(), Errno> {
        let free = self.free();
        let Kind::File(content) = &mut self.node_mut(inode).kind else {
            return Err(Errno::IsDirectory);
        };
        if free.is_some_and(|free| bytes.len() as u64 > free) {
            return Err(Errno::NoSpace);
        }
        content.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn set_content(&mut self, inode: Inode, content: Content) -> Result<(), Errno> {
        let free = self.free();
        let Kind::File(old) = &mut self.node_mut(inode).kind else {
            return Err(Errno::IsDirectory);
        };
        let more = content.allocated().saturating_sub(old.allocated());
        if free.is_some_and(|free| more > free) {
            return Err(Errno::NoSpace);
        }
        *old = content;
        Ok(())
    }

    pub(super) fn content(&self, inode: Inode) -> Result<&Content, Errno> {
        match &self.node(inode).kind {
            Kind::File(content) => Ok(content),
            _ => Err(Errno::IsDirectory),
        }
    }

    fn free(&self) -> Option<u64> {
        let size = |node: &Node| {
            if let Kind::File(content) = &node.kind {
                content.allocated()
            } else {
                0
            }
        };
        self.limit
            .map(|limit| limit.saturating_sub(self.nodes.values().map(size).sum()))
    }

    pub(super) fn make_directories(&mut self, path: &[u8], who: Who) -> Result<Inode, Errno> {
        let mut so_far = Vec::new();
        for name in components(path) {
            so_far.push(b'/');
            so_far.extend_from_slice(&name);
            match self.find(&so_far) {
                Ok(_) => {}
                Err(Errno::Missing) => {
                    self.insert(&so_far, Node::directory(0o755, who), who)?;
                }
                Err(error) => return Err(error),
            }
        }
        let inode = self.find(&so_far)?;
        self.entries(inode).map(|_| inode)
    }

    pub(super) fn link(&mut self, existing: &[u8], path: &[u8], who: Who) -> Result<(), Errno> {
        let inode = self.find_itself(existing)?;
        let (directory, name) = self.place(path)?;
        self.may(directory, WRITE, who)?;
        if self.entries(directory)?.contains_key(&name) {
            return Err(Errno::Exists);
        }
        self.entries_mut(directory).insert(name, inode);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], who: Who) -> Result<(), Errno> {
        let (source, name) = self.place(from)?;
        let inode = *self.entries(source)?.get(&name).ok_or(Errno::Missing)?;
        let (target, new_name) = self.place(to)?;
        self.may(source, WRITE, who)?;
        self.may(target, WRITE, who)?;
        if let Some(old) = self.entries(target)?.get(&new_name).copied() {
            if self.entries(old).is_ok_and(|entries| !entries.is_empty()) {
                return Err(Errno::NotEmpty);
            }
            self.forget(target, &new_name);
        }
        self.entries_mut(source).remove(&name);
        self.entries_mut(target).insert(new_name, inode);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &[u8], who: Who) -> Result<(), Errno> {
        let inode = self.find_itself(path)?;
        if self.entries(inode).is_ok() {
            Err(Errno::IsDirectory)
        } else {
            self.remove(path, who)
        }
    }

    pub(super) fn remove_directory(&mut self, path: &[u8], who: Who) -> Result<(), Errno> {
        let inode = self.find_itself(path)?;
        if self.entries(inode)?.is_empty() {
            self.remove(path, who)
        } else {
            Err(Errno::NotEmpty)
        }
    }

    pub(super) fn remove_tree(&mut self, path: &[u8], who: Who) -> Result<(), Errno> {
        let inode = self.find_itself(path)?;
        self.entries(inode)?;
        self.remove(path, who)
    }

    fn remove(&mut self, path: &[u8], who: Who) -> Result<(), Errno> {
        let (directory, name) = self.place(path)?;
        self.may(directory, WRITE, who)?;
        self.forget(directory, &name);
        Ok(())
    }

    /// Takes a name away, and what nothing names any more.
    fn forget(&mut self, directory: Inode, name: &[u8]) {
        let Some(inode) = self.entries_mut(directory).remove(name) else {
            return;
        };
        let names: Vec<Vec<u8>> = self
            .entries(inode)
            .map(|entries| entries.keys().cloned().collect())
            .unwrap_or_default();
        for name in names {
            self.forget(inode, &name);
        }
        if self.links(inode) == 0 {
            self.nodes.remove(&inode);
        }
    }

    pub(super) fn links(&self, inode: Inode) -> u64 {
        let named = |node: &Node| match &node.kind {
            Kind::Directory(entries) => entries.values().filter(|to| **to == inode).count() as u64,
            _ => 0,
        };
        self.nodes.values().map(named).sum()
    }

    /// Everything below a directory with its path, parents first.
    pub(super) fn below(&self, directory: Inode) -> Vec<(Vec<u8>, Inode)> {
        let mut found = Vec::new();
        let mut open = vec![(Vec::new(), directory)];
        while let Some((path, inode)) = open.pop() {
            let Ok(entries) = self.entries(inode) else {
                continue;
            };
            for (name, inode) in entries {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    [&path[..], b"/", name].concat()
                };
                found.push((path.clone(), *inode));
                open.push((path, *inode));
            }
        }
        found.sort();
        found
    }

    /// What a snapshot keeps: nobody listens on a restored socket.
    pub(super) fn sealed(&self) -> Self {
        let mut sealed = self.clone();
        let sockets: Vec<Inode> = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node.kind, Kind::Socket))
            .map(|(inode, _)| *inode)
            .collect();
        for node in sealed.nodes.values_mut() {
            if let Kind::Directory(entries) = &mut node.kind {
                entries.retain(|_, inode| !sockets.contains(inode));
            }
        }
        sealed.nodes.retain(|inode, _| !sockets.contains(inode));
        sealed
    }

    fn may(&self, inode: Inode, bit: u32, who: Who) -> Result<(), Errno> {
        let node = self.node(inode);
        let shift = match () {
            () if who.uid == 0 => return Ok(()),
            () if who.uid == node.uid => 6,
            () if who.gid == node.gid => 3,
            () => 0,
        };
        if (node.mode >> shift) & bit == bit {
            Ok(())
        } else {
            Err(Errno::Denied)
        }
    }
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    names
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
}

fn trim_end(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    &path[..end]
}
