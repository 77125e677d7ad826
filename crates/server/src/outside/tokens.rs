//! Which token a session's git goes out with: the repository's own, else the one of whoever made the
//! session, else the organisation's for the host, else none. In the place of each may be an app,
//! which gets a token for the repository.

use std::sync::Arc;

use doors::forge::{App, Apps, Forges};
use model::Secret;
use store::Store;
use store::secrets::Scope;
use store::sessions::Record;

use crate::vault::Vault;

#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) store: Store,
    pub(super) vault: Arc<Vault>,
    pub(super) forges: Arc<Forges>,
    pub(super) apps: Apps,
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
            let opened = opened.map_err(|error| {
                tracing::error!(%error, host, "a git token cannot be opened");
                format!(
                    "the {} for {host} cannot be opened: set it again",
                    word(&scope)
                )
            })?;
            return match App::read(&opened) {
                None => Ok(Some(opened)),
                Some(Ok(app)) => {
                    let token = self.apps.token(&self.forges, &app, host, repo).await;
                    token.map(Some).map_err(|error| error.to_string())
                }
                Some(Err(wrong)) => Err(format!("the {} for {host}: {wrong}", word(&scope))),
            };
        }
        Ok(None)
    }

    /// The host did not take it: an app gets another. True where it was one's.
    pub(super) fn renew(&self, host: &str, repo: &str) -> bool {
        self.apps.forget(host, repo)
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
