//! What nobody acts on by itself: leases that run out, sessions left behind, sandboxes that no
//! session claims. Each look is complete and may be repeated.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::session::{Generation, Place};
use model::{SignedDuration, SnapshotId};
use provider::{Alive, Provider, ProviderError, Sandbox, SandboxId, SandboxState};
use store::Fence;

use crate::hub::label;
use crate::{Handle, HubError, Sessions};

impl Sessions {
    /// Renews, adopts and tidies until the sessions are shut down, each beside the others: a provider
    /// that hangs costs no lease, and keeps nobody from what was left behind.
    pub async fn sweep(&self) {
        let shared = self.shared();
        let renewing = every(shared.settings.lease / 3, || async {
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "leases cannot be renewed");
            }
        });
        let adopting = Box::pin(every(shared.settings.sweep, || async {
            if !shared.settings.takes_up {
                return;
            }
            if let Err(error) = self.adopt().await {
                tracing::warn!(%error, "sessions that were left cannot be looked for");
            }
        }));
        let tidying = Box::pin(every(shared.settings.sweep, || self.tidy()));
        // Reading a disk takes its time, and nobody waits for it.
        let given_up = tokio::sync::Mutex::default();
        let collecting = Box::pin(every(shared.settings.sweep, || async {
            if shared.settings.tends
                && let Err(error) = self.collect().await
            {
                tracing::warn!(%error, "snapshots that nobody needs cannot be looked for");
            }
        }));
        let measuring = Box::pin(every(shared.settings.sweep, || async {
            if let Err(error) = self.measure(&mut *given_up.lock().await).await {
                tracing::warn!(%error, "snapshots cannot be looked for");
            }
        }));
        tokio::select! {
            () = shared.stop.cancelled() => {}
            () = renewing => {}
            () = adopting => {}
            () = tidying => {}
            () = measuring => {}
            () = collecting => {}
        }
    }

    async fn tidy(&self) {
        let settings = &self.shared().settings;
        if settings.tends {
            self.tend().await;
            self.seal_orphans().await;
        }
        if !settings.takes_up {
            return;
        }
        self.observe().await;
        if let Err(error) = self.store_held().await {
            tracing::warn!(%error, "sessions that rest cannot be looked for");
        }
    }

    /// One call of a provider, in the time that a call may take.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let timed = tokio::time::timeout(self.shared().settings.call, call);
        timed.await.unwrap_or_else(|_| {
            let why = "it did not answer in time";
            Err(ProviderError::unavailable("the provider", why))
        })
    }

    /// Gives up the memory of sessions that rest for long: their disks stay.
    pub async fn store_held(&self) -> Result<(), HubError> {
        for provider in self.shared().providers.values() {
            self.store_held_by(&**provider).await?;
        }
        Ok(())
    }

    async fn store_held_by(&self, provider: &dyn Provider) -> Result<(), HubError> {
        const AT_ONCE: u32 = 100;
        let shared = self.shared();
        let settings = &shared.settings;
        // Before its provider does by itself, so that nobody is told of a memory that is not there.
        let until = provider.holds_memory_for();
        let until = until.map(|time| time.saturating_sub(settings.sweep * 2));
        let held_for = until.map_or(settings.paused, |until| until.min(settings.paused));
        let before = SignedDuration::try_from(held_for)
            .ok()
            .and_then(|time| shared.clock.now().checked_sub(time).ok());
        let Some(before) = before else {
            return Ok(());
        };
        let held = shared
            .store
            .held_sessions(provider.name(), before, AT_ONCE)
            .await?;
        for session in held {
            let stored = match self.open(session).await {
                Ok(handle) => handle.store().await,
                Err(error) => Err(error),
            };
            match stored {
                // Somebody woke it, it is on its way to the disk, or it is another's.
                Ok(()) | Err(HubError::Refused(_) | HubError::Store(store::Error::Held { .. })) => {
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "a session that rests cannot be put to disk");
                }
            }
        }
        Ok(())
    }

    /// Lets providers set right what of theirs was killed.
    pub async fn tend(&self) {
        let shared = self.shared();
        for provider in shared.providers.values() {
            if let Err(error) = self.within(provider.tend()).await {
                tracing::warn!(provider = provider.name(), %error, "it cannot be tended");
            }
        }
    }

    /// Asks providers which of the sandboxes that serve live. An error is not a death.
    pub async fn observe(&self) {
        const AT_ONCE: usize = 100;
        let shared = self.shared();
        let mut by_provider: HashMap<Arc<str>, Vec<(Handle, Place)>> = HashMap::new();
        for handle in shared.handles() {
            let place = handle.seen.borrow().place;
            if let Some(place) = place {
                let name = Arc::clone(&handle.provider);
                by_provider.entry(name).or_default().push((handle, place));
            }
        }
        for (name, served) in by_provider {
            let Some(provider) = shared.providers.get(&*name) else {
                continue;
            };
            for some in served.chunks(AT_ONCE) {
                let ids: Vec<SandboxId> = some.iter().map(|(_, place)| place.sandbox).collect();
                let Ok(alive) = self.within(provider.alive(&ids)).await else {
                    continue;
                };
                let dead: HashSet<SandboxId> = alive
                    .into_iter()
                    .filter(|(_, alive)| *alive == Alive::Dead)
                    .map(|(id, _)| id)
                    .collect();
                for (handle, place) in some.iter().filter(|(_, p)| dead.contains(&p.sandbox)) {
                    handle.died(*place).await;
                }
            }
        }
    }

    /// Puts the end of every lease off. Hubs whose term is over learn it by their next write; they
    /// are told at once here.
    pub async fn renew(&self) -> Result<(), HubError> {
        let shared = self.shared();
        let handles = shared.handles();
        let fences: Vec<Fence> = handles
            .iter()
            .map(|handle| Fence {
                session: handle.session,
                term: handle.term,
            })
            .collect();
        let until = shared.lease_end(shared.clock.now());
        let lost: HashSet<Fence> = shared
            .store
            .renew(&fences, until)
            .await?
            .into_iter()
            .collect();
        for (handle, fence) in handles.iter().zip(&fences) {
            if lost.contains(fence) {
                handle.let_go().await;
            } else {
                handle.lease.renew(until);
            }
        }
        Ok(())
    }

    /// Ends sandboxes that carry our label and are no session's. Their disks are sealed first.
    pub async fn seal_orphans(&self) {
        for provider in self.shared().providers.values() {
            if let Err(error) = self.seal_orphans_of(&**provider).await {
                tracing::warn!(provider = provider.name(), %error, "orphans cannot be looked for");
            }
        }
    }

    async fn seal_orphans_of(&self, provider: &dyn Provider) -> Result<(), HubError> {
        let ours = [(label::OURS.to_owned(), label::OURS_VALUE.to_owned())];
        let Ok(sandboxes) = self.within(provider.list(&ours)).await else {
            // Asked again at the next look.
            return Ok(());
        };
        for sandbox in sandboxes {
            if self.is_claimed(&sandbox).await? {
                continue;
            }
            match &sandbox.state {
                SandboxState::Stopped { snapshot } => {
                    self.forget_sealed(provider, &sandbox, snapshot).await?;
                }
                _ => self.seal(provider, &sandbox).await,
            }
        }
        Ok(())
    }

    async fn is_claimed(&self, sandbox: &Sandbox) -> Result<bool, HubError> {
        let Some(session) = label::session_of(sandbox) else {
            return Ok(false);
        };
        let store = &self.shared().store;
        let Some(record) = store.find_session(session).await? else {
            // Another database may have it, on the same provider: then its organisation is not ours.
            let Some(organisation) = label::organisation_of(sandbox) else {
                return Ok(false);
            };
            return Ok(store.find_organisation(organisation).await?.is_none());
        };
        let lifecycle = record.state.lifecycle()?;
        let claimed: HashSet<Generation> = lifecycle.generations().into_iter().collect();
        let generation = Generation(sandbox.generation);
        // One of a generation that is not written yet is on its way.
        Ok(claimed.contains(&generation) || generation > lifecycle.generation)
    }

    /// A sandbox that is only a disk any more, and that disk a snapshot which we have a record of:
    /// what is left of the sandbox is in nobody's way but its provider's.
    async fn forget_sealed(
        &self,
        provider: &dyn Provider,
        sandbox: &Sandbox,
        snapshot: &SnapshotId,
    ) -> Result<(), HubError> {
        let store = &self.shared().store;
        if store.find_snapshot(&snapshot.to_string()).await?.is_some()
            && let Err(error) = self.within(provider.remove(sandbox.id)).await
        {
            tracing::warn!(sandbox = %sandbox.id, %error, "what is left of it cannot be removed");
        }
        Ok(())
    }

    async fn seal(&self, provider: &dyn Provider, sandbox: &Sandbox) {
        match self.within(provider.stop(sandbox.id)).await {
            Err(ProviderError::NotFound { .. }) => {}
            Ok(receipt) => {
                tracing::warn!(sandbox = %sandbox.id, snapshot = ?receipt.snapshot, "a sandbox of no session was ended and its disk kept");
            }
            Err(error) => {
                tracing::warn!(sandbox = %sandbox.id, %error, "an orphan cannot be ended");
            }
        }
    }
}

async fn every<F: Future<Output = ()>>(time: Duration, mut act: impl FnMut() -> F) {
    let mut ticks = tokio::time::interval(time);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        act().await;
    }
}
