use model::{Id, Session, User};

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
    /// A git token of one user, by host.
    UserGit {
        user: Id<User>,
        host: String,
    },
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
            Self::UserGit { .. } => "user_git",
        }
    }

    /// Which of them; empty for the organisation.
    pub fn target(&self) -> String {
        match self {
            Self::Organisation => String::new(),
            Self::Session(session) => session.to_string(),
            Self::UserGit { user, host } => format!("{user}/{host}"),
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
            "user_git" => {
                let parts = target.split_once('/');
                let (user, host) = parts
                    .ok_or_else(|| Error::unreadable("scope of a secret", "it has no host"))?;
                Self::UserGit {
                    user: id(user)?,
                    host: host.to_owned(),
                }
            }
            _ => return Err(Error::unreadable("scope of a secret", kind)),
        })
    }
}
