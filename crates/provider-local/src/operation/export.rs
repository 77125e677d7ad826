//! A snapshot on its way out.

use std::time::Instant;

use model::{Id, SnapshotId, SnapshotKind};
use portable::index::{FORMAT, VERSION};
use portable::{Control, Index, Packing, Target};
use provider::{Capability, ProviderError};
use serde::{Deserialize, Serialize};

use super::Engine;
use crate::Exported;
use crate::error::Doing as _;
use crate::home::{read_json, write_json};
use crate::intent::{Held, Intent};
use crate::layer::{self, LayerId};
use crate::pack::{self, Form};
use crate::snapshot::{Digest, SnapshotRecord};
use crate::timing::millis;

/// `layers/ID/portable.json`: what a layer was when it was last sent, so that a place that has it
/// need not be sent it again, and nobody has to read it to find that out.
#[derive(Debug, Serialize, Deserialize)]
struct Known {
    form: Form,
    level: i32,
    layer: portable::Layer,
}

impl Engine {
    pub(crate) fn export(
        &self,
        id: &SnapshotId,
        target: &mut dyn Target,
        packing: Packing,
        control: &Control,
    ) -> Result<Exported, ProviderError> {
        let started = Instant::now();
        if id.kind == SnapshotKind::Memory {
            return Err(ProviderError::Unsupported(Capability::MemorySnapshot));
        }
        let (record, digest, held) = self.hold(id)?;
        let result = self.send(&record, &digest, target, packing, control);
        held.done();
        let index = result?;
        Ok(Exported {
            snapshot: record.id,
            digest: digest.value,
            bytes: digest.bytes,
            files: digest.files,
            layers: index.layers.len(),
            packed_bytes: index.blobs().map(|blob| blob.size).sum(),
            sent: target.sent(),
            took_ms: millis(started),
        })
    }

    /// The snapshot with its digest, and an intent by which its layers stay while we read them.
    fn hold(&self, id: &SnapshotId) -> Result<(SnapshotRecord, Digest, Held), ProviderError> {
        loop {
            if SnapshotRecord::load(&self.home, id)?.digest.is_none() {
                self.digest(id)?;
            }
            let lock = self.home.share_layers()?;
            let record = SnapshotRecord::load(&self.home, id)?;
            let Some(digest) = record.digest.clone() else {
                continue;
            };
            let held = Intent::Export {
                export: Id::new(&*self.clock),
                layers: record.layers.clone(),
            }
            .declare(&self.home)?;
            drop(lock);
            return Ok((record, digest, held));
        }
    }

    fn send(
        &self,
        record: &SnapshotRecord,
        digest: &Digest,
        target: &mut dyn Target,
        packing: Packing,
        control: &Control,
    ) -> Result<Index, ProviderError> {
        control.expect(digest.bytes);
        let mut layers = Vec::new();
        for at in (0..record.layers.len()).rev() {
            let (id, below) = (&record.layers[at], &record.layers[at + 1..]);
            layers.push(self.send_layer(id, below, target, packing, control)?);
        }
        let index = Index {
            format: FORMAT.to_owned(),
            version: VERSION,
            snapshot: record.id.clone(),
            name: record.name.clone(),
            created_at: record.created_at,
            recovered: record.recovered,
            host: record.host.clone(),
            digest: digest.value.clone(),
            bytes: digest.bytes,
            files: digest.files,
            layers,
        };
        target.finish(&index).doing("finishing the export")?;
        Ok(index)
    }

    fn send_layer(
        &self,
        id: &LayerId,
        below: &[LayerId],
        target: &mut dyn Target,
        packing: Packing,
        control: &Control,
    ) -> Result<portable::Layer, ProviderError> {
        let reading = || format!("reading layer {id}");
        let form = Form::choose(&self.home, id, below).doing(reading())?;
        let path = layer::directory(&self.home, id).join("portable.json");
        let known = read_json::<Known>(&path).ok().flatten();
        if let Some(known) = known.filter(|k| k.form == form && k.level == packing.level) {
            let mut all = true;
            for blob in &known.layer.blobs {
                all = all && target.has(blob).doing("asking for a blob")?;
            }
            if all {
                target.found(known.layer.blobs.len() as u64);
                control.advance(known.layer.bytes);
                return Ok(known.layer);
            }
        }
        let sent = pack::layer(&self.home, id, &form, target, packing, control)
            .doing(format!("exporting layer {id}"))?;
        let known = Known {
            form,
            level: packing.level,
            layer: sent,
        };
        // Only a help: without it the layer is read again.
        if let Err(error) = write_json(&self.home, &path, &known) {
            tracing::debug!(%error, "what a layer is made of is not kept");
        }
        Ok(known.layer)
    }
}
