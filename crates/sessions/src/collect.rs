//! Disks that nobody goes on from any more are given back. First it is written that nobody begins
//! from them; then their provider is asked, as often as it takes.

use metrics::counter;
use model::SnapshotId;
use store::snapshots::Needed;

use crate::{HubError, Sessions};

/// Given up at a look; the rest at the next.
const AT_ONCE: u32 = 100;

impl Sessions {
    /// Gives up what sessions left behind them, and whatever was given up before and is still there.
    pub async fn collect(&self) -> Result<(), HubError> {
        let shared = self.shared();
        let keep = shared.settings.snapshots;
        for snapshot in shared.store.superseded_snapshots(keep, AT_ONCE).await? {
            let mut tx = shared.store.begin().await?;
            match tx
                .give_up_snapshot(&snapshot, Needed::ByAny, shared.clock.now())
                .await
            {
                // Somebody else was quicker.
                Ok(_) | Err(store::Error::NotFound(_)) => tx.commit().await?,
                Err(error) => return Err(error.into()),
            }
        }
        let mut after = String::new();
        loop {
            let given_up = shared.store.given_up_snapshots(&after, AT_ONCE).await?;
            let Some((last, _)) = given_up.last() else {
                return Ok(());
            };
            after.clone_from(last);
            for (snapshot, provider) in given_up {
                self.give_up(&provider, &snapshot).await?;
            }
        }
    }

    /// Asks a provider to give up a snapshot that nobody begins from any more. One that does not is
    /// asked again at the next look.
    pub async fn give_up(&self, provider: &str, snapshot: &str) -> Result<(), HubError> {
        let shared = self.shared();
        let (Some(provider), Ok(id)) = (
            shared.providers.get(provider),
            snapshot.parse::<SnapshotId>(),
        ) else {
            return Ok(());
        };
        match self.within(provider.delete_snapshot(&id)).await {
            Ok(()) => {
                let mut tx = shared.store.begin().await?;
                tx.snapshot_is_gone(snapshot, shared.clock.now()).await?;
                tx.commit().await?;
                counter!("nacre_snapshots_collected_total").increment(1);
            }
            Err(error) => {
                tracing::warn!(snapshot, %error, "its provider does not give it up yet");
            }
        }
        Ok(())
    }

    /// At once, and nobody waits for it.
    pub(crate) fn collect_soon(&self) {
        let sessions = self.clone();
        let stop = self.shared().stop.clone();
        self.shared().tasks.spawn(async move {
            let collecting = async {
                if let Err(error) = sessions.collect().await {
                    tracing::warn!(%error, "what a session left cannot be given back yet");
                }
                sessions.seal_orphans().await;
            };
            stop.run_until_cancelled(collecting).await;
        });
    }
}
