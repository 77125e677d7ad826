//! The state of a repository.

use serde::Serialize;

use super::guard::Intent;
use super::{Git, GitError, READ, Repo, complaint, text};

const LISTING: usize = 2 << 20;
/// Of each kind; more are counted as cut.
const MAX_SHOWN: usize = 2000;
const COMMITS: &str = "-20";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact that clients are shown by its name"
)]
pub struct State {
    /// `None` when it is detached.
    pub branch: Option<String>,
    pub detached: bool,
    pub staged_changes: Vec<Change>,
    pub unstaged_changes: Vec<Change>,
    pub untracked_files: Vec<String>,
    pub conflicted_files: Vec<String>,
    pub commits: Vec<CommitInfo>,
    /// Unknown without an upstream, or when the history is cut off.
    pub ahead: Option<u32>,
    pub behind: Option<u32>,
    pub is_shallow: bool,
    pub is_busy: bool,
    pub rebase_in_progress: bool,
    pub merge_in_progress: bool,
    /// There is more than is shown.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub path: String,
    pub index_status: char,
    pub worktree_status: char,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitInfo {
    pub sha: String,
    pub message: String,
    pub author: String,
    pub date: String,
}

/// Where a repository stands against what it branched off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// `None` when it is detached.
    pub branch: Option<String>,
    /// The branch that the remote calls its own; unknown without a remote.
    pub base: Option<String>,
    /// Those that the base does not have.
    pub commits: Option<u64>,
}

impl Git {
    pub async fn standing(&self, repo: &Repo) -> Result<Standing, GitError> {
        let branch = self
            .line(repo, &["symbolic-ref", "--quiet", "--short", "HEAD"])
            .await?;
        let remote_head = [
            "symbolic-ref",
            "--quiet",
            "--short",
            "refs/remotes/origin/HEAD",
        ];
        let remote = self.line(repo, &remote_head).await?;
        let mut commits = None;
        if let Some(remote) = &remote {
            let range = format!("refs/remotes/{remote}..HEAD");
            let counted = self
                .line(repo, &["rev-list", "--count", &range, "--"])
                .await?;
            commits = counted.and_then(|count| count.parse().ok());
        }
        let base = remote.map(|remote| match remote.split_once('/') {
            Some((_, base)) => base.to_owned(),
            None => remote,
        });
        Ok(Standing {
            branch,
            base,
            commits,
        })
    }

    /// What git says to that in one line; `None` when it fails.
    async fn line(&self, repo: &Repo, arguments: &[&str]) -> Result<Option<String>, GitError> {
        const LINE: usize = 4 << 10;
        let outcome = self.git(repo, Intent::Look, arguments, LINE, READ).await?;
        let line = text(&outcome.stdout).trim().to_owned();
        Ok((outcome.code == 0 && !line.is_empty()).then_some(line))
    }

    /// What is no repository has an empty state.
    pub async fn status(&self, name: &str) -> Result<State, GitError> {
        let repo = match self.repo(name).await {
            Err(GitError::NotARepo(_)) => return Ok(State::default()),
            found => found?,
        };
        let arguments = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let outcome = match self
            .git(&repo, Intent::Look, &arguments, LISTING, READ)
            .await
        {
            Err(GitError::NotARepo(_)) => return Ok(State::default()),
            outcome => outcome?,
        };
        if outcome.code != 0 {
            return Err(GitError::Failed(complaint(&outcome)));
        }
        let mut state = parse(&outcome.stdout);
        state.truncated |= outcome.cut;
        let names = self.files.listed(&repo.git_dir_below, 10_000).await?;
        let has = |name: &str| names.iter().any(|listed| listed.name.0 == name.as_bytes());
        state.is_busy = has("index.lock");
        state.is_shallow = has("shallow");
        state.rebase_in_progress = has("rebase-merge") || has("rebase-apply");
        state.merge_in_progress = has("MERGE_HEAD");
        if state.is_shallow {
            (state.ahead, state.behind) = (None, None);
        }
        state.commits = self.log(&repo).await?;
        Ok(state)
    }

    /// The last commits; none before the first.
    async fn log(&self, repo: &Repo) -> Result<Vec<CommitInfo>, GitError> {
        let arguments = ["log", COMMITS, "-z", "--format=%H%x1f%s%x1f%an%x1f%aI"];
        let outcome = self
            .git(repo, Intent::Look, &arguments, LISTING, READ)
            .await?;
        let commits = outcome
            .stdout
            .split(|byte| *byte == 0)
            .filter_map(|commit| {
                let commit = text(commit);
                let mut fields = commit.split('\u{1f}').map(str::to_owned);
                Some(CommitInfo {
                    sha: fields.next().filter(|sha| !sha.is_empty())?,
                    message: fields.next()?,
                    author: fields.next()?,
                    date: fields.next()?,
                })
            });
        Ok(commits.collect())
    }

    pub async fn commits(&self, name: &str) -> Result<Vec<CommitInfo>, GitError> {
        let repo = self.repo(name).await?;
        self.log(&repo).await
    }
}

/// `git status --porcelain=v2 --branch -z`.
fn parse(listing: &[u8]) -> State {
    let mut state = State::default();
    let mut entries = listing.split(|byte| *byte == 0);
    while let Some(entry) = entries.next() {
        let entry = text(entry);
        let mut words = entry.splitn(2, ' ');
        let (Some(kind), Some(rest)) = (words.next(), words.next()) else {
            continue;
        };
        match kind {
            "#" => header(&mut state, rest),
            "1" => change(&mut state, rest, 6),
            "2" => {
                change(&mut state, rest, 7);
                // The name it had before.
                entries.next();
            }
            "u" => {
                if let Some(path) = rest.splitn(10, ' ').nth(9) {
                    state.conflicted_files.push(path.to_owned());
                }
            }
            "?" => state.untracked_files.push(rest.to_owned()),
            _ => {}
        }
    }
    for files in [&mut state.untracked_files, &mut state.conflicted_files] {
        state.truncated |= files.len() > MAX_SHOWN;
        files.truncate(MAX_SHOWN);
    }
    for changes in [&mut state.staged_changes, &mut state.unstaged_changes] {
        state.truncated |= changes.len() > MAX_SHOWN;
        changes.truncate(MAX_SHOWN);
    }
    state
}

fn header(state: &mut State, text: &str) {
    if let Some(head) = text.strip_prefix("branch.head ") {
        state.detached = head == "(detached)";
        state.branch = (!state.detached).then(|| head.to_owned());
    } else if let Some(counts) = text.strip_prefix("branch.ab ") {
        let mut counts = counts
            .split(' ')
            .map(|count| count.trim_start_matches(['+', '-']).parse().ok());
        state.ahead = counts.next().flatten();
        state.behind = counts.next().flatten();
    }
}

/// `XY`, then `fields` more before the path.
fn change(state: &mut State, text: &str, fields: usize) {
    let mut words = text.splitn(fields + 2, ' ');
    let Some(status) = words.next() else { return };
    let Some(path) = words.nth(fields) else {
        return;
    };
    let mut letters = status.chars();
    let (Some(index_status), Some(worktree_status)) = (letters.next(), letters.next()) else {
        return;
    };
    let change = Change {
        path: path.to_owned(),
        index_status,
        worktree_status,
    };
    if index_status != '.' {
        state.staged_changes.push(change.clone());
    }
    if worktree_status != '.' {
        state.unstaged_changes.push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_listing_becomes_a_state() {
        let listing = "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0\
            # branch.ab +2 -1\0\
            1 M. N... 100644 100644 100644 aaa bbb src/a file.rs\0\
            1 .M N... 100644 100644 100644 aaa bbb b\nc\0\
            2 R. N... 100644 100644 100644 aaa bbb R100 new\0old\0\
            u UU N... 100644 100644 100644 100644 aaa bbb ccc both\0\
            ? untracked file\0";
        let state = parse(listing.as_bytes());
        assert_eq!(state.branch.as_deref(), Some("main"));
        assert_eq!((state.ahead, state.behind), (Some(2), Some(1)));
        let staged: Vec<_> = state
            .staged_changes
            .iter()
            .map(|c| c.path.as_str())
            .collect();
        assert_eq!(staged, ["src/a file.rs", "new"]);
        assert_eq!(state.unstaged_changes[0].path, "b\nc");
        assert_eq!(state.conflicted_files, ["both"]);
        assert_eq!(state.untracked_files, ["untracked file"]);
    }

    proptest! {
        #[test]
        fn no_listing_makes_it_fail(listing in "([#12u?] [ab.+0-9 \0-]{0,40}\0){0,8}") {
            parse(listing.as_bytes());
        }
    }
}
