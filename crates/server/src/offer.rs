use model::{Id, Organisation, SnapshotId};
use wire::v1;

/// What sessions of this server are made of. Whoever starts the server knows.
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
}
