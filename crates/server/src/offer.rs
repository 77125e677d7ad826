use model::SnapshotId;

/// What sessions of this server are made of. Whoever starts the server knows.
pub trait Offer: std::fmt::Debug + Send + Sync {
    /// The provider of sessions that name none.
    fn default_provider(&self) -> &str;

    /// What a first sandbox of this provider starts from, if there is something.
    fn base(&self, provider: &str) -> Option<SnapshotId>;
}
