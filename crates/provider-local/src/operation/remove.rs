use provider::{ProviderError, SandboxId};

use super::Engine;
use crate::home::entries;
use crate::intent::Intent;
use crate::record::{Record, State};

impl Engine {
    /// Ends the processes and gives up the disk.
    pub(crate) fn remove(&self, id: SandboxId) -> Result<(), ProviderError> {
        self.finish_what_was_left(id);
        let _lock = match self.home.lock_sandbox(id) {
            Err(ProviderError::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let record = Record::find(&self.home, id)?;
        let intent = match (Intent::Remove { sandbox: id }).declare(&self.home) {
            Ok(intent) => Some(intent),
            // On a full disk nothing can be written down, and removing is what helps. Killed on the
            // way, it has to be asked for again.
            Err(ProviderError::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        model::failpoint::hit("remove.intended");
        self.remove_declared(id, record.as_ref())?;
        if let Some(intent) = intent {
            intent.done();
        }
        Ok(())
    }

    /// Every step may have been done already.
    pub(crate) fn remove_declared(
        &self,
        id: SandboxId,
        record: Option<&Record>,
    ) -> Result<(), ProviderError> {
        if let Some(record) = record
            && !matches!(record.state, State::Stopped { .. })
        {
            self.end(record)?;
        }
        model::failpoint::hit("remove.ended");
        crate::trash::put(&self.home, &self.home.sandbox(id))?;
        model::failpoint::hit("remove.trashed");
        match record {
            Some(record) => {
                self.release_claims(record);
                crate::layer::release_unsnapshotted(&self.home, &record.layers)?;
            }
            // Only the claims themselves still tell whose they are.
            None => crate::claim::release_all(&self.home, id)?,
        }
        model::failpoint::hit("remove.released");
        Ok(())
    }

    /// Every sandbox that is more than an intent.
    pub(crate) fn records(&self) -> Result<Vec<Record>, ProviderError> {
        let mut found = Vec::new();
        for name in entries(&self.home.path("sandboxes"))? {
            let Ok(id) = name.parse() else { continue };
            match Record::find(&self.home, id) {
                Ok(record) => found.extend(record),
                Err(error) => tracing::warn!(%error, "a sandbox's record cannot be read"),
            }
        }
        Ok(found)
    }
}
