//! Sandboxes and snapshots as files: one for each record, each disk, each snapshot, replaced as a
//! whole.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::SnapshotId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wire::Raw;

use crate::fake::disk::Disk;
use crate::fake::keep::Keep;
use crate::fake::node::{Content, Inode, Kind, Node};
use crate::fake::{Fake, Held, Record, Run, State};
use crate::{ProviderError, SandboxId, SandboxState};

#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
}

const RECORDS: &str = "sandboxes";
const DISKS: &str = "disks";
const SNAPSHOTS: &str = "snapshots";

impl Store {
    /// A fake with everything that was kept here, and which keeps everything here.
    pub(super) fn open(directory: &Path) -> io::Result<Fake> {
        let store = Self {
            directory: directory.to_owned(),
        };
        for kind in [RECORDS, DISKS, SNAPSHOTS] {
            fs_err::create_dir_all(directory.join(kind))?;
        }
        let mut builder = Fake::builder();
        builder.state = store.load()?;
        builder.runs = store.load_runs()?;
        builder.keep = Arc::new(store);
        Ok(builder.build())
    }

    fn load(&self) -> io::Result<State> {
        let mut state = State::default();
        for name in self.names(SNAPSHOTS)? {
            let id: SnapshotId = name.parse().map_err(io::Error::other)?;
            state
                .snapshots
                .insert(id, self.read::<SavedDisk>(SNAPSHOTS, &name)?.into());
        }
        for name in self.names(RECORDS)? {
            let mut record: Record = self.read(RECORDS, &name)?;
            // Its processes were ours.
            if matches!(
                record.sandbox.state,
                SandboxState::Running | SandboxState::Paused { .. }
            ) {
                record.sandbox.state = SandboxState::Ended;
            }
            let disk: Disk = self.read::<SavedDisk>(DISKS, &name)?.into();
            let held = Held {
                record,
                disk: Arc::new(Mutex::new(disk)),
                machine: None,
            };
            state.sandboxes.insert(held.record.sandbox.id, held);
        }
        Ok(state)
    }

    fn runs(&self) -> PathBuf {
        self.directory.join("runs")
    }

    fn load_runs(&self) -> io::Result<Vec<Run>> {
        let text = match fs_err::read_to_string(self.runs()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let runs = text.lines().map(serde_json::from_str);
        Ok(runs.collect::<Result<_, _>>()?)
    }

    fn names(&self, kind: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs_err::read_dir(self.directory.join(kind))? {
            let name = entry?.file_name();
            // Whatever has no such ending was about to be written when the process ended.
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn path(&self, kind: &str, name: &str) -> PathBuf {
        self.directory.join(kind).join(format!("{name}.json"))
    }

    fn read<T: DeserializeOwned>(&self, kind: &str, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs_err::read(
            self.path(kind, name),
        )?)?)
    }

    fn write(&self, kind: &str, name: &str, value: &impl Serialize) -> Result<(), ProviderError> {
        let path = self.path(kind, name);
        let partial = path.with_extension("partial");
        let written = serde_json::to_vec(value)
            .map_err(io::Error::from)
            .and_then(|text| fs_err::write(&partial, text))
            .and_then(|()| fs_err::rename(&partial, &path));
        written.map_err(|error| ProviderError::unavailable("save", error))
    }

    fn delete(&self, kind: &str, name: &str) -> Result<(), ProviderError> {
        match fs_err::remove_file(self.path(kind, name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ProviderError::unavailable("save", error))
            }
            _ => Ok(()),
        }
    }
}

impl Keep for Store {
    fn record(&self, record: &Record) -> Result<(), ProviderError> {
        self.write(RECORDS, &record.sandbox.id.to_string(), record)
    }

    fn disk(&self, id: SandboxId, disk: &Disk) -> Result<(), ProviderError> {
        // Files that are still being written when their sandbox is removed may come here once
        // more; a disk without a record is never read.
        self.write(DISKS, &id.to_string(), &SavedDisk::from(disk))
    }

    fn forget(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.delete(RECORDS, &id.to_string())?;
        self.delete(DISKS, &id.to_string())
    }

    fn snapshot(&self, id: &SnapshotId, disk: &Disk) -> Result<(), ProviderError> {
        self.write(SNAPSHOTS, &id.to_string(), &SavedDisk::from(disk))
    }

    fn forget_snapshot(&self, id: &SnapshotId) -> Result<(), ProviderError> {
        self.delete(SNAPSHOTS, &id.to_string())
    }

    fn run(&self, run: &Run) {
        let line = serde_json::to_string(run).map(|line| line + "\n");
        let appended = line.map_err(io::Error::from).and_then(|line| {
            let mut open = fs_err::OpenOptions::new();
            let mut file = open.append(true).create(true).open(self.runs())?;
            file.write_all(line.as_bytes())
        });
        // What is not counted could hide a second run.
        appended.expect("a run can be counted");
    }
}

#[derive(Serialize, Deserialize)]
struct SavedDisk {
    nodes: BTreeMap<Inode, SavedNode>,
    limit: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct SavedNode {
    mode: u32,
    uid: u32,
    gid: u32,
    xattrs: BTreeMap<String, Raw>,
    kind: SavedKind,
}

#[derive(Serialize, Deserialize)]
enum SavedKind {
    File { zeros: u64, hole: bool, bytes: Raw },
    Directory(Vec<(Raw, Inode)>),
    Symlink(Raw),
    Fifo,
    Socket,
}

impl From<&Disk> for SavedDisk {
    fn from(disk: &Disk) -> Self {
        let saved = |node: &Node| SavedNode {
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            xattrs: node
                .xattrs
                .iter()
                .map(|(name, value)| (name.clone(), Raw(value.clone())))
                .collect(),
            kind: match &node.kind {
                Kind::File(Content { zeros, hole, bytes }) => SavedKind::File {
                    zeros: *zeros,
                    hole: *hole,
                    bytes: Raw(bytes.clone()),
                },
                Kind::Directory(entries) => SavedKind::Directory(
                    entries
                        .iter()
                        .map(|(name, inode)| (Raw(name.clone()), *inode))
                        .collect(),
                ),
                Kind::Symlink(target) => SavedKind::Symlink(Raw(target.clone())),
                Kind::Fifo => SavedKind::Fifo,
                Kind::Socket => SavedKind::Socket,
            },
        };
        let nodes = disk
            .nodes
            .iter()
            .map(|(inode, node)| (*inode, saved(node)))
            .collect();
        Self {
            nodes,
            limit: disk.limit,
        }
    }
}

impl From<SavedDisk> for Disk {
    fn from(saved: SavedDisk) -> Self {
        let restored = |node: SavedNode| Node {
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            xattrs: node
                .xattrs
                .into_iter()
                .map(|(name, value)| (name, value.0))
                .collect(),
            kind: match node.kind {
                SavedKind::File { zeros, hole, bytes } => Kind::File(Content {
                    zeros,
                    hole,
                    bytes: bytes.0,
                }),
                SavedKind::Directory(entries) => Kind::Directory(
                    entries
                        .into_iter()
                        .map(|(name, inode)| (name.0, inode))
                        .collect(),
                ),
                SavedKind::Symlink(target) => Kind::Symlink(target.0),
                SavedKind::Fifo => Kind::Fifo,
                SavedKind::Socket => Kind::Socket,
            },
        };
        let nodes = saved
            .nodes
            .into_iter()
            .map(|(inode, node)| (inode, restored(node)))
            .collect();
        Self {
            nodes,
            limit: saved.limit,
        }
    }
}
