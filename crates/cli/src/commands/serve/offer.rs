use model::SnapshotId;
use provider_local::Local as Engine;
use server::Offer;
use wire::link::{Model, ModelProvider};
use wire::v1::ModelInfo;

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

    fn models(&self) -> Vec<ModelInfo> {
        vec![ModelInfo {
            id: "demo/demo".to_owned(),
            name: "Demo (scripted, not a language model)".to_owned(),
            available: true,
            is_default: true,
        }]
    }

    fn model_providers(&self) -> Vec<ModelProvider> {
        vec![ModelProvider {
            id: "demo".to_owned(),
            name: "Demo".to_owned(),
            models: vec![Model {
                id: "demo".to_owned(),
                name: Some("Demo (scripted, not a language model)".to_owned()),
                context_limit: None,
                output_limit: None,
            }],
        }]
    }
}
