use async_trait::async_trait;
use model::{Id, Organisation, SnapshotId};
use provider::ProviderError;
use wire::v1;

/// What sessions of this server are made of. Whoever starts the server knows.
#[async_trait]
pub trait Offer: std::fmt::Debug + Send + Sync {
    /// The provider of sessions that name none.
    fn default_provider(&self) -> &str;

    /// What a first sandbox of this provider starts from, if there is something.
    fn base(&self, provider: &str) -> Option<SnapshotId>;

    /// What sessions of an organisation reach that say nothing of it, and hosts that are on the list
    /// of each.
    fn egress(&self, _organisation: Id<Organisation>) -> v1::NewEgress {
        v1::NewEgress {
            policy: Some(v1::EgressPolicy::Proxy),
            allow: Vec::new(),
        }
    }

    /// What every sandbox reaches that has a list, whoever it is of.
    fn reached_everywhere(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is on the disk under the sandboxes. None where they are on no machine of ours.
    async fn storage(&self) -> Result<Option<v1::Storage>, ProviderError> {
        Ok(None)
    }

    /// What is so of the machine that they run on, and what to do about it.
    async fn doctor(&self) -> Result<Option<Vec<v1::Finding>>, ProviderError> {
        Ok(None)
    }
}
