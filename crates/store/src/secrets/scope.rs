use model::{Id, Session};

use crate::columns::id;
use crate::{Error, Result};

/// For whom a secret is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    Organisation,
    /// By its address.
    Repository(String),
    Session(Id<Session>),
    /// A model provider's key, by the provider's name.
    Model(String),
    /// A git token, by host or repository.
    Git(String),
}

impl Scope {
    /// The word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Organisation => "organisation",
            Self::Repository(_) => "repository",
            Self::Session(_) => "session",
            Self::Model(_) => "model",
            Self::Git(_) => "git",
        }
    }

    /// Which of them; empty for the organisation.
    pub fn target(&self) -> String {
        match self {
            Self::Organisation => String::new(),
            Self::Session(session) => session.to_string(),
            Self::Repository(name) | Self::Model(name) | Self::Git(name) => name.clone(),
        }
    }

    pub(super) fn read(kind: &str, target: String) -> Result<Self> {
        Ok(match kind {
            "organisation" => Self::Organisation,
            "repository" => Self::Repository(target),
            "session" => Self::Session(id(&target)?),
            "model" => Self::Model(target),
            "git" => Self::Git(target),
            _ => return Err(Error::unreadable("scope of a secret", kind)),
        })
    }
}
