use std::time::Instant;

use model::{Id, Snapshot};
use provider::{Kept, ProviderError, Receipt, SandboxId};

use super::Engine;
use crate::claim;
use crate::disk;
use crate::error::Doing as _;
use crate::intent::Intent;
use crate::layer::{self, LayerId};
use crate::record::{Record, State};
use crate::snapshot::{SnapshotRecord, disk_id};
use crate::timing::millis;

/// Under which ids a disk is sealed.
#[derive(Debug, Clone)]
pub(crate) struct Seal {
    pub(crate) layer: LayerId,
    pub(crate) snapshot: Id<Snapshot>,
    /// The sandbox died; nobody asked it to stop.
    pub(crate) recovered: bool,
}

impl Engine {
    /// Ends the processes and leaves the disk.
    pub(crate) fn terminate(&self, id: SandboxId) -> Result<(), ProviderError> {
        let _lock = match self.home.lock_sandbox(id) {
            Err(ProviderError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let Some(mut record) = Record::find(&self.home, id)? else {
            return Ok(());
        };
        if matches!(record.state, State::Stopped { .. } | State::Ended) {
            return Ok(());
        }
        self.end(&record)?;
        record.state = State::Ended;
        record.save(&self.home)
    }

    pub(crate) fn stop(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.finish_what_was_left(id);
        let _lock = self.home.lock_sandbox(id)?;
        let record = Record::load(&self.home, id)?;
        if let State::Stopped { snapshot } = &record.state {
            return Ok(receipt_of(&SnapshotRecord::load(&self.home, snapshot)?));
        }
        self.stop_locked(&record, false)
    }

    /// Seals the disk of a sandbox whose lock we hold.
    pub(crate) fn stop_locked(
        &self,
        record: &Record,
        recovered: bool,
    ) -> Result<Receipt, ProviderError> {
        let seal = Seal {
            layer: LayerId::new(&*self.clock),
            snapshot: Id::new(&*self.clock),
            recovered,
        };
        let intent = Intent::Stop {
            sandbox: record.id,
            layer: seal.layer.clone(),
            snapshot: seal.snapshot,
            recovered,
        }
        .declare(&self.home)?;
        model::failpoint::hit("stop.intended");
        let receipt = self.stop_declared(record, &seal)?;
        intent.done();
        Ok(receipt)
    }

    /// Every step may have been done already: a recovery walks the same way.
    pub(crate) fn stop_declared(
        &self,
        record: &Record,
        seal: &Seal,
    ) -> Result<Receipt, ProviderError> {
        let started = Instant::now();
        // Most of the writing back happens while the sandbox still runs; the unmount finds little.
        self.sync()?;
        let mut sync_ms = millis(started);
        let ended = self.end(record)?;
        model::failpoint::hit("stop.ended");
        let processes_gone = Instant::now();
        layer::prepare(&self.home, &seal.layer)?;
        let place = layer::directory(&self.home, &seal.layer);
        let disk = self.home.sandbox(record.id).join("disk");
        disk::seal(&disk, &place).doing("sealing the disk")?;
        layer::seal(&self.home, &seal.layer, &*self.clock)?;
        model::failpoint::hit("stop.sealed");
        let snapshot = SnapshotRecord {
            id: disk_id(seal.snapshot),
            name: None,
            created_at: self.clock.now(),
            sandbox: Some(record.id),
            recovered: seal.recovered,
            layers: std::iter::once(seal.layer.clone())
                .chain(record.layers.iter().cloned())
                .collect(),
            host: record.host.clone(),
            digest: None,
            recipe: None,
        };
        snapshot.save(&self.home)?;
        let unmount_ms = ended.map_or(0.0, |e| {
            f64::from(u32::try_from(e.unmount_us).unwrap_or(u32::MAX)) / 1000.0
        });
        let sealed_ms = millis(processes_gone) + unmount_ms;
        model::failpoint::hit("stop.recorded");
        let syncing = Instant::now();
        self.sync()?;
        sync_ms += millis(syncing);
        self.bury(record, &snapshot)?;
        model::failpoint::hit("stop.buried");
        Ok(Receipt {
            took_ms: millis(started),
            sync_ms,
            sealed_ms,
            ..receipt_of(&snapshot)
        })
    }

    /// What is left of a stopped sandbox: its record, so that the id still leads to the snapshot.
    fn bury(&self, record: &Record, snapshot: &SnapshotRecord) -> Result<(), ProviderError> {
        let stopped = Record {
            state: State::Stopped {
                snapshot: snapshot.id.clone(),
            },
            // The snapshot names its layers now; this record must not keep them alive.
            layers: Vec::new(),
            ..record.clone()
        };
        stopped.save(&self.home)?;
        let directory = self.home.sandbox(record.id);
        crate::trash::put(&self.home, &directory.join("disk"))?;
        for name in [
            "keeper.json",
            "exit.json",
            "frozen.json",
            "keeper.sock",
            "guest.sock",
            "keeper.log",
        ] {
            let _ = fs_err::remove_file(directory.join(name));
        }
        // The key still leads here: whoever ensures it goes on from this disk.
        self.release_range_and_name(record);
        Ok(())
    }

    pub(crate) fn release_range_and_name(&self, record: &Record) {
        claim::release(
            &self.home,
            "ranges",
            &record.first_id.to_string(),
            record.id,
        );
        if let Some(name) = &record.name {
            claim::release(&self.home, "names", name, record.id);
        }
    }

    pub(crate) fn release_claims(&self, record: &Record) {
        self.release_range_and_name(record);
        if let Some(key) = &record.key {
            claim::release(&self.home, "keys", key, record.id);
        }
    }

    /// Everything in the home, layers and records, is on the disk.
    pub(crate) fn sync(&self) -> Result<(), ProviderError> {
        self.home.sync().doing("syncing")
    }
}

pub(crate) fn receipt_of(snapshot: &SnapshotRecord) -> Receipt {
    let digest = snapshot.digest.as_ref();
    Receipt {
        snapshot: Some(snapshot.id.clone()),
        digest: digest.map(|d| d.value.clone()),
        bytes: digest.map(|d| d.bytes),
        files: digest.map(|d| d.files),
        kept: Kept::Disk,
        took_ms: 0.0,
        frozen_ms: 0.0,
        sync_ms: 0.0,
        sealed_ms: 0.0,
    }
}
