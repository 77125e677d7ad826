//! How much is in a snapshot is known after it was taken: whoever took it need not wait for that.

use std::collections::HashSet;

use model::{SignedDuration, SnapshotId};
use store::snapshots::Sizes;

use crate::{HubError, Sessions};

/// Asked for at a look, the newest first; the rest at the next.
const AT_ONCE: u32 = 20;
/// What could not be read for so long is left alone.
const SINCE: SignedDuration = SignedDuration::from_hours(24 * 7);

impl Sessions {
    /// Asks providers for what is in snapshots of which nobody knows, one after the other: it may
    /// take as long as reading a disk. Those that cannot be read are not tried again.
    pub async fn measure(&self, given_up: &mut HashSet<String>) -> Result<(), HubError> {
        let shared = self.shared();
        let since = shared.clock.now().checked_sub(SINCE).unwrap_or_default();
        let found = shared.store.unmeasured_snapshots(since, AT_ONCE).await?;
        for (id, provider) in found {
            let Some(provider) = shared.providers.get(&*provider) else {
                continue;
            };
            let Ok(snapshot) = id.parse::<SnapshotId>() else {
                continue;
            };
            if given_up.contains(&id) {
                continue;
            }
            match provider.measure(&snapshot).await {
                Ok(Some(measured)) => {
                    let sizes = Sizes {
                        digest: measured.digest,
                        bytes: measured.bytes,
                        files: measured.files,
                    };
                    let mut tx = shared.store.begin().await?;
                    tx.complete_snapshot(&id, &sizes).await?;
                    tx.commit().await?;
                }
                Ok(None) => {
                    given_up.insert(id);
                }
                Err(error) => {
                    tracing::warn!(snapshot = id, %error, "nobody knows how much is in it");
                    given_up.insert(id);
                }
            }
        }
        Ok(())
    }
}
