use std::collections::BTreeMap;

use model::{Id, Organisation, SnapshotId};
use provider_local::Local as Engine;
use server::Offer;
use wire::v1::{EgressPolicy, NewEgress};

use crate::config::Server;

/// What sessions on this machine are made of.
#[derive(Debug)]
pub(super) struct Local {
    provider: String,
    egress: NewEgress,
    egress_of: BTreeMap<String, EgressPolicy>,
    engine: Engine,
}

impl Local {
    pub(super) fn new(server: &Server, engine: Engine) -> Self {
        let sessions = &server.sessions;
        Self {
            provider: sessions.provider.clone(),
            egress: NewEgress {
                policy: Some(sessions.egress),
                allow: sessions.egress_allow.clone(),
            },
            egress_of: sessions.egress_of.clone(),
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

    fn egress(&self, organisation: Id<Organisation>) -> NewEgress {
        let mut egress = self.egress.clone();
        if let Some(policy) = self.egress_of.get(&organisation.to_string()) {
            egress.policy = Some(*policy);
        }
        egress
    }
}
