use model::SnapshotId;
use provider_local::Local as Engine;
use server::Offer;

use crate::config::Server;

/// What sessions on this machine are made of.
#[derive(Debug)]
pub(super) struct Local {
    provider: String,
    engine: Engine,
}

impl Local {
    pub(super) fn new(server: &Server, engine: Engine) -> Self {
        Self {
            provider: server.sessions.provider.clone(),
            engine,
        }
    }
}

impl Offer for Local {
    fn default_provider(&self) -> &str {
        &self.provider
    }

    fn base(&self, provider: &str) -> Option<SnapshotId> {
        if provider != "local" {
            return None;
        }
        self.engine.find_snapshot("base").ok()
    }
}
