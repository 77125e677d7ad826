//! Forges: where pull requests are. Only the host asks them, with a token that no sandbox sees.

mod answer;
mod app;

use std::fmt;
use std::time::Duration;

use hyper::{Method, StatusCode};
use model::{Redactor, Secret};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::git;
use crate::network::{NetworkError, why};
use answer::{Said, read, shorten};
pub use app::{App, Apps};

/// A host whose API is `GitHub`'s.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forge {
    /// As in addresses of repositories, in lower case, with its port if it has one.
    pub host: String,
    /// As in `https://api.github.com`, or `https://git.example/api/v3`.
    pub api: String,
}

impl Forge {
    pub fn github() -> Self {
        Self {
            host: "github.com".to_owned(),
            api: "https://api.github.com".to_owned(),
        }
    }
}

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Forges {
    forges: Vec<Forge>,
    client: reqwest::Client,
}

/// A repository on its forge.
#[derive(Debug, Clone, Copy)]
pub struct Repository<'a> {
    pub host: &'a str,
    /// `owner/name`.
    pub name: &'a str,
    pub token: &'a Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPull {
    pub branch: String,
    /// The repository's default branch, unless it is said.
    pub base: Option<String>,
    pub title: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    pub number: u64,
    pub title: String,
    pub url: String,
    pub state: PullState,
    pub branch: String,
    pub base: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullState {
    Open,
    Closed,
    Merged,
}

impl PullState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Merged => "merged",
        }
    }
}

/// Why not, in words for whoever asked. None has a token in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    #[error("{host} is no forge that we know: list it in `git.forges`")]
    NotAForge { host: String },
    #[error("a pull request needs an owner and a name of a repository, as in `owner/name`")]
    NotARepository,
    #[error(
        "{host} does not accept the token for {repo}: set a new one with `nacre secret set --git {host}`"
    )]
    TokenRefused { host: String, repo: String },
    #[error("the token for {host} may not do this to {repo}: {said}")]
    Forbidden {
        host: String,
        repo: String,
        said: String,
    },
    #[error(
        "{host} has no repository {repo} that the token can see: check its name, or the token's rights"
    )]
    NoRepository { host: String, repo: String },
    #[error("{host} has no branch {branch} of {repo}: push it first")]
    NoBranch {
        host: String,
        repo: String,
        branch: String,
    },
    #[error("{host} lets nobody ask more now: try again in {} s", wait.as_secs())]
    Throttled { host: String, wait: Duration },
    #[error("{host} refuses: {said}")]
    Refused { host: String, said: String },
    #[error("{host} does not answer as a forge would: {said}")]
    Unavailable { host: String, said: String },
}

impl Forges {
    pub fn new(config: &git::Config) -> Result<Self, NetworkError> {
        let mut forges = config.forges.clone();
        if !forges.iter().any(|forge| forge.host == "github.com") {
            forges.push(Forge::github());
        }
        for forge in &mut forges {
            forge.host.make_ascii_lowercase();
            forge.api.truncate(forge.api.trim_end_matches('/').len());
            let is_address = reqwest::Url::parse(&forge.api).is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https")
                    && url.has_host()
                    && url.username().is_empty()
                    && url.password().is_none()
                    && url.query().is_none()
                    && url.fragment().is_none()
            });
            if !is_address {
                let host = forge.host.clone();
                return Err(NetworkError::Forge { host });
            }
        }
        Ok(Self {
            forges,
            client: config.network.client()?,
        })
    }

    pub fn knows(&self, host: &str) -> bool {
        self.forges.iter().any(|forge| forge.host == host)
    }

    /// Into which a pull request goes that says nothing else.
    pub async fn default_branch(&self, repository: Repository<'_>) -> Result<String, ForgeError> {
        self.own_branch(&self.at(repository)?).await
    }

    /// Opens one, unless the branch has one that is open: then it is that one, and nothing is changed.
    pub async fn open_pull(
        &self,
        repository: Repository<'_>,
        new: &NewPull,
    ) -> Result<Pull, ForgeError> {
        let at = self.at(repository)?;
        let base = match &new.base {
            Some(base) => base.clone(),
            None => self.own_branch(&at).await?,
        };
        if !self.has_branch(&at, &new.branch).await? {
            return Err(ForgeError::NoBranch {
                host: at.host.to_owned(),
                repo: at.name.to_owned(),
                branch: new.branch.clone(),
            });
        }
        if let Some(known) = self.find_open(&at, &new.branch, &base).await? {
            return Ok(known);
        }
        let body = json!({
            "title": new.title, "body": new.body, "head": new.branch, "base": base,
        });
        let said = self.ask(&at, Method::POST, "/pulls", Some(&body)).await?;
        if said.status == StatusCode::CREATED {
            return answer::pull(&at, &said.body);
        }
        // Somebody may have been as quick.
        if said.status == StatusCode::UNPROCESSABLE_ENTITY
            && let Some(known) = self.find_open(&at, &new.branch, &base).await?
        {
            return Ok(known);
        }
        Err(answer::error(&at, &said))
    }

    /// As it is now.
    pub async fn pull(&self, repository: Repository<'_>, number: u64) -> Result<Pull, ForgeError> {
        let at = self.at(repository)?;
        let path = format!("/pulls/{number}");
        let said = self.ask(&at, Method::GET, &path, None).await?;
        match said.status {
            StatusCode::OK => answer::pull(&at, &said.body),
            _ => Err(answer::error(&at, &said)),
        }
    }

    async fn own_branch(&self, at: &At<'_>) -> Result<String, ForgeError> {
        let said = self.ask(at, Method::GET, "", None).await?;
        if said.status != StatusCode::OK {
            return Err(answer::error(at, &said));
        }
        let branch = said.body["default_branch"].as_str();
        branch.map(str::to_owned).ok_or_else(|| at.nonsense())
    }

    async fn has_branch(&self, at: &At<'_>, branch: &str) -> Result<bool, ForgeError> {
        let path = format!("/git/ref/heads/{}", segments(branch));
        let said = self.ask(at, Method::GET, &path, None).await?;
        match said.status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => {
                // The repository itself may be what is not there.
                self.own_branch(at).await.map(|_| false)
            }
            _ => Err(answer::error(at, &said)),
        }
    }

    async fn find_open(
        &self,
        at: &At<'_>,
        branch: &str,
        base: &str,
    ) -> Result<Option<Pull>, ForgeError> {
        let (owner, _) = at.name.split_once('/').ok_or(ForgeError::NotARepository)?;
        let path = format!(
            "/pulls?state=open&per_page=1&head={}&base={}",
            segment(&format!("{owner}:{branch}")),
            segment(base)
        );
        let said = self.ask(at, Method::GET, &path, None).await?;
        if said.status != StatusCode::OK {
            return Err(answer::error(at, &said));
        }
        let first = said.body.get(0);
        first.map(|found| answer::pull(at, found)).transpose()
    }

    fn at<'a>(&'a self, repository: Repository<'a>) -> Result<At<'a>, ForgeError> {
        let Repository { host, name, token } = repository;
        let mut forges = self.forges.iter();
        let forge = forges.find(|forge| forge.host == host);
        let forge = forge.ok_or_else(|| ForgeError::NotAForge {
            host: host.to_owned(),
        })?;
        if !is_repository(name) {
            return Err(ForgeError::NotARepository);
        }
        Ok(At {
            host,
            name,
            token,
            api: &forge.api,
        })
    }

    async fn ask(
        &self,
        at: &At<'_>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Said, ForgeError> {
        let path = format!("/repos/{}{path}", at.name);
        self.ask_api(at, method, &path, body).await
    }

    async fn ask_api(
        &self,
        at: &At<'_>,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Said, ForgeError> {
        let secrets = Redactor::new([at.token.expose()]);
        let url = format!("{}{path}", at.api);
        let mut request = self
            .client
            .request(method, url)
            .timeout(PATIENCE)
            .bearer_auth(at.token.expose())
            .header("accept", "application/vnd.github+json")
            .header("user-agent", "nacre")
            .header("x-github-api-version", "2022-11-28");
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await;
        let answer = answer.map_err(|error| ForgeError::Unavailable {
            host: at.host.to_owned(),
            said: shorten(&why(error, &secrets)),
        })?;
        read(at, answer, &secrets).await
    }
}

impl fmt::Debug for Forges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forges")
            .field("forges", &self.forges)
            .finish_non_exhaustive()
    }
}

/// A repository that is asked about, and where.
struct At<'a> {
    host: &'a str,
    name: &'a str,
    token: &'a Secret,
    api: &'a str,
}

impl At<'_> {
    fn nonsense(&self) -> ForgeError {
        ForgeError::Unavailable {
            host: self.host.to_owned(),
            said: "what it says of a pull request cannot be read".to_owned(),
        }
    }
}

/// An owner and a name, of letters that cannot lead elsewhere.
fn is_repository(name: &str) -> bool {
    let is_name = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=100).contains(&part.len()) && part != "." && part != ".." && part.bytes().all(plain)
    };
    matches!(name.split_once('/'), Some((owner, name)) if is_name(owner) && is_name(name))
}

/// A branch in a path: its slashes stay, all else is written so that it is one word.
fn segments(text: &str) -> String {
    let parts: Vec<String> = text.split('/').map(segment).collect();
    parts.join("/")
}

fn segment(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in text.bytes() {
        // A dot alone may lead upwards.
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_an_owner_and_a_name_and_nothing_else() {
        assert!(is_repository("octo-cat/Hello.World_1"));
        for wrong in [
            "a", "a/", "/a", "a/b/c", "../b", "a/..", "a b/c", "a/b?x", "a/%2e",
        ] {
            assert!(!is_repository(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_branch_cannot_lead_elsewhere() {
        assert_eq!(segments("feature/a-b"), "feature/a-b");
        assert_eq!(segments("../x?y#z"), "%2E%2E/x%3Fy%23z");
    }
}
