use std::collections::BTreeMap;

use async_trait::async_trait;
use model::{Id, Organisation, SnapshotId};
use provider::ProviderError;
use provider_local::doctor::{Surroundings, examine};
use provider_local::{Config as Machine, FindingStatus, Local as Engine, UsagePart};
use server::Offer;
use wire::v1::{self, EgressPolicy, NewEgress};

use crate::config::Server;

/// What sessions on this machine are made of.
#[derive(Debug)]
pub(super) struct Local {
    provider: String,
    egress: NewEgress,
    egress_of: BTreeMap<String, EgressPolicy>,
    engine: Engine,
    machine: Machine,
    around: Surroundings,
}

impl Local {
    pub(super) fn new(
        server: &Server,
        engine: Engine,
        machine: Machine,
        around: Surroundings,
    ) -> Self {
        let sessions = &server.sessions;
        Self {
            provider: sessions.provider.clone(),
            egress: NewEgress {
                policy: Some(sessions.egress),
                allow: sessions.egress_allow.clone(),
            },
            egress_of: sessions.egress_of.clone(),
            engine,
            machine,
            around,
        }
    }
}

#[async_trait]
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

    fn reached_everywhere(&self) -> Vec<String> {
        self.machine.egress.rules().into_iter().collect()
    }

    async fn storage(&self) -> Result<Option<v1::Storage>, ProviderError> {
        let usage = self.engine.usage().await?;
        let part = |part: UsagePart| v1::StoragePart {
            count: part.count,
            bytes: part.bytes,
        };
        Ok(Some(v1::Storage {
            sandboxes: part(usage.sandboxes),
            layers: part(usage.layers),
            snapshots: part(usage.snapshots),
            trash: part(usage.trash),
            programs: part(usage.programs),
            records: part(usage.records),
            total_bytes: usage.total_bytes,
            free_bytes: usage.free_bytes,
        }))
    }

    async fn doctor(&self) -> Result<Option<Vec<v1::Finding>>, ProviderError> {
        let (machine, around) = (self.machine.clone(), self.around.clone());
        // It tries what the kernel can, which takes a moment.
        let examined = tokio::task::spawn_blocking(move || examine(&machine, &around)).await;
        let examined = examined
            .map_err(|error| ProviderError::unavailable("the doctor", error.to_string()))?;
        let findings = examined.into_iter().map(|finding| v1::Finding {
            name: finding.name.to_owned(),
            status: match finding.status {
                FindingStatus::Ok => v1::FindingStatus::Ok,
                FindingStatus::Info => v1::FindingStatus::Info,
                FindingStatus::Warning => v1::FindingStatus::Warning,
                FindingStatus::Missing => v1::FindingStatus::Missing,
            },
            found: finding.found,
            advice: finding.advice,
        });
        Ok(Some(findings.collect()))
    }
}
