//! Which token a session's git goes out with: the repository's own, else the one of whoever made the
//! session, else the organisation's for the host, else none.

use std::sync::Arc;

use model::Secret;
use store::Store;
use store::secrets::Scope;
use store::sessions::Record;

use crate::vault::Vault;

#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) store: Store,
    pub(super) vault: Arc<Vault>,
}

impl Tokens {
    /// `repo` is without its `.git`. An error is for whoever uses git inside: no secrets in it.
    pub(super) async fn find(
        &self,
        session: &Record,
        host: &str,
        repo: &str,
    ) -> Result<Option<Secret>, String> {
        let unreachable = |error: store::Error| {
            tracing::error!(%error, "a git token cannot be read");
            "the server's database does not answer: try again".to_owned()
        };
        for scope in self.chain(session, host, repo).await.map_err(unreachable)? {
            let sealed = self.store.open_scope(session.organisation, &scope).await;
            let sealed = sealed.map_err(unreachable)?;
            let Some(sealed) = sealed.first() else {
                continue;
            };
            // The next one might do something else than what was meant.
            let opened = self.vault.open_secret(sealed);
            return opened.map(Some).map_err(|error| {
                tracing::error!(%error, host, "a git token cannot be opened");
                format!(
                    "the {} for {host} cannot be opened: set it again",
                    word(&scope)
                )
            });
        }
        Ok(None)
    }

    /// In order.
    async fn chain(
        &self,
        session: &Record,
        host: &str,
        repo: &str,
    ) -> Result<Vec<Scope>, store::Error> {
        // As they are kept: another spelling of a repository has the same token.
        let repository = Scope::Git(format!("{host}/{repo}").to_lowercase());
        let mut chain = vec![repository];
        if let Some(user) = session.created_by {
            // Who has left the organisation takes their token with them.
            let role = self.store.find_role(session.organisation, user).await?;
            let host = host.to_lowercase();
            chain.extend(role.map(|_| Scope::UserGit { user, host }));
        }
        chain.push(Scope::Git(host.to_lowercase()));
        Ok(chain)
    }
}

fn word(scope: &Scope) -> &'static str {
    match scope {
        Scope::UserGit { .. } => "token of whoever made this session",
        Scope::Git(of) if of.contains('/') => "repository's token",
        _ => "organisation's token",
    }
}
