//! Immutable layers, 0-based on disk whatever ids wrote them, and who still needs them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io;

use camino::Utf8PathBuf;
use fs_err as fs;
use model::{Clock, Timestamp};
use provider::ProviderError;
use serde::{Deserialize, Serialize};

use crate::error::Doing as _;
use crate::home::{Home, Lock, entries, read_json, write_json};
use crate::record::Record;
use crate::snapshot::SnapshotRecord;
use crate::{intent, trash};

/// An unreferenced layer is kept this long: its record may be on its way, or in a backup.
const ORPHAN_GRACE: model::SignedDuration = model::SignedDuration::from_hours(24);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LayerId(String);

impl LayerId {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let id: model::Id<model::Snapshot> = model::Id::new(clock);
        Self(id.to_string().replace("snp_", "lay_"))
    }

    /// One that stands in the store under this name.
    pub(crate) fn existing(name: String) -> Self {
        Self(name)
    }

    /// A layer known by what it is made of, such as the host's skeleton.
    pub(crate) fn named(kind: &str, fingerprint: &str) -> Self {
        Self(format!(
            "{kind}-{}",
            &blake3::hash(fingerprint.as_bytes()).to_hex()[..24]
        ))
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `layer.json`, written last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Layer {
    pub(crate) id: LayerId,
    pub(crate) created_at: Timestamp,
}

pub(crate) fn directory(home: &Home, id: &LayerId) -> Utf8PathBuf {
    home.path(format!("layers/{id}"))
}

pub(crate) fn files(home: &Home, id: &LayerId) -> Utf8PathBuf {
    directory(home, id).join("fs")
}

/// Puts a layer's files where [`files`] says, if they came otherwise: see `disk`.
pub(crate) fn settle(home: &Home, id: &LayerId) -> io::Result<()> {
    let directory = directory(home, id);
    if std::fs::symlink_metadata(directory.join("disk")).is_err() {
        return Ok(());
    }
    let lock = Lock::exclusive(File::open(&directory)?, &format!("layer {id}"))
        .map_err(io::Error::other)?;
    // Another process may have done it, or have removed the layer, while we waited.
    if !lock.is_at(&directory) || std::fs::symlink_metadata(directory.join("disk")).is_err() {
        return Ok(());
    }
    crate::disk::settle(&directory)
}

pub(crate) fn exists(home: &Home, id: &LayerId) -> bool {
    directory(home, id).join("layer.json").exists()
}

/// Whether it can be mounted.
pub(crate) fn check(home: &Home, id: &LayerId) -> Result<(), ProviderError> {
    let what = || format!("layer {id} of the snapshot");
    if !exists(home, id) {
        return Err(ProviderError::not_found(what()));
    }
    if !crate::disk::is_there(&directory(home, id)) {
        return Err(ProviderError::damaged(what(), "its files are gone"));
    }
    Ok(())
}

/// Whatever is in the store, whole or not.
pub(crate) fn all(home: &Home) -> Result<Vec<LayerId>, ProviderError> {
    Ok(entries(&home.path("layers"))?
        .into_iter()
        .map(LayerId)
        .collect())
}

/// Makes the place for a layer's files; it becomes a layer by [`seal`].
pub(crate) fn prepare(home: &Home, id: &LayerId) -> Result<Utf8PathBuf, ProviderError> {
    let directory = directory(home, id);
    fs::create_dir_all(&directory).doing(format!("making layer {id}"))?;
    Ok(directory.join("fs"))
}

pub(crate) fn seal(home: &Home, id: &LayerId, clock: &dyn Clock) -> Result<(), ProviderError> {
    let layer = Layer {
        id: id.clone(),
        created_at: clock.now(),
    };
    write_json(home, &directory(home, id).join("layer.json"), &layer)
}

/// Whatever stands in for a layer that was never sealed.
pub(crate) fn discard(home: &Home, id: &LayerId) -> Result<(), ProviderError> {
    trash::put(home, &directory(home, id))
}

/// Every layer that a record names.
pub(crate) fn referenced(home: &Home) -> Result<BTreeSet<LayerId>, ProviderError> {
    let mut layers: BTreeSet<LayerId> = intent::layers_in_use(home)?.into_iter().collect();
    for snapshot in SnapshotRecord::all(home)? {
        layers.extend(snapshot.layers);
    }
    for name in entries(&home.path("sandboxes"))? {
        if let Ok(id) = name.parse()
            && let Some(record) = Record::find_unfinished(home, id)?
        {
            layers.extend(record.layers);
        }
    }
    Ok(layers)
}

/// Removes those of `candidates` that nobody names any more.
pub(crate) fn release(home: &Home, candidates: &[LayerId]) -> Result<u64, ProviderError> {
    let lock = home.own_layers()?;
    let needed = match referenced(home) {
        Ok(needed) => needed,
        Err(error) => {
            // Without every record nobody can say that a layer is not named.
            tracing::warn!(%error, "no layer is removed");
            return Ok(0);
        }
    };
    let mut taken = Vec::new();
    for id in candidates {
        if !needed.contains(id) && !is_host_skeleton(id) {
            taken.extend(trash::take(home, &directory(home, id))?);
        }
    }
    // Deleting takes long, and creates wait for the lock.
    drop(lock);
    let removed = taken.len() as u64;
    taken.into_iter().try_for_each(trash::Taken::delete)?;
    Ok(removed)
}

/// A sandbox is gone: layers that only it named (a fork's copy) go with it.
pub(crate) fn release_unsnapshotted(
    home: &Home,
    candidates: &[LayerId],
) -> Result<(), ProviderError> {
    // Most sandboxes stand on snapshots and bases alone; then there is nothing to look for.
    let candidates: Vec<LayerId> = candidates
        .iter()
        .filter(|id| id.0.starts_with("lay_"))
        .cloned()
        .collect();
    if !candidates.is_empty() {
        release(home, &candidates)?;
    }
    Ok(())
}

/// Cheap to keep, and the next sandbox wants it.
fn is_host_skeleton(id: &LayerId) -> bool {
    id.0.starts_with("host-")
}

/// Removes layers that no record has named for a day.
pub(crate) fn collect(home: &Home, clock: &dyn Clock) -> Result<(u64, u64), ProviderError> {
    let lock = home.own_layers()?;
    let needed = referenced(home)?;
    let mut taken = Vec::new();
    for name in entries(&home.path("layers"))? {
        let id = LayerId::existing(name);
        if needed.contains(&id) || is_host_skeleton(&id) {
            continue;
        }
        let directory = directory(home, &id);
        let since = match read_json::<Layer>(&directory.join("layer.json")) {
            Ok(Some(layer)) => Some(layer.created_at),
            _ => std::fs::metadata(&directory)
                .and_then(|m| m.modified())
                .ok()
                .and_then(|time| Timestamp::try_from(time).ok()),
        };
        // One that vanished meanwhile has no age.
        if since.is_some_and(|since| clock.now().duration_since(since) >= ORPHAN_GRACE) {
            taken.extend(trash::take(home, &directory)?);
        }
    }
    drop(lock);
    let (mut count, mut bytes) = (0, 0);
    for taken in taken {
        bytes += taken.measure();
        taken.delete()?;
        count += 1;
    }
    Ok((count, bytes))
}
