use std::time::Instant;

use provider::{Kept, ProviderError, Receipt, Resumed, SandboxId, SandboxState};
use wire::keeper::Request;

use super::Engine;
use crate::error::Doing as _;
use crate::intent::Intent;
use crate::record::{Record, State};
use crate::timing::millis;

impl Engine {
    pub(crate) fn pause(&self, id: SandboxId) -> Result<Receipt, ProviderError> {
        self.finish_what_was_left(id);
        let started = Instant::now();
        let _lock = self.home.lock_sandbox(id)?;
        let mut record = Record::load(&self.home, id)?;
        let receipt = |kept, frozen_ms| Receipt {
            snapshot: None,
            digest: None,
            bytes: None,
            files: None,
            kept,
            took_ms: millis(started),
            frozen_ms,
            sync_ms: 0.0,
            sealed_ms: 0.0,
        };
        match record.observe(&self.home) {
            SandboxState::Paused { kept } if record.state == State::Paused => {
                return Ok(receipt(kept, 0.0));
            }
            // Frozen by its keeper, over a limit: from now on by a person's wish too.
            SandboxState::Running | SandboxState::Paused { .. } => {}
            SandboxState::Ended | SandboxState::Stopped { .. } => {
                return Err(not_running(&record, "paused"));
            }
        }
        let intent = Intent::Pause { sandbox: id }.declare(&self.home)?;
        model::failpoint::hit("pause.intended");
        let frozen = self.freeze_for_good(&mut record);
        // A sandbox that would not stand still runs on, and nothing is left to finish.
        intent.done();
        Ok(receipt(Kept::Memory, frozen?))
    }

    /// Freezes and records; gives how long the freezing took.
    pub(crate) fn freeze_for_good(&self, record: &mut Record) -> Result<f64, ProviderError> {
        let keeper = self.keeper(record)?;
        let took_us = self.freeze(record, &keeper)?;
        model::failpoint::hit("pause.frozen");
        record.state = State::Paused;
        record.save(&self.home)?;
        model::failpoint::hit("pause.recorded");
        keeper.ask(&Request::Keep)?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds of a freeze are far below 2^52"
        )]
        Ok(took_us as f64 / 1000.0)
    }

    pub(crate) fn resume(&self, id: SandboxId) -> Result<Resumed, ProviderError> {
        self.finish_what_was_left(id);
        let started = Instant::now();
        let _lock = self.home.lock_sandbox(id)?;
        let mut record = Record::load(&self.home, id)?;
        let kept = match record.observe(&self.home) {
            SandboxState::Running => {
                return Ok(Resumed {
                    kept: Kept::Memory,
                    took_ms: millis(started),
                });
            }
            SandboxState::Paused { kept } => kept,
            SandboxState::Ended | SandboxState::Stopped { .. } => {
                return Err(not_running(&record, "resumed"));
            }
        };
        let intent = Intent::Resume { sandbox: id }.declare(&self.home)?;
        model::failpoint::hit("resume.intended");
        match kept {
            Kept::Memory => {
                // Recorded first: once it runs, its processes and we compete for the machine.
                record.state = State::Running;
                record.save(&self.home)?;
                if let Err(error) = self.thaw(&record) {
                    record.state = State::Paused;
                    record.save(&self.home)?;
                    intent.done();
                    return Err(error);
                }
                model::failpoint::hit("resume.thawed");
            }
            Kept::Disk => {
                if let Err(error) = self.restart(&mut record) {
                    intent.done();
                    return Err(error);
                }
                model::failpoint::hit("resume.thawed");
                record.state = State::Running;
                record.save(&self.home)?;
            }
        }
        intent.done();
        Ok(Resumed {
            kept,
            took_ms: millis(started),
        })
    }

    fn thaw(&self, record: &Record) -> Result<(), ProviderError> {
        self.keeper(record)?.ask(&Request::Thaw).map(|_| ())
    }

    /// Starts processes anew on the disk that a paused sandbox left: same id, another boot.
    fn restart(&self, record: &mut Record) -> Result<(), ProviderError> {
        self.end(record)?;
        let directory = self.home.sandbox(record.id);
        crate::disk::renew_work(&directory.join("disk")).doing("preparing the disk")?;
        for name in ["keeper.json", "exit.json", "frozen.json"] {
            let _ = fs_err::remove_file(directory.join(name));
        }
        record.boot = self.new_boot();
        record.save(&self.home)?;
        let keeper = self.keepers.spawn(&self.programs.keeper)?;
        self.launch(record, keeper)
    }
}

pub(super) fn not_running(record: &Record, what: &str) -> ProviderError {
    match &record.state {
        State::Stopped { snapshot } => ProviderError::refused(format!(
            "sandbox {} is stopped and cannot be {what}; its disk is {snapshot}: `nacre sandbox create --from {snapshot}`",
            record.id
        )),
        _ => ProviderError::refused(format!(
            "sandbox {} has no processes any more and cannot be {what}; `nacre sandbox stop {}` keeps its disk as a snapshot",
            record.id, record.id
        )),
    }
}
