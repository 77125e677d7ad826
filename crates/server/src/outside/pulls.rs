//! Pull requests of sessions: the forge is asked from here, with a token that no sandbox sees.

use std::sync::Arc;
use std::time::Duration;

use doors::forge::{ForgeError, NewPull, Pull, PullState, Repository};
use futures::future::join_all;
use gateway::{Inside, PullResult, WantedPull};
use hyper::Method;
use model::{Audit, Id, SignedDuration, Timestamp};
use serde_json::{Value, json};
use sessions::{Handle, Spec};
use store::pulls::{PullRecord, State};
use store::sessions::Record;

use super::Outside;
use super::grants::split;
use super::wanted::{NoPull, UNKNOWN, Wanted, check, choose, directory, is_branch, no};

/// A push of a large branch takes its time.
const PUSH: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_secs(10);
/// Of open ones: how long what was seen is believed, and how long somebody waits for news.
const FRESH: SignedDuration = SignedDuration::from_secs(30);
const NEWS: Duration = Duration::from_secs(5);
const LOOKED_AT: usize = 10;

/// Those that a sandbox may say; any other word of it is not passed on.
const CODES: [&str; 11] = [
    "SUCCESS",
    "NOTHING_TO_COMMIT",
    "NO_REMOTE",
    "NOT_A_REPO",
    "SHALLOW_PUSH_FAILED",
    "AUTH_FAILED",
    "BRANCH_EXISTS",
    "MERGE_CONFLICT",
    "REPO_BUSY",
    "MULTIPLE_REMOTES",
    "UNKNOWN_ERROR",
];

impl From<ForgeError> for NoPull {
    fn from(error: ForgeError) -> Self {
        use ForgeError as E;
        let code = match &error {
            E::NotAForge { .. } | E::NotARepository => "NOT_GITHUB_REMOTE",
            E::TokenRefused { .. } | E::Forbidden { .. } => "AUTH_FAILED",
            E::NoRepository { .. } | E::NoBranch { .. } => "NO_REMOTE",
            E::Throttled { .. } | E::Unavailable { .. } => "GH_NOT_AVAILABLE",
            E::Refused { .. } => UNKNOWN,
        };
        no(code, error.to_string())
    }
}

impl From<store::Error> for NoPull {
    fn from(error: store::Error) -> Self {
        tracing::error!(%error, "a pull request cannot be written down");
        no(UNKNOWN, "the server's database does not answer: try again")
    }
}

impl Outside {
    pub(crate) async fn open_pull(
        &self,
        session: &Handle,
        actor: &str,
        wanted: Wanted,
    ) -> Result<PullRecord, NoPull> {
        check(&wanted)?;
        let record = self.store.load_session(session.session()).await?;
        let spec: Spec = serde_json::from_str(&record.spec).unwrap_or_default();
        let repo = choose(&spec.boot.repos, wanted.repo.as_deref())?;
        let (host, name) =
            split(&repo.url).ok_or_else(|| no("NO_REMOTE", "the repository has no address"))?;
        let host = host.to_lowercase();
        if !self.forges.knows(&host) {
            return Err(ForgeError::NotAForge { host }.into());
        }
        let token = self.tokens.find(&record, &host, name).await;
        let token = token.map_err(|why| no("AUTH_FAILED", why))?;
        let token = token.ok_or_else(|| {
            let message = format!(
                "there is no token for {host}: set one with `nacre secret set --git {host}`"
            );
            no("AUTH_FAILED", message)
        })?;
        let repository = Repository {
            host: &host,
            name,
            token: &token,
        };
        let base = match wanted.base {
            Some(base) => base,
            None => self.forges.default_branch(repository).await?,
        };
        let branch = match wanted.branch {
            Some(branch) => branch,
            None => self.pushed(session, &directory(repo), &base).await?,
        };
        let new = NewPull {
            branch,
            base: Some(base),
            title: wanted.title,
            body: wanted.body,
        };
        let opened = self.forges.open_pull(repository, &new).await?;
        let kept = self.kept(&record, &host, name, opened);
        let is_news = self.keep(&record, &kept, Some(actor)).await?;
        if is_news {
            self.tell(session, &kept).await;
        }
        Ok(kept)
    }

    /// Those that may have become something else since they were seen.
    pub(crate) fn old<'a>(&self, pulls: &'a [PullRecord]) -> Vec<&'a PullRecord> {
        let now = self.clock.now();
        let is_old = |pull: &&PullRecord| {
            pull.state == State::Open && now.duration_since(pull.seen_at) >= FRESH
        };
        pulls.iter().filter(is_old).take(LOOKED_AT).collect()
    }

    /// Asks their forges, and tells whoever watches what is new.
    pub(crate) async fn look_again(&self, record: &Record, session: &Handle, old: &[&PullRecord]) {
        let looked = join_all(old.iter().map(|pull| self.look(record, session, pull)));
        // A forge that takes longer is asked again by whoever looks next.
        let _ = tokio::time::timeout(NEWS, looked).await;
    }

    async fn look(&self, record: &Record, session: &Handle, known: &PullRecord) {
        let Ok(Some(token)) = self
            .tokens
            .find(record, &known.host, &known.repository)
            .await
        else {
            return;
        };
        let repository = Repository {
            host: &known.host,
            name: &known.repository,
            token: &token,
        };
        let found = match self.forges.pull(repository, known.number).await {
            Ok(found) => found,
            Err(error) => {
                tracing::info!(session = %record.id, %error, "a pull request cannot be looked at");
                return;
            }
        };
        let kept = PullRecord {
            created_at: known.created_at,
            ..self.kept(record, &known.host, &known.repository, found)
        };
        match self.keep(record, &kept, None).await {
            Ok(true) => self.tell(session, &kept).await,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(session = %record.id, %error, "what became of a pull request is lost");
            }
        }
    }

    fn kept(&self, record: &Record, host: &str, name: &str, pull: Pull) -> PullRecord {
        let now: Timestamp = self.clock.now();
        PullRecord {
            session: record.id,
            host: host.to_owned(),
            repository: name.to_owned(),
            number: pull.number,
            title: pull.title,
            url: pull.url,
            state: match pull.state {
                PullState::Open => State::Open,
                PullState::Closed => State::Closed,
                PullState::Merged => State::Merged,
            },
            branch: pull.branch,
            base: pull.base,
            created_at: now,
            seen_at: now,
        }
    }

    /// Whether it is news.
    async fn keep(
        &self,
        record: &Record,
        pull: &PullRecord,
        actor: Option<&str>,
    ) -> Result<bool, store::Error> {
        let mut tx = self.store.begin().await?;
        let is_news = tx.put_pull(pull).await?;
        if let Some(actor) = actor {
            let line = store::audit::Line {
                id: Id::<Audit>::new(&*self.clock),
                organisation: record.organisation,
                session: Some(record.id),
                actor: actor.to_owned(),
                action: "pull.open".to_owned(),
                target: Some(pull.url.clone()),
                body: json!({ "branch": pull.branch, "base": pull.base, "new": is_news })
                    .to_string(),
                at: pull.seen_at,
            };
            tx.record(&line).await?;
        }
        tx.commit().await?;
        Ok(is_news)
    }

    async fn tell(&self, session: &Handle, pull: &PullRecord) {
        let frame = json!({ "type": "pull_request", "number": pull.number, "title": pull.title,
            "url": pull.url, "status": pull.state, "branch": pull.branch, "base": pull.base,
            "repo": format!("{}/{}", pull.host, pull.repository) });
        if let Err(error) = session.announce(&frame).await {
            let session = session.session();
            tracing::warn!(%session, %error, "a pull request was opened and not told");
        }
    }

    /// The branch that is checked out, on its remote.
    async fn pushed(
        &self,
        session: &Handle,
        directory: &str,
        base: &str,
    ) -> Result<String, NoPull> {
        let unreachable = |error: &dyn std::fmt::Display| no(UNKNOWN, error.to_string());
        let place = session.ensure_ready().await;
        let place = place.map_err(|error| unreachable(&error))?;
        let mut providers = self.providers.iter();
        let provider = providers.find(|provider| provider.name() == session.provider());
        let provider = provider.ok_or_else(|| no(UNKNOWN, "its provider is not here"))?;
        let inside = Inside::new(Arc::clone(provider), place);
        let path = format!("/api/git/status?repo={}", gateway::encode(directory));
        let status = inside.ask(Method::GET, &path, None, LOOK).await;
        let status: Value = status.map_err(|error| unreachable(&error))?;
        let branch = status["branch"].as_str().unwrap_or_default().to_owned();
        if !is_branch(&branch) {
            return Err(no(UNKNOWN, "no branch is checked out: make one first"));
        }
        // Pushed first it would be merged already.
        if branch == base {
            let message = format!("{branch} is what would be merged into: make a branch first");
            return Err(no(UNKNOWN, message));
        }
        let body = json!({ "repo": directory });
        let pushed = inside.ask(Method::POST, "/api/git/push", Some(&body), PUSH);
        let pushed: Value = pushed.await.map_err(|error| unreachable(&error))?;
        if pushed["success"] == true {
            return Ok(branch);
        }
        let said = pushed["code"].as_str().unwrap_or_default();
        let code = CODES.iter().find(|code| **code == said);
        let words = pushed["message"].as_str().unwrap_or("it cannot be pushed");
        Err(no(
            code.filter(|code| **code != "SUCCESS").unwrap_or(&UNKNOWN),
            words.chars().take(1000).collect::<String>(),
        ))
    }
}

#[async_trait::async_trait]
impl gateway::Pulls for Outside {
    async fn open(
        &self,
        session: &Handle,
        caller: &gateway::Caller,
        wanted: WantedPull,
    ) -> PullResult {
        let wanted = Wanted {
            repo: wanted.repo,
            branch: None,
            base: wanted.base,
            title: wanted.title,
            body: wanted.body,
        };
        match self.open_pull(session, &caller.id, wanted).await {
            Ok(pull) => PullResult {
                success: true,
                code: "SUCCESS",
                message: format!("#{} is {}", pull.number, pull.state),
                pr_url: Some(pull.url),
            },
            Err(refused) => PullResult {
                success: false,
                code: refused.code,
                message: refused.message,
                pr_url: None,
            },
        }
    }
}
