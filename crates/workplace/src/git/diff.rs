use serde::Serialize;

use super::guard::Intent;
use super::repo::{Repo, below};
use super::{Git, GitError, READ, complaint, text};

/// What is shown of a diff.
pub const DIFF_LIMIT: usize = 64 << 10;
const MARK: &str = "\n[the diff goes on; 64 KiB of it are shown]\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diff {
    pub diff: String,
    pub truncated: bool,
}

impl Git {
    /// What differs from the last commit, of all files or of one.
    pub async fn diff(&self, name: &str, path: Option<&str>) -> Result<Diff, GitError> {
        let repo = self.repo(name).await?;
        match self.differing(&repo, Some("HEAD"), path).await {
            // Before the first commit there is no HEAD.
            Err(GitError::Failed(_)) => self.differing(&repo, None, path).await,
            done => done,
        }
    }

    /// What differs from this commit, whatever was committed since.
    pub async fn diff_since(
        &self,
        name: &str,
        commit: &str,
        path: Option<&str>,
    ) -> Result<Diff, GitError> {
        if !is_commit(commit) {
            return Err(GitError::NotACommit(commit.to_owned()));
        }
        let repo = self.repo(name).await?;
        self.differing(&repo, Some(commit), path).await
    }

    async fn differing(
        &self,
        repo: &Repo,
        against: Option<&str>,
        path: Option<&str>,
    ) -> Result<Diff, GitError> {
        let path = path.map(|path| below(&repo.path, path)).transpose()?;
        let mut arguments = vec![
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--ignore-submodules=dirty",
        ];
        arguments.extend(against);
        arguments.push("--");
        arguments.extend(path.as_deref().filter(|path| !path.is_empty()));
        let outcome = self
            .git(repo, Intent::Look, &arguments, DIFF_LIMIT, READ)
            .await?;
        if outcome.code != 0 {
            return Err(GitError::Failed(complaint(&outcome)));
        }
        Ok(cut(text(&outcome.stdout), outcome.cut))
    }
}

/// Written out: a name could be an option, or mean something else a moment later.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn cut(mut diff: String, truncated: bool) -> Diff {
    if truncated {
        diff.push_str(MARK);
    }
    Diff { diff, truncated }
}
