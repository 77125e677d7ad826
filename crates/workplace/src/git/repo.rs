//! Which repositories there are, and whether what somebody names is one of them.

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::{Git, GitError, text};
use crate::command::{exec_as, run};
use crate::files::FileError;

/// Below the workspace.
const DEPTH: &str = "4";
const MAX_REPOS: usize = 100;
const LISTING: usize = 1 << 20;
/// `gitdir: …`
const GIT_FILE: u64 = 4 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Repo {
    /// Its path below the workspace; `.` for the workspace itself.
    pub id: String,
    pub path: Utf8PathBuf,
    #[serde(skip)]
    pub(super) git_dir: Utf8PathBuf,
    /// Below the workspace, for looking at it.
    #[serde(skip)]
    pub(super) git_dir_below: String,
}

impl Repo {
    /// Of the repository, or of this work tree of it.
    pub(crate) fn git_dir(&self) -> &Utf8Path {
        &self.git_dir
    }
}

impl Git {
    /// At most three directories below the workspace.
    pub async fn repos(&self) -> Result<Vec<Repo>, GitError> {
        let workspace = self.place.workspace.as_str();
        let mut exec = exec_as(
            &self.place.user,
            [
                "find",
                "-P",
                workspace,
                "-maxdepth",
                DEPTH,
                "-name",
                "node_modules",
                "-prune",
                "-o",
                "-name",
                ".git",
                "-prune",
                "-print0",
            ],
        );
        exec.timeout_ms = Some(5000);
        let outcome = run(&self.hands, exec, LISTING).await?;
        let mut repos = Vec::new();
        for found in outcome.stdout.split(|byte| *byte == 0) {
            let Ok(found) = std::str::from_utf8(found) else {
                continue;
            };
            let Some(id) = Utf8Path::new(found)
                .parent()
                .and_then(|path| path.strip_prefix(workspace).ok())
            else {
                continue;
            };
            let id = if id.as_str().is_empty() {
                "."
            } else {
                id.as_str()
            };
            if let Ok(repo) = self.repo(id).await {
                repos.push(repo);
            }
            if repos.len() >= MAX_REPOS {
                break;
            }
        }
        repos.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(repos)
    }

    /// The repository that somebody names: relative to the workspace, or absolute and below it.
    pub async fn repo(&self, name: &str) -> Result<Repo, GitError> {
        let below = below(&self.place.workspace, name)?;
        let git = join(&below, ".git");
        let git_dir_below = match self.files.listed(&git, 0).await {
            Ok(_) => git,
            Err(FileError::NotFound(_)) => return Err(GitError::NotARepo(name.to_owned())),
            // A link is refused for good; a file may say where the directory is.
            Err(FileError::Refused(_)) => self.linked(&below, &git, name).await?,
            Err(error) => return Err(GitError::Files(error)),
        };
        Ok(Repo {
            id: if below.is_empty() {
                ".".to_owned()
            } else {
                below.clone()
            },
            path: self.place.workspace.join(&below).components().collect(),
            git_dir: self.place.workspace.join(&git_dir_below),
            git_dir_below,
        })
    }

    /// Of a work tree or a submodule.
    async fn linked(&self, below_repo: &str, git: &str, name: &str) -> Result<String, GitError> {
        let outside = || GitError::Outside(name.to_owned());
        let part = self
            .files
            .read(git, 0, GIT_FILE)
            .await
            .map_err(|_| outside())?;
        let content = text(&part.bytes);
        let target = content
            .trim()
            .strip_prefix("gitdir:")
            .ok_or_else(outside)?
            .trim();
        let resolved = resolve(&self.place.workspace, below_repo, target).ok_or_else(outside)?;
        self.files
            .listed(&resolved, 0)
            .await
            .map_err(|_| outside())?;
        Ok(resolved)
    }
}

/// A path below the workspace as it is written; links are for whoever opens it to refuse.
pub(super) fn below(workspace: &Utf8Path, name: &str) -> Result<String, GitError> {
    let path = Utf8Path::new(name);
    let path = path.strip_prefix(workspace).unwrap_or(path);
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Utf8Component::Normal(part) => parts.push(part),
            Utf8Component::CurDir => {}
            _ => return Err(GitError::Outside(name.to_owned())),
        }
    }
    if name.contains('\0') {
        return Err(GitError::Outside(name.to_owned()));
    }
    Ok(parts.join("/"))
}

fn resolve(workspace: &Utf8Path, repo: &str, target: &str) -> Option<String> {
    let whole = workspace.join(repo).join(target);
    let mut parts: Vec<&str> = Vec::new();
    for component in whole.components() {
        match component {
            Utf8Component::Normal(part) => parts.push(part),
            Utf8Component::ParentDir => {
                parts.pop()?;
            }
            _ => {}
        }
    }
    let absolute = Utf8PathBuf::from(format!("/{}", parts.join("/")));
    let below = absolute.strip_prefix(workspace).ok()?;
    (!below.as_str().is_empty()).then(|| below.as_str().to_owned())
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

impl From<FileError> for GitError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Hands(hands) => Self::Hands(hands),
            other => Self::Files(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_the_workspace_is_refused() {
        let workspace = Utf8Path::new("/home/user/workspace");
        assert_eq!(below(workspace, ".").unwrap(), "");
        assert_eq!(below(workspace, "a/./b/").unwrap(), "a/b");
        assert_eq!(below(workspace, "/home/user/workspace/a").unwrap(), "a");
        for bad in ["..", "a/../..", "/etc", "/home/user/workspace/../x", "a\0b"] {
            assert!(below(workspace, bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            resolve(workspace, "a", "../b/.git/worktrees/a").unwrap(),
            "b/.git/worktrees/a"
        );
        assert_eq!(resolve(workspace, "a", "../../../../etc"), None);
        assert_eq!(resolve(workspace, "a", "/etc"), None);
    }
}
