//! What outlives the process, if anything does.

use std::fmt;

use model::SnapshotId;

use super::disk::Disk;
use super::{Record, Run};
use crate::{ProviderError, SandboxId};

/// Told of every change that a restart must not lose, before the change is answered.
pub(super) trait Keep: Send + Sync + fmt::Debug {
    fn record(&self, record: &Record) -> Result<(), ProviderError>;
    fn disk(&self, id: SandboxId, disk: &Disk) -> Result<(), ProviderError>;
    fn forget(&self, id: SandboxId) -> Result<(), ProviderError>;
    fn snapshot(&self, id: &SnapshotId, disk: &Disk) -> Result<(), ProviderError>;
    fn forget_snapshot(&self, id: &SnapshotId) -> Result<(), ProviderError>;
    /// A workplace ran a prompt.
    fn run(&self, run: &Run);
}

/// A fake that lives in a test and ends with it.
#[derive(Debug)]
pub(super) struct Nothing;

impl Keep for Nothing {
    fn record(&self, _: &Record) -> Result<(), ProviderError> {
        Ok(())
    }

    fn disk(&self, _: SandboxId, _: &Disk) -> Result<(), ProviderError> {
        Ok(())
    }

    fn forget(&self, _: SandboxId) -> Result<(), ProviderError> {
        Ok(())
    }

    fn snapshot(&self, _: &SnapshotId, _: &Disk) -> Result<(), ProviderError> {
        Ok(())
    }

    fn forget_snapshot(&self, _: &SnapshotId) -> Result<(), ProviderError> {
        Ok(())
    }

    fn run(&self, _: &Run) {}
}
