//! After a crash, ours or the host's.

use fs_err as fs;
use model::SnapshotId;
use provider::{Kept, ProviderError, SandboxId, SandboxState};

use super::Engine;
use super::stop::Seal;
use crate::intent::{self, Intent};
use crate::keeper::Keeper;
use crate::layer;
use crate::record::{Record, State, host_boot, process};
use crate::snapshot::SnapshotRecord;

impl Engine {
    /// Finishes or undoes what processes that died left half-made, and recovers every disk after a
    /// restart of the host.
    pub(crate) fn recover(&self) -> Result<(), ProviderError> {
        crate::home::tidy(&self.home)?;
        for (intent, held) in intent::abandoned(&self.home)? {
            tracing::info!(?intent, "finishing what an earlier process left");
            // One that cannot be finished now (on a full disk, say) must not keep people from the
            // command that helps; it stays for the next start.
            match self.recover_one(&intent) {
                Ok(()) => {
                    held.done();
                    // While the intent stood, its layers were spoken for.
                    if let Intent::Bring { layers, .. } = &intent {
                        layer::release(&self.home, layers)?;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, ?intent, "could not finish what an earlier process left");
                }
            }
        }
        if let Err(error) = crate::trash::empty(&self.home) {
            tracing::warn!(%error, "could not empty the trash");
        }
        let marker = self.home.path("run/host_boot");
        let boot = host_boot();
        let last = fs::read_to_string(&marker).unwrap_or_default();
        if last != boot {
            // On a full disk this fails, and the command that helps must still run.
            let sealed = if last.is_empty() {
                Ok(Vec::new())
            } else {
                self.seal_the_dead()
            };
            let written = sealed.and_then(|_| crate::home::write_text(&self.home, &marker, &boot));
            if let Err(error) = written {
                tracing::warn!(%error, "could not seal every disk after a restart of the host");
            }
        }
        Ok(())
    }

    /// An operation that failed half-way left its intent; the next one on the same sandbox, in this
    /// process or another, begins by finishing it.
    pub(crate) fn finish_what_was_left(&self, id: SandboxId) {
        if Intent::is_left(&self.home, id)
            && let Err(error) = self.recover()
        {
            tracing::warn!(%error, %id, "could not finish what was left");
        }
    }

    fn recover_one(&self, intent: &Intent) -> Result<(), ProviderError> {
        // Others may want to work on the same sandbox meanwhile.
        let _lock = match intent {
            Intent::Pause { sandbox }
            | Intent::Resume { sandbox }
            | Intent::Capture { sandbox, .. }
            | Intent::Stop { sandbox, .. }
            | Intent::Remove { sandbox } => match self.home.lock_sandbox(*sandbox) {
                Err(ProviderError::NotFound { .. }) => None,
                other => Some(other?),
            },
            Intent::Create { .. }
            | Intent::Fork { .. }
            | Intent::Import { .. }
            | Intent::Export { .. }
            | Intent::Bring { .. } => None,
        };
        match intent {
            Intent::Create { sandbox } => self.undo_create(*sandbox),
            Intent::Pause { sandbox } => match Record::find(&self.home, *sandbox)? {
                Some(mut record) if process(&self.home, *sandbox).is_some() => {
                    // One that will not stand still runs on, as when a person asks.
                    if let Err(error) = self.freeze_for_good(&mut record) {
                        tracing::warn!(%error, %sandbox, "a pause could not be finished");
                    }
                    Ok(())
                }
                _ => Ok(()),
            },
            Intent::Resume { sandbox } => match Record::find(&self.home, *sandbox)? {
                Some(mut record) if process(&self.home, *sandbox).is_some() => {
                    self.keeper(&record)?.ask(&wire::keeper::Request::Thaw)?;
                    record.state = State::Running;
                    record.save(&self.home)
                }
                Some(record) => self.end(&record).map(|_| ()),
                None => Ok(()),
            },
            Intent::Capture {
                sandbox,
                layer,
                snapshot,
            } => {
                // A keeper thaws what a dead process held; where it died too, a new one does.
                if let Some(record) = Record::find(&self.home, *sandbox)?
                    && record.state == State::Running
                    && process(&self.home, *sandbox).is_some()
                {
                    self.keeper(&record)?;
                }
                let recorded = match snapshot {
                    Some(id) => SnapshotRecord::find(&self.home, *id)?.is_some(),
                    None => false,
                };
                if recorded {
                    Ok(())
                } else {
                    layer::discard(&self.home, layer)
                }
            }
            Intent::Stop {
                sandbox,
                layer,
                snapshot,
                recovered,
            } => match Record::find(&self.home, *sandbox)? {
                Some(record) if !matches!(record.state, State::Stopped { .. }) => {
                    let seal = Seal {
                        layer: layer.clone(),
                        snapshot: *snapshot,
                        recovered: *recovered,
                    };
                    self.stop_declared(&record, &seal).map(|_| ())
                }
                // Recorded as stopped, perhaps not yet tidied up.
                Some(record) => {
                    self.release_range_and_name(&record);
                    crate::trash::put(&self.home, &self.home.sandbox(*sandbox).join("disk"))?;
                    Ok(())
                }
                None => Ok(()),
            },
            Intent::Fork { layer, fork } => self.undo_fork(layer, fork),
            Intent::Remove { sandbox } => {
                let record = Record::find(&self.home, *sandbox)?;
                self.remove_declared(*sandbox, record.as_ref())
            }
            Intent::Import { layer } => {
                let named = SnapshotRecord::readable(&self.home)?
                    .iter()
                    .any(|s| s.layers.contains(layer));
                if named || layer::exists(&self.home, layer) {
                    Ok(())
                } else {
                    layer::discard(&self.home, layer)
                }
            }
            // They changed no record; layers that nobody names go with the intent.
            Intent::Export { .. } | Intent::Bring { .. } => Ok(()),
        }
    }

    /// Seals the disks of sandboxes that died without being asked to.
    pub(crate) fn seal_the_dead(&self) -> Result<Vec<SnapshotId>, ProviderError> {
        let mut sealed = Vec::new();
        // One that cannot be sealed must not keep the others from it.
        let mut failed = None;
        for record in self.records()? {
            if record.state == State::Running && record.observe(&self.home) == SandboxState::Ended {
                let Ok(_lock) = self.home.lock_sandbox(record.id) else {
                    continue;
                };
                // It may have been stopped while we waited.
                let record = Record::load(&self.home, record.id)?;
                if record.state == State::Running
                    && record.observe(&self.home) == SandboxState::Ended
                {
                    match self.stop_locked(&record, true) {
                        Ok(receipt) => sealed.extend(receipt.snapshot),
                        Err(error) => failed = Some(error),
                    }
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(sealed)
    }

    /// Gives every living sandbox whose keeper was killed a new one.
    pub(crate) fn adopt(&self) -> Result<(), ProviderError> {
        for record in self.records()? {
            let alive = matches!(
                record.observe(&self.home),
                SandboxState::Running | SandboxState::Paused { kept: Kept::Memory }
            );
            if alive
                && matches!(Keeper::reach(&self.home.sandbox(record.id)), Ok(None))
                && let Ok(_lock) = self.home.lock_sandbox(record.id)
            {
                // It may have ended, or been given one, while we waited; either is fine.
                let _ = self.keeper(&record);
            }
        }
        Ok(())
    }
}
