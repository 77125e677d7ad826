use std::collections::HashMap;
use std::time::Duration;

use model::{Clock, Id, Job};
use store::Store;
use store::jobs::{Heard, Lost};
use tokio::time::Instant;

/// Finds jobs whose workers are gone, and gives them back to the queue.
///
/// A lease ends by the wall clock, which jumps: after a machine slept, every lease is over at once,
/// and its worker is alive. So a lease must look over for as long as a worker takes to renew it.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Longer than workers take to renew.
    patience: Duration,
    suspects: HashMap<Id<Job>, (Lost, Instant)>,
}

impl Watch {
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            suspects: HashMap::new(),
        }
    }

    /// What is `ours` is running in this process: its own task keeps it.
    pub(crate) async fn look(
        &mut self,
        store: &Store,
        clock: &dyn Clock,
        ours: &str,
    ) -> Result<(), store::Error> {
        let mut found = store.lost_jobs(clock.now()).await?;
        found.retain(|lost| lost.owner != ours);
        let now = Instant::now();
        let mut suspects = HashMap::with_capacity(found.len());
        for lost in found {
            let since = match self.suspects.get(&lost.id) {
                Some((known, since)) if *known == lost => *since,
                _ => now,
            };
            if now.duration_since(since) < self.patience {
                suspects.insert(lost.id, (lost, since));
                continue;
            }
            match store.requeue_job(&lost, clock.now()).await? {
                Heard::TooLate => {}
                Heard::Yes | Heard::Superseded => {
                    tracing::warn!(job = %lost.id, owner = lost.owner, "its worker is gone");
                }
            }
        }
        self.suspects = suspects;
        Ok(())
    }
}
