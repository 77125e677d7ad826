use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use model::{Id, Organisation, Secret};
use store::Store;
use store::secrets::Scope;

use crate::vault::Vault;

/// Keys of model providers: the organisation's own, else those that the server was started with.
#[derive(Debug)]
pub(super) struct Keyring {
    pub(super) store: Store,
    pub(super) vault: Arc<Vault>,
    pub(super) usual: BTreeMap<String, Secret>,
}

impl Keyring {
    pub(super) async fn has(&self, organisation: Id<Organisation>, provider: &str) -> bool {
        matches!(self.find(organisation, provider).await, Ok(Some(_)))
    }

    async fn find(
        &self,
        organisation: Id<Organisation>,
        provider: &str,
    ) -> Result<Option<Secret>, String> {
        let scope = Scope::Model(provider.to_owned());
        let sealed = self.store.open_scope(organisation, &scope).await;
        let sealed = sealed.map_err(|error| {
            tracing::error!(%error, "a model's key cannot be read");
            "the server's database does not answer: try again".to_owned()
        })?;
        let Some(sealed) = sealed.first() else {
            return Ok(self.usual.get(provider).cloned());
        };
        let opened = self.vault.open_secret(sealed);
        opened.map(Some).map_err(|error| {
            tracing::error!(%error, "a model's key cannot be opened");
            "the key of this provider cannot be opened: set it again".to_owned()
        })
    }
}

#[async_trait]
impl doors::Keys for Keyring {
    async fn key(
        &self,
        visitor: &doors::Visitor,
        provider: &str,
    ) -> Result<Option<Secret>, String> {
        match visitor.organisation.parse() {
            Ok(organisation) => self.find(organisation, provider).await,
            Err(_) => Ok(None),
        }
    }
}
