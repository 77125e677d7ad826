use model::SnapshotId;
use wire::link::ModelProvider;
use wire::v1::ModelInfo;

/// What sessions of this server are made of. Whoever starts the server knows.
pub trait Offer: std::fmt::Debug + Send + Sync {
    /// The provider of sessions that name none.
    fn default_provider(&self) -> &str;

    /// What a first sandbox of this provider starts from, if there is something.
    fn base(&self, provider: &str) -> Option<SnapshotId>;

    /// All models that the model door serves.
    fn models(&self) -> Vec<ModelInfo>;

    /// The same, as workplaces are told.
    fn model_providers(&self) -> Vec<ModelProvider>;

    /// The model of sessions that name none.
    fn default_model(&self) -> Option<String> {
        self.models()
            .into_iter()
            .find(|model| model.is_default)
            .map(|model| model.id)
    }
}
