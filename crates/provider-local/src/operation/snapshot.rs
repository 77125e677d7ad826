use std::collections::HashSet;
use std::time::{Duration, Instant};

use model::{Id, Snapshot, SnapshotId};
use provider::{ProviderError, Receipt, SandboxId, SandboxState};
use wire::keeper::Request;

use super::pause::not_running;
use super::stop::receipt_of;
use super::{Engine, Keeper};
use crate::error::Doing as _;
use crate::home::Lock;
use crate::intent::Intent;
use crate::layer::{self, LayerId};
use crate::record::{Record, State};
use crate::snapshot::{Digest, SnapshotRecord, disk_id};
use crate::timing::millis;
use crate::{disk, merged, tree};

/// How often everything is written back at most before a sandbox is made to stand still, and how
/// long the last of it takes where nobody else writes.
const SETTLING: u32 = 4;
const SETTLED: Duration = Duration::from_millis(5);

/// A copy of a living sandbox's upper.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) record: Record,
    pub(crate) frozen_ms: f64,
    /// Held until a record names the stack: while the sandbox stands, so do the layers it names.
    pub(crate) _lock: Lock,
}

impl Engine {
    pub(crate) fn snapshot(
        &self,
        id: SandboxId,
        name: Option<&str>,
    ) -> Result<Receipt, ProviderError> {
        let started = Instant::now();
        if let Some(name) = name {
            check_snapshot_name(name)?;
            self.require_free(name)?;
        }
        let snapshot: Id<Snapshot> = Id::new(&*self.clock);
        let layer = LayerId::new(&*self.clock);
        let intent = Intent::Capture {
            sandbox: id,
            layer: layer.clone(),
            snapshot: Some(snapshot),
        }
        .declare(&self.home)?;
        model::failpoint::hit("snapshot.intended");
        let result = self.capture(id, &layer).and_then(|captured| {
            let record = SnapshotRecord {
                id: disk_id(snapshot),
                name: name.map(str::to_owned),
                created_at: self.clock.now(),
                sandbox: Some(id),
                recovered: false,
                layers: std::iter::once(layer.clone())
                    .chain(captured.record.layers)
                    .collect(),
                host: captured.record.host,
                digest: None,
                recipe: None,
            };
            self.save_named(&record)?;
            // A receipt is a promise: what it names survives a power cut.
            let syncing = Instant::now();
            self.sync()?;
            let sync_ms = millis(syncing);
            model::failpoint::hit("snapshot.recorded");
            Ok(Receipt {
                took_ms: millis(started),
                frozen_ms: captured.frozen_ms,
                sync_ms,
                ..receipt_of(&record)
            })
        });
        if result.is_err() {
            layer::discard(&self.home, &layer)?;
        }
        intent.done();
        result
    }

    /// Freeze, copy, thaw. A copy reads what is not on the disk yet from the kernel's cache; where
    /// blocks are shared instead, it is written back first, while the sandbox still runs. The
    /// keeper thaws by itself if we die on the way.
    pub(crate) fn capture(
        &self,
        id: SandboxId,
        layer: &LayerId,
    ) -> Result<Captured, ProviderError> {
        let lock = self.home.lock_sandbox(id)?;
        let record = Record::load(&self.home, id)?;
        let keeper = match record.observe(&self.home) {
            SandboxState::Running => Some(self.keeper(&record)?),
            // Nothing writes there.
            SandboxState::Paused { .. } | SandboxState::Ended => None,
            SandboxState::Stopped { .. } => return Err(not_running(&record, "snapshotted")),
        };
        layer::prepare(&self.home, layer)?;
        let place = layer::directory(&self.home, layer);
        let disk = self.home.sandbox(id).join("disk");
        if keeper.is_some() && disk::shares_blocks(&disk) {
            self.settle()?;
        }
        let frozen = Instant::now();
        if let Some(keeper) = &keeper {
            self.freeze(&record, keeper)?;
        }
        model::failpoint::hit("snapshot.frozen");
        let mut thawed = Ok(0.0);
        let copied = disk::capture(&disk, &place, || {
            model::failpoint::hit("snapshot.copied");
            if let Some(keeper) = keeper {
                thawed = self.let_go(&record, &keeper).map(|()| millis(frozen));
            }
        });
        let frozen_ms = thawed?;
        copied.doing("copying the disk")?;
        model::failpoint::hit("snapshot.thawed");
        layer::seal(&self.home, layer, &*self.clock)?;
        model::failpoint::hit("snapshot.sealed");
        Ok(Captured {
            record,
            frozen_ms,
            _lock: lock,
        })
    }

    fn let_go(&self, record: &Record, keeper: &Keeper) -> Result<(), ProviderError> {
        if keeper.ask(&Request::Thaw).is_err() {
            // Killed while it held the sandbox, which therefore still stood still; a new one lets
            // it go on.
            self.keeper(record)?;
        }
        Ok(())
    }

    /// Writes back until little is left to write. A commit takes along what everybody on the file
    /// system changed, so that the one within the freeze is short only right after a short one.
    fn settle(&self) -> Result<(), ProviderError> {
        for _ in 0..SETTLING {
            let started = Instant::now();
            self.sync()?;
            if started.elapsed() < SETTLED {
                break;
            }
        }
        Ok(())
    }

    /// Under the lock that every change of a snapshot's record takes, so that of two with one name
    /// only one is saved.
    pub(super) fn save_named(&self, record: &SnapshotRecord) -> Result<(), ProviderError> {
        let _lock = self.home.own_snapshots()?;
        if let Some(name) = &record.name {
            self.require_free(name)?;
        }
        record.save(&self.home)
    }

    pub(super) fn require_free(&self, name: &str) -> Result<(), ProviderError> {
        let taken = SnapshotRecord::readable(&self.home)?
            .iter()
            .any(|s| s.name.as_deref() == Some(name));
        if taken {
            return Err(ProviderError::refused(format!(
                "the name `{name}` is taken by another snapshot: choose another name, or `nacre snapshot rm {name}`"
            )));
        }
        Ok(())
    }

    pub(crate) fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), ProviderError> {
        let record = match SnapshotRecord::load(&self.home, id) {
            Err(ProviderError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        // First whoever leads to it, so that no death of ours leaves them leading nowhere.
        if let Some(sandbox) = record.sandbox
            && let Some(stopped) = Record::find(&self.home, sandbox)?
            && stopped.state
                == (State::Stopped {
                    snapshot: record.id.clone(),
                })
        {
            self.release_claims(&stopped);
            crate::trash::put(&self.home, &self.home.sandbox(sandbox))?;
        }
        let lock = self.home.own_snapshots()?;
        record.remove(&self.home);
        drop(lock);
        layer::release(&self.home, &record.layers)?;
        Ok(())
    }

    /// Computes the digest and writes it into the record.
    pub(crate) fn digest(&self, id: &SnapshotId) -> Result<SnapshotRecord, ProviderError> {
        loop {
            let before = SnapshotRecord::load(&self.home, id)?.layers;
            let digest = self.compute_digest(id);
            let _lock = self.home.own_snapshots()?;
            let mut record = SnapshotRecord::load(&self.home, id)?;
            // Flattened while we read: then what we read may have been half gone.
            if record.layers != before {
                continue;
            }
            record.digest = Some(digest?);
            record.save(&self.home)?;
            return Ok(record);
        }
    }

    /// Computes every digest that is missing, one after the other, unless another process is at
    /// it: many snapshots in a row must not take the machine from the sandboxes.
    pub(crate) fn digest_missing(&self) -> Result<(), ProviderError> {
        let mut tried = HashSet::new();
        loop {
            let Some(lock) = self.home.try_digests()? else {
                return Ok(());
            };
            while let Some(id) = self.next_undigested(&tried)? {
                if let Err(error) = self.digest(&id) {
                    tracing::warn!(snapshot = %id, %error, "cannot compute the digest");
                }
                tried.insert(id);
            }
            drop(lock);
            // One made after our last look found the lock taken and left it to us.
            if self.next_undigested(&tried)?.is_none() {
                return Ok(());
            }
        }
    }

    fn next_undigested(
        &self,
        tried: &HashSet<SnapshotId>,
    ) -> Result<Option<SnapshotId>, ProviderError> {
        let missing = SnapshotRecord::readable(&self.home)?
            .into_iter()
            .filter(|record| record.digest.is_none() && !tried.contains(&record.id));
        Ok(missing
            .min_by_key(|record| record.created_at)
            .map(|record| record.id))
    }

    /// Reads everything; on the way each layer gets its manifest, if it has none.
    fn compute_digest(&self, id: &SnapshotId) -> Result<Digest, ProviderError> {
        let record = SnapshotRecord::load(&self.home, id)?;
        let mut contents = tree::Contents::new();
        for layer in &record.layers {
            self.note_manifest(layer, &mut contents);
        }
        let top = merged::open(&self.home, &record.layers).doing("opening the snapshot")?;
        tree::digest(top, &contents).doing("reading the snapshot")
    }

    /// One layer in place of a deep stack.
    pub(crate) fn flatten(&self, record: &SnapshotRecord) -> Result<SnapshotRecord, ProviderError> {
        let layer = LayerId::new(&*self.clock);
        let intent = Intent::Import {
            layer: layer.clone(),
        }
        .declare(&self.home)?;
        if let Err(error) = self.flatten_into(&record.layers, &layer) {
            layer::discard(&self.home, &layer)?;
            intent.done();
            return Err(error);
        }
        let lock = self.home.own_snapshots()?;
        // It may have been given a digest, or been removed, while we copied.
        let mut current = match SnapshotRecord::load(&self.home, &record.id) {
            Ok(current) => current,
            Err(error) => {
                drop(lock);
                layer::discard(&self.home, &layer)?;
                intent.done();
                return Err(error);
            }
        };
        let before = std::mem::replace(&mut current.layers, vec![layer]);
        current.save(&self.home)?;
        drop(lock);
        intent.done();
        layer::release(&self.home, &before)?;
        Ok(current)
    }

    /// A new layer that holds what a stack of them shows.
    pub(crate) fn flatten_into(
        &self,
        stack: &[LayerId],
        layer: &LayerId,
    ) -> Result<(), ProviderError> {
        let place = layer::prepare(&self.home, layer)?;
        let top = merged::open(&self.home, stack).doing("opening the layers")?;
        tree::copy_opened(top, &place).doing("flattening the layers")?;
        layer::seal(&self.home, layer, &*self.clock)
    }
}

pub(super) fn check_snapshot_name(name: &str) -> Result<(), ProviderError> {
    let ok = (1..=63).contains(&name.len())
        && name.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.' | b'_')
        })
        && name.as_bytes()[0].is_ascii_alphanumeric();
    if !ok || matches!(name, "host") || name.starts_with("snp_") {
        return Err(ProviderError::refused(format!(
            "`{name}` cannot name a snapshot: use 1 to 63 lower-case letters, digits, dots, dashes and underscores"
        )));
    }
    Ok(())
}
