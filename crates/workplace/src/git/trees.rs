//! All files of a repository at a moment, as a tree of git's: to compare with, and to go back to.
//! They are read into an index of our own, so that nobody's staging is touched.

use serde::Serialize;
use wire::Raw;

use super::guard::Intent;
use super::{Git, GitError, Repo, STAGE, complaint, text};
use crate::command::Outcome;

/// Beside git's own, where it goes with the repository.
const INDEX: &str = "nacre-index";
const ANSWER: usize = 64 << 10;
/// Of all changes together.
const MOST_CHANGES: usize = 4 << 20;
const CUT: &str = "\n[the changes go on]\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Below the workspace.
    pub path: String,
    pub kind: ChangeKind,
    /// Absent where there was too much to read.
    pub patch: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl Git {
    /// The name of the tree of what is there now, but for what is ignored.
    pub async fn tree(&self, name: &str) -> Result<String, GitError> {
        let _alone = self.own_index.lock().await;
        let repo = self.repo(name).await?;
        self.tree_of(&repo).await
    }

    /// Makes the files what they were. Commits, branches and what is staged stay.
    pub async fn restore(&self, name: &str, tree: &str) -> Result<(), GitError> {
        let _alone = self.own_index.lock().await;
        let repo = self.repo(name).await?;
        if tree.is_empty() || !tree.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(GitError::Failed(format!("{tree:?} is no tree")));
        }
        // What is there now is in the index then, so that it is known what has to go.
        self.tree_of(&repo).await?;
        let arguments = ["read-tree", "--reset", "-u", tree];
        self.with_own_index(&repo, &arguments, ANSWER)
            .await
            .map(drop)
    }

    /// What differs from the last commit, file by file, with those that git does not know yet.
    pub async fn changes(&self, name: &str) -> Result<Vec<ChangedFile>, GitError> {
        let _alone = self.own_index.lock().await;
        let repo = self.repo(name).await?;
        let now = self.tree_of(&repo).await?;
        let head = ["rev-parse", "--verify", "--quiet", "HEAD^{tree}"];
        let head = self.git(&repo, Intent::Look, &head, ANSWER, STAGE).await?;
        let before = if head.code == 0 {
            head
        } else {
            let nothing = ["hash-object", "-t", "tree", "/dev/null"];
            self.with_own_index(&repo, &nothing, ANSWER).await?
        };
        let before = text(&before.stdout).trim().to_owned();
        let prefix = match repo.id.as_str() {
            "." => String::new(),
            id => format!("{id}/"),
        };
        let (from, to) = (
            format!("--src-prefix=a/{prefix}"),
            format!("--dst-prefix=b/{prefix}"),
        );
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--raw",
            "--patch",
            "-z",
            &from,
            &to,
            &before,
            &now,
            "--",
        ];
        let differ = self.with_own_index(&repo, &arguments, MOST_CHANGES).await?;
        Ok(read(&differ.stdout, differ.cut, &prefix))
    }

    async fn tree_of(&self, repo: &Repo) -> Result<String, GitError> {
        // Of one that was killed.
        let lock = format!("{}/{INDEX}.lock", repo.git_dir_below);
        let _ = self.files.remove(&lock).await;
        self.with_own_index(repo, &["add", "--all"], ANSWER).await?;
        let written = self.with_own_index(repo, &["write-tree"], ANSWER).await?;
        Ok(text(&written.stdout).trim().to_owned())
    }

    async fn with_own_index(
        &self,
        repo: &Repo,
        arguments: &[&str],
        limit: usize,
    ) -> Result<Outcome, GitError> {
        let index = repo.git_dir.join(INDEX).into_string();
        let index = [(Raw::from("GIT_INDEX_FILE"), Raw::from(index))];
        let outcome = self
            .git_with(repo, Intent::Change, &index, arguments, limit, STAGE)
            .await?;
        // What is cut was ended.
        if outcome.code == 0 || outcome.cut {
            Ok(outcome)
        } else {
            Err(GitError::Failed(complaint(&outcome)))
        }
    }
}

/// First a record for each file, then the patches in the same order.
fn read(output: &[u8], cut: bool, prefix: &str) -> Vec<ChangedFile> {
    let mut rest = output;
    let mut files = Vec::new();
    while rest.first() == Some(&b':') {
        let mut parts = rest.splitn(3, |byte| *byte == 0);
        let (Some(about), Some(path)) = (parts.next(), parts.next()) else {
            break;
        };
        rest = parts.next().unwrap_or_default();
        files.push(ChangedFile {
            path: format!("{prefix}{}", text(path)),
            kind: match about.last() {
                Some(b'A') => ChangeKind::Added,
                Some(b'D') => ChangeKind::Deleted,
                _ => ChangeKind::Modified,
            },
            patch: None,
        });
    }
    let patches = text(rest.strip_prefix(&[0]).unwrap_or(rest));
    let mut each = patches
        .split_inclusive('\n')
        .fold(Vec::new(), |mut all, line| {
            if line.starts_with("diff --git ") {
                all.push(String::new());
            }
            if let Some(patch) = all.last_mut() {
                patch.push_str(line);
            }
            all
        });
    if cut && let Some(last) = each.last_mut() {
        last.push_str(CUT);
    }
    for (file, patch) in files.iter_mut().zip(each) {
        file.patch = Some(patch);
    }
    files
}
