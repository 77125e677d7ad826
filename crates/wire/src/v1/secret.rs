use serde::{Deserialize, Serialize};

/// For whom a secret is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SecretScope {
    /// Every session of the organisation.
    Organisation,
    /// Sessions on this repository, by its address: `https://host/owner/name`.
    Repository(String),
    /// One session.
    Session(String),
    /// No session: keys of model providers, by the provider's name. They never enter a sandbox.
    Model(String),
    /// No session: tokens of git hosts, by host or repository. They never enter a sandbox.
    Git(String),
    /// No session: a git host's token of whoever sets it, by host, for the sessions that they made. It
    /// never enters a sandbox.
    UserGit(String),
}

/// What is known of a secret; never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretInfo {
    pub id: String,
    pub name: String,
    pub scope: SecretScope,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSecret {
    pub name: String,
    pub scope: SecretScope,
    pub value: String,
}

impl std::fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSecret")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
