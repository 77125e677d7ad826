use std::sync::Arc;

use async_trait::async_trait;
use doors::git::{Refusal, Verb};
use model::Secret;
use sessions::Spec;
use store::Store;

use super::tokens::Tokens;

/// Where anybody may read what is public, so that dependencies can be fetched.
const PUBLIC: [&str; 4] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"];

/// A session's own repositories, with their tokens; of others on well-known hosts what everybody may
/// read, without any.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) store: Store,
    pub(super) tokens: Arc<Tokens>,
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
        let Ok(session) = visitor.session.parse() else {
            return Err(refusal("this is no session".to_owned()));
        };
        let record = self.store.load_session(session).await;
        let record = record.map_err(unreachable)?;
        let spec: Spec = serde_json::from_str(&record.spec).unwrap_or_default();
        if record.organisation.to_string() != visitor.organisation {
            return Err(refusal("this is no session".to_owned()));
        }
        let mut repos = spec.boot.repos.iter();
        if repos.any(|known| is_it(&known.url, host, repo)) {
            let token = self.tokens.find(&record, host, repo).await;
            return token.map_err(refusal);
        }
        if verb == Verb::Fetch && PUBLIC.contains(&host) {
            return Ok(None);
        }
        Err(refusal(format!(
            "{host}/{repo} is not one of this session's repositories: make a session with it"
        )))
    }

    async fn renew(&self, _visitor: &doors::Visitor, host: &str, repo: &str) -> bool {
        self.tokens.renew(host, repo)
    }
}

fn refusal(reason: String) -> Refusal {
    Refusal { reason }
}

/// Whether this address of a session's repository is that one. Hosts are alike in large and small
/// letters, and so, at those we know, are names.
fn is_it(url: &str, host: &str, repo: &str) -> bool {
    let Some((its_host, its_repo)) = split(url) else {
        return false;
    };
    let is_same = if PUBLIC.contains(&host) {
        its_repo.eq_ignore_ascii_case(repo)
    } else {
        its_repo == repo
    };
    its_host.eq_ignore_ascii_case(host) && is_same
}

/// A repository in one spelling, with a scheme or without: what is kept for one is found by every
/// other.
pub(crate) fn spelled(repository: &str) -> String {
    let repository = repository.trim();
    let url = match repository.split_once("://") {
        Some((_, rest)) => format!("https://{rest}"),
        None => format!("https://{repository}"),
    };
    let Some((host, repo)) = split(&url) else {
        return repository.to_owned();
    };
    let host = host.to_lowercase();
    if PUBLIC.contains(&&*host) {
        return format!("{host}/{}", repo.to_lowercase());
    }
    format!("{host}/{repo}")
}

/// An address's host, and its path without `.git`.
pub(super) fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let (host, repo) = rest?.split_once('/')?;
    let repo = repo.trim_end_matches('/');
    Some((host, repo.strip_suffix(".git").unwrap_or(repo)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_repository_is_one() {
        for one in [
            "https://GitHub.com/Pearls/Nacre.git",
            "https://github.com/pearls/nacre/",
            "http://github.com/pearls/nacre",
            "github.com/pearls/nacre",
        ] {
            assert_eq!(spelled(one), "github.com/pearls/nacre", "{one}");
        }
        assert_eq!(spelled("https://Git.example/A/b.git/"), "git.example/A/b");
    }

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
