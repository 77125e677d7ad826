//! The way out of a sandbox: what it may reach, and what tests say that it was refused.

use super::Fake;
use crate::{Blocked, Network, Pass, ProviderError, Refusals, SandboxId};

#[derive(Debug, Default)]
pub(super) struct WayOut {
    passes: Vec<Pass>,
    blocked: Vec<Blocked>,
}

impl Fake {
    /// As if something inside had asked for these, and was refused.
    pub fn refuse(&self, id: SandboxId, blocked: impl IntoIterator<Item = Blocked>) {
        let mut ways = self.inner.ways_out.lock().expect("no holder panics");
        ways.entry(id).or_default().blocked.extend(blocked);
    }

    /// What a sandbox may reach beyond what it was made with.
    pub fn passes(&self, id: SandboxId) -> Vec<Pass> {
        let ways = self.inner.ways_out.lock().expect("no holder panics");
        ways.get(&id)
            .map_or_else(Vec::new, |way| way.passes.clone())
    }

    pub(super) async fn set_passes(
        &self,
        id: SandboxId,
        passes: &[Pass],
    ) -> Result<(), ProviderError> {
        self.must_be_proxied(id).await?;
        let mut ways = self.inner.ways_out.lock().expect("no holder panics");
        ways.entry(id).or_default().passes = passes.to_vec();
        Ok(())
    }

    pub(super) async fn refused_since(
        &self,
        id: SandboxId,
        since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        self.must_be_proxied(id).await?;
        let ways = self.inner.ways_out.lock().expect("no holder panics");
        let blocked = ways.get(&id).map_or(&[][..], |way| &way.blocked);
        let since = since.and_then(|mark| mark.parse().ok()).unwrap_or(0);
        Ok(Refusals {
            blocked: blocked.iter().skip(since).cloned().collect(),
            mark: blocked.len().to_string(),
        })
    }

    async fn must_be_proxied(&self, id: SandboxId) -> Result<(), ProviderError> {
        let mut state = self.inner.state().await;
        match state.get(id)?.record.spec.network {
            Network::Proxy => Ok(()),
            Network::None | Network::Host => {
                Err(ProviderError::refused("the sandbox has no way out"))
            }
        }
    }
}
