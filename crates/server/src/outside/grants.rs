use std::sync::Arc;

use async_trait::async_trait;
use doors::git::{Refusal, Verb};
use model::{Id, Organisation, Secret};
use sessions::Spec;
use store::Store;
use store::secrets::Scope;

use crate::vault::Vault;

/// Where anybody may read what is public, so that dependencies can be fetched.
const PUBLIC: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// A session's own repositories, with the organisation's tokens; of others on well-known hosts what
/// everybody may read, without any.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) store: Store,
    pub(super) vault: Arc<Vault>,
}

#[async_trait]
impl doors::Grants for Granted {
    async fn may(
        &self,
        visitor: &doors::Visitor,
        host: &str,
        repo: &str,
        verb: Verb,
    ) -> Result<Option<Secret>, Refusal> {
        let unreachable = |error: store::Error| {
            tracing::error!(%error, "what a session may use cannot be read");
            refusal("the server's database does not answer: try again".to_owned())
        };
        let (Ok(organisation), Ok(session)) =
            (visitor.organisation.parse(), visitor.session.parse())
        else {
            return Err(refusal("this is no session".to_owned()));
        };
        let record = self.store.load_session(session).await;
        let record = record.map_err(unreachable)?;
        let spec: Spec = serde_json::from_str(&record.spec).unwrap_or_default();
        if record.organisation != organisation {
            return Err(refusal("this is no session".to_owned()));
        }
        let mut repos = spec.boot.repos.iter();
        if repos.any(|known| is_it(&known.url, host, repo)) {
            return self
                .token(organisation, host, repo)
                .await
                .map_err(unreachable);
        }
        if verb == Verb::Fetch && PUBLIC.contains(&host) {
            return Ok(None);
        }
        Err(refusal(format!(
            "{host}/{repo} is not one of this session's repositories: make a session with it"
        )))
    }
}

impl Granted {
    /// The repository's own, else the host's.
    async fn token(
        &self,
        organisation: Id<Organisation>,
        host: &str,
        repo: &str,
    ) -> Result<Option<Secret>, store::Error> {
        for target in [format!("{host}/{repo}"), host.to_owned()] {
            // As they are kept: another spelling of a repository has the same token.
            let scope = Scope::Git(target.to_lowercase());
            let sealed = self.store.open_scope(organisation, &scope).await?;
            let Some(sealed) = sealed.first() else {
                continue;
            };
            match self.vault.open_secret(sealed) {
                Ok(token) => return Ok(Some(token)),
                Err(error) => tracing::error!(%error, host, "a git token cannot be opened"),
            }
        }
        Ok(None)
    }
}

fn refusal(reason: String) -> Refusal {
    Refusal { reason }
}

/// Whether this address of a session's repository is that one. Hosts are alike in large and small
/// letters, and so, at those we know, are names.
fn is_it(url: &str, host: &str, repo: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some((its_host, its_repo)) = rest.and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let its_repo = its_repo.trim_end_matches('/');
    let its_repo = its_repo.strip_suffix(".git").unwrap_or(its_repo);
    let is_same = if PUBLIC.contains(&host) {
        its_repo.eq_ignore_ascii_case(repo)
    } else {
        its_repo == repo
    };
    its_host.eq_ignore_ascii_case(host) && is_same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_in_every_spelling_and_no_other_is() {
        for url in [
            "https://git.example/a/b",
            "https://GIT.example/a/b.git",
            "https://git.example/a/b/",
        ] {
            assert!(is_it(url, "git.example", "a/b"), "{url}");
        }
        for url in [
            "https://git.example/a/bc",
            "https://git.example.evil/a/b",
            "https://other.example/a/b",
            "git.example/a/b",
        ] {
            assert!(!is_it(url, "git.example", "a/b"), "{url}");
        }
    }
}
