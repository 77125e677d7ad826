use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// For whom a secret is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// One that is newer than the reader.
    Unknown,
}

impl<'de> Deserialize<'de> for SecretScope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Word(String),
            Of(BTreeMap<String, String>),
        }
        let (word, of) = match Written::deserialize(deserializer)? {
            Written::Word(word) if word == "organisation" => return Ok(Self::Organisation),
            Written::Word(_) => return Ok(Self::Unknown),
            Written::Of(mut of) => match (of.pop_first(), of.is_empty()) {
                (Some(one), true) => one,
                _ => return Err(D::Error::custom("a scope is one thing")),
            },
        };
        Ok(match &*word {
            "repository" => Self::Repository(of),
            "session" => Self::Session(of),
            "model" => Self::Model(of),
            "git" => Self::Git(of),
            "user_git" => Self::UserGit(of),
            _ => Self::Unknown,
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_as_they_are_written_and_newer_ones_are_no_error() {
        for scope in [
            SecretScope::Organisation,
            SecretScope::Repository("https://git.example/a/b".to_owned()),
            SecretScope::Session("ses_1".to_owned()),
            SecretScope::Model("anthropic".to_owned()),
            SecretScope::Git("git.example".to_owned()),
        ] {
            let text = serde_json::to_string(&scope).unwrap();
            assert_eq!(serde_json::from_str::<SecretScope>(&text).unwrap(), scope);
        }
        for newer in [r#""team""#, r#"{"team":"x"}"#] {
            let read: SecretScope = serde_json::from_str(newer).unwrap();
            assert_eq!(read, SecretScope::Unknown, "{newer}");
        }
        for none in ["{}", "7", r#"{"model":"a","git":"b"}"#, r#"{"model":7}"#] {
            assert!(serde_json::from_str::<SecretScope>(none).is_err(), "{none}");
        }
    }
}
