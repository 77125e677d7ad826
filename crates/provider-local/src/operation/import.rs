//! A snapshot on its way in: whole and what it says it is, or not at all.

use std::collections::HashMap;

use model::{Id, Snapshot, SnapshotKind};
use portable::tar::Limits;
use portable::{Control, Index, Rules, Source};
use provider::ProviderError;
use rustix::fs::{CWD, Mode, mkdirat};

use super::Engine;
use super::snapshot::check_snapshot_name;
use crate::error::Doing as _;
use crate::intent::Intent;
use crate::layer::{self, LayerId};
use crate::pack::Hashing;
use crate::rootfs::{fill_once, host};
use crate::snapshot::{SnapshotRecord, base_id, disk_id};
use crate::tree::Contents;
use crate::{merged, tree};

/// What the walkers of trees go through, and what fits on a disk.
const LIMITS: Limits = Limits {
    entries: 0,
    path: 64 << 10,
    depth: 1000,
    extension: 1 << 20,
    bytes: 1 << 40,
};

impl Engine {
    /// `name` is the name that it gets; without one it keeps its own.
    pub(crate) fn import(
        &self,
        source: &mut dyn Source,
        name: Option<&str>,
        control: &Control,
    ) -> Result<SnapshotRecord, ProviderError> {
        let index = match source.index() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ProviderError::refused(error.to_string()));
            }
            other => other.doing("reading the index")?,
        };
        let name = name.or(index.name.as_deref());
        self.check_import(&index, name)?;
        let snapshot: Id<Snapshot> = Id::new(&*self.clock);
        let layers = layer_ids(&index);
        let lock = self.home.share_layers()?;
        let intent = Intent::Bring {
            snapshot,
            layers: layers.clone(),
        }
        .declare(&self.home)?;
        drop(lock);
        model::failpoint::hit("import.intended");
        let result = self
            .bring_layers(&index, &layers, source, control)
            .and_then(|contents| self.record_import(&index, name, snapshot, &layers, &contents));
        intent.done();
        if result.is_err() {
            layer::release(&self.home, &layers)?;
        }
        result
    }

    fn check_import(&self, index: &Index, name: Option<&str>) -> Result<(), ProviderError> {
        if index.snapshot.kind == SnapshotKind::Memory {
            return Err(ProviderError::refused(
                "it is a snapshot of memory, which cannot be moved",
            ));
        }
        if index
            .host
            .as_ref()
            .is_some_and(|h| *h != host::fingerprint())
        {
            return Err(ProviderError::refused(
                "the snapshot rests on the /usr of the host it was made on, and this is another host: make it from `base` or a root file system there, and export that",
            ));
        }
        if let Some(name) = name {
            check_snapshot_name(name)?;
            self.require_free(name)?;
        }
        let disk =
            rustix::fs::statvfs(self.home.root().as_std_path()).doing("measuring the disk")?;
        let wanted: u64 = index
            .layers
            .iter()
            .zip(layer_ids(index).iter().rev())
            .filter(|(_, id)| !layer::exists(&self.home, id))
            .map(|(layer, _)| layer.bytes)
            .sum();
        if wanted > disk.f_bavail.saturating_mul(disk.f_frsize) {
            return Err(ProviderError::refused(format!(
                "the snapshot needs {} and the disk has less free: free some space, or run `nacre storage gc`",
                model::ByteCount::new(wanted)
            )));
        }
        Ok(())
    }

    /// Unpacks the layers that are not here yet; gives what is known of their files.
    fn bring_layers(
        &self,
        index: &Index,
        layers: &[LayerId],
        source: &mut dyn Source,
        control: &Control,
    ) -> Result<Contents, ProviderError> {
        control.expect(index.layers.iter().map(|layer| layer.bytes).sum());
        let mut contents = HashMap::new();
        for (at, (layer, id)) in index.layers.iter().zip(layers.iter().rev()).enumerate() {
            let rules = if at == 0 {
                Rules::LowestLayer
            } else {
                Rules::Layer
            };
            let mut made = false;
            fill_once(&self.home, &*self.clock, id, |place| {
                made = true;
                contents.extend(unpack(layer, source, rules, place, control)?);
                model::failpoint::hit("import.unpacked");
                Ok(())
            })?;
            if !made {
                control.advance(layer.bytes);
            }
        }
        Ok(contents)
    }

    /// Compares what is here now with what was promised, and only then lets anyone see it.
    fn record_import(
        &self,
        index: &Index,
        name: Option<&str>,
        snapshot: Id<Snapshot>,
        layers: &[LayerId],
        contents: &Contents,
    ) -> Result<SnapshotRecord, ProviderError> {
        let top = merged::open(&self.home, layers).doing("opening the layers")?;
        let found = tree::digest(top, contents).doing("reading the layers")?;
        let promised = (&index.digest, index.bytes, index.files);
        if promised != (&found.value, found.bytes, found.files) {
            return Err(ProviderError::refused(format!(
                "the snapshot is not what its index says: it should be {}, and is {}",
                index.digest.chars().take(80).collect::<String>(),
                found.value
            )));
        }
        let record = SnapshotRecord {
            id: if index.snapshot.kind == SnapshotKind::Base {
                base_id(snapshot)
            } else {
                disk_id(snapshot)
            },
            name: name.map(str::to_owned),
            created_at: index.created_at,
            sandbox: None,
            recovered: index.recovered,
            layers: layers.to_vec(),
            host: index.host.clone(),
            digest: Some(found),
            recipe: None,
        };
        self.save_named(&record)?;
        // A receipt is a promise: what it names survives a power cut.
        self.sync()?;
        model::failpoint::hit("import.recorded");
        Ok(record)
    }
}

/// The topmost first, as records have them. The same blobs are the same layer, so that snapshots
/// which shared layers where they came from share them here; but no stack holds one twice.
fn layer_ids(index: &Index) -> Vec<LayerId> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut ids: Vec<LayerId> = index
        .layers
        .iter()
        .enumerate()
        .map(|(at, layer)| {
            let fingerprint = layer.fingerprint();
            let again = seen.entry(fingerprint.clone()).or_default();
            *again += 1;
            let lowest = if at == 0 { "lowest" } else { "over others" };
            LayerId::named("imported", &format!("{lowest} {again} {fingerprint}"))
        })
        .collect();
    ids.reverse();
    ids
}

fn unpack(
    layer: &portable::Layer,
    source: &mut dyn Source,
    rules: Rules,
    place: &camino::Utf8Path,
    control: &Control,
) -> Result<Contents, ProviderError> {
    mkdirat(CWD, place.as_std_path(), Mode::from(0o700)).doing("making the layer")?;
    let root = tree::open_directory(CWD, place.as_std_path()).doing("making the layer")?;
    let limits = Limits {
        entries: layer.entries,
        ..LIMITS
    };
    std::thread::scope(|scope| {
        let mut hashing = Hashing::start(scope);
        let unpacked = portable::stream(source, layer, control, |stream| {
            portable::unpack(stream, root, rules, limits, control, &mut hashing)
        });
        let contents = hashing.finish();
        let unpacked = unpacked.doing("importing a layer")?;
        if unpacked.entries != layer.entries {
            return Err(ProviderError::refused(
                "a layer has fewer entries than its index says",
            ));
        }
        Ok(contents)
    })
}
