//! Whether layers and snapshots are still what they were: a scrub that names what is damaged.

use std::collections::BTreeMap;
use std::io;

use camino::Utf8PathBuf;
use model::{Id, SnapshotId};
use portable::Control;
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::Home;
use crate::intent::{Held, Intent};
use crate::layer::{self, LayerId};
use crate::operation::Engine;
use crate::snapshot::{Digest, SnapshotRecord};
use crate::tree::{Contents, Manifest, ReadFrom};
use crate::{Damaged, Verified, merged, tree};

/// More paths than a person reads.
const MOST_PATHS: usize = 20;

/// What a layer was when it was first read, and what it is now.
struct Scanned {
    now: Manifest,
    is_noted: bool,
    damaged: Option<Damaged>,
}

impl Engine {
    /// Reads every layer of these snapshots once. A snapshot without a digest gets one: the first
    /// look is what later ones are compared with.
    pub(crate) fn verify(
        &self,
        ids: &[SnapshotId],
        control: &Control,
    ) -> Result<Vec<Verified>, ProviderError> {
        let (records, held) = self.hold_all(ids)?;
        let result = self.verify_held(&records, control);
        held.done();
        result
    }

    /// The records, and an intent by which their layers stay while they are read.
    fn hold_all(&self, ids: &[SnapshotId]) -> Result<(Vec<SnapshotRecord>, Held), ProviderError> {
        let _lock = self.home.share_layers()?;
        let mut records = Vec::new();
        for id in ids {
            match SnapshotRecord::load(&self.home, id) {
                // Of many, one may have been removed meanwhile.
                Err(ProviderError::NotFound { .. }) if ids.len() > 1 => {}
                other => records.push(other?),
            }
        }
        let held = Intent::Export {
            export: Id::new(&*self.clock),
            layers: records.iter().flat_map(|r| r.layers.clone()).collect(),
        }
        .declare(&self.home)?;
        Ok((records, held))
    }

    fn verify_held(
        &self,
        records: &[SnapshotRecord],
        control: &Control,
    ) -> Result<Vec<Verified>, ProviderError> {
        control.expect(self.size_of(records));
        let mut contents = Contents::new();
        let mut scanned = BTreeMap::new();
        for id in records.iter().flat_map(|record| &record.layers) {
            if !scanned.contains_key(id) {
                scanned.insert(id.clone(), self.scan(id, &mut contents, control)?);
            }
        }
        let mut all = Vec::new();
        for record in records {
            control.check().doing("verifying")?;
            all.push(self.compare(record, &scanned, &contents)?);
        }
        // What was never noted is noted if all that stand on it are what they should be.
        for (id, layer) in &scanned {
            let is_sound = records
                .iter()
                .zip(&all)
                .all(|(record, verified)| verified.ok || !record.layers.contains(id));
            if is_sound && !layer.is_noted {
                note(&self.home, id, &layer.now);
            }
        }
        Ok(all)
    }

    /// What there is to read, as far as it is known.
    fn size_of(&self, records: &[SnapshotRecord]) -> u64 {
        let mut layers: Vec<&LayerId> = records.iter().flat_map(|r| &r.layers).collect();
        layers.sort();
        layers.dedup();
        layers
            .into_iter()
            .filter_map(|id| tree::measure(&layer::files(&self.home, id)).ok())
            .map(|measure| measure.bytes)
            .sum()
    }

    fn scan(
        &self,
        id: &LayerId,
        contents: &mut Contents,
        control: &Control,
    ) -> Result<Scanned, ProviderError> {
        let reading = || format!("reading layer {id}");
        let before = noted(&self.home, id);
        let top = merged::open(&self.home, std::slice::from_ref(id)).doing(reading())?;
        let now = Manifest::scan(top, contents, ReadFrom::Disk, &|bytes| {
            control.advance(bytes);
            control.check()
        })
        .doing(reading())?;
        let different = before
            .as_ref()
            .map(|before| before.differences(&now))
            .unwrap_or_default();
        let shown = |path: &Vec<u8>| format!("/{}", String::from_utf8_lossy(path));
        let damaged = (!different.is_empty()).then(|| Damaged {
            layer: id.to_string(),
            paths: different.iter().take(MOST_PATHS).map(shown).collect(),
            count: different.len() as u64,
        });
        Ok(Scanned {
            now,
            is_noted: before.is_some(),
            damaged,
        })
    }

    fn compare(
        &self,
        record: &SnapshotRecord,
        scanned: &BTreeMap<LayerId, Scanned>,
        contents: &Contents,
    ) -> Result<Verified, ProviderError> {
        let top = merged::open(&self.home, &record.layers).doing("opening the snapshot")?;
        let found: Digest = tree::digest(top, contents).doing("reading the snapshot")?;
        let expected = record.digest.as_ref().map(|digest| digest.value.clone());
        let damaged: Vec<Damaged> = record
            .layers
            .iter()
            .filter_map(|id| scanned.get(id)?.damaged.clone())
            .collect();
        let is_same = expected.as_ref().is_none_or(|value| *value == found.value);
        if expected.is_none() && damaged.is_empty() {
            let _lock = self.home.own_snapshots()?;
            // It may have been removed, flattened or given a digest meanwhile.
            if let Some(mut current) = SnapshotRecord::find(&self.home, record.id.id)?
                && current.digest.is_none()
                && current.layers == record.layers
            {
                current.digest = Some(found.clone());
                current.save(&self.home)?;
            }
        }
        Ok(Verified {
            id: record.id.clone(),
            ok: is_same && damaged.is_empty(),
            expected,
            found: found.value,
            damaged,
        })
    }

    /// Writes down what a layer is, unless that was done before. Only a help to `verify`: when it
    /// fails, nothing is lost.
    pub(crate) fn note_manifest(&self, id: &LayerId, contents: &mut Contents) {
        if manifest_path(&self.home, id).exists() {
            return;
        }
        let scanned = merged::open(&self.home, std::slice::from_ref(id))
            .and_then(|top| Manifest::scan(top, contents, ReadFrom::Cache, &|_| Ok(())));
        match scanned {
            Ok(manifest) => note(&self.home, id, &manifest),
            Err(error) => tracing::debug!(%error, %id, "a layer's manifest is not written"),
        }
    }
}

fn manifest_path(home: &Home, id: &LayerId) -> Utf8PathBuf {
    layer::directory(home, id).join("manifest")
}

fn noted(home: &Home, id: &LayerId) -> Option<Manifest> {
    Manifest::parse(&fs_err::read(manifest_path(home, id)).ok()?)
}

fn note(home: &Home, id: &LayerId, manifest: &Manifest) {
    let write = || -> io::Result<()> {
        let path = manifest_path(home, id);
        let (aside, mut file) = crate::home::aside(home, "")?;
        io::Write::write_all(&mut file, &manifest.to_bytes()?)?;
        fs_err::rename(aside, path)
    };
    if let Err(error) = write() {
        tracing::debug!(%error, %id, "a layer's manifest is not written");
    }
}
