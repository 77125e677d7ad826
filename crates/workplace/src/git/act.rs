//! What changes a repository or its remote: branch, commit, push.

use serde::Deserialize;

use super::guard::{Intent, RECEIVE_PACK, UPLOAD_PACK};
use super::outcome::classify;
use super::repo::below;
use super::{
    Action, COMMIT, Code, DEEPEN, Git, GitError, GitResult, PUSH, READ, Repo, STAGE, complaint,
    text,
};
use crate::command::Outcome;

const ANSWER: usize = 256 << 10;
const MAX_FILES: usize = 1000;
const MAX_MESSAGE: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Commit {
    pub message: String,
    #[serde(default)]
    pub staging: Staging,
}

/// What goes into a commit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Staging {
    /// Every change of a file that git knows.
    #[default]
    Tracked,
    /// And every new file.
    All,
    Files(Vec<String>),
}

impl Git {
    pub async fn create_branch(&self, name: &str, branch: &str) -> Result<GitResult, GitError> {
        const ACTION: Action = Action::CreateBranch;
        let refused = |message: &str| Ok(GitResult::failure(ACTION, Code::UnknownError, message));
        let repo = match self.found(ACTION, name).await? {
            Ok(repo) => repo,
            Err(result) => return Ok(result),
        };
        if branch.starts_with('-') || branch.contains('\0') || branch.len() > 255 {
            return refused("that is no name for a branch");
        }
        let arguments = ["check-ref-format", "--branch", branch];
        let checked = self
            .git(&repo, Intent::Look, &arguments, ANSWER, READ)
            .await?;
        if checked.code != 0 {
            return refused("that is no name for a branch");
        }
        let arguments = ["switch", "--no-guess", "--create", branch];
        let outcome = self
            .git(&repo, Intent::Change, &arguments, ANSWER, STAGE)
            .await?;
        Ok(judge(ACTION, &outcome, &format!("now on {branch}")))
    }

    pub async fn commit(&self, name: &str, commit: &Commit) -> Result<GitResult, GitError> {
        const ACTION: Action = Action::Commit;
        let repo = match self.found(ACTION, name).await? {
            Ok(repo) => repo,
            Err(result) => return Ok(result),
        };
        if commit.message.trim().is_empty() || commit.message.len() > MAX_MESSAGE {
            let message = "a commit needs a message, of at most 64 KiB";
            return Ok(GitResult::failure(ACTION, Code::UnknownError, message));
        }
        let arguments = ["ls-files", "--unmerged"];
        let unmerged = self
            .git(&repo, Intent::Look, &arguments, ANSWER, READ)
            .await?;
        if !unmerged.stdout.is_empty() {
            let message = "some files are in conflict; settle them first";
            return Ok(GitResult::failure(ACTION, Code::MergeConflict, message));
        }
        let mut arguments = vec!["add"];
        let paths;
        match &commit.staging {
            Staging::Tracked => arguments.extend(["-u", "--", "."]),
            Staging::All => arguments.extend(["-A", "--", "."]),
            Staging::Files(files) => {
                if files.len() > MAX_FILES {
                    let message = "more than 1000 files; commit all of them instead";
                    return Ok(GitResult::failure(ACTION, Code::UnknownError, message));
                }
                let checked: Result<Vec<String>, GitError> =
                    files.iter().map(|file| below(&repo.path, file)).collect();
                paths = checked?;
                arguments.extend(["-A", "--"]);
                arguments.extend(paths.iter().map(String::as_str));
            }
        }
        let staged = self
            .git(&repo, Intent::Change, &arguments, ANSWER, STAGE)
            .await?;
        if staged.code != 0 {
            return Ok(judge(ACTION, &staged, ""));
        }
        let arguments = [
            "diff",
            "--cached",
            "--quiet",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let same = self
            .git(&repo, Intent::Look, &arguments, ANSWER, READ)
            .await?;
        if same.code == 0 {
            let message = "there is nothing to commit";
            return Ok(GitResult::failure(ACTION, Code::NothingToCommit, message));
        }
        let arguments = [
            "commit",
            "--no-verify",
            "--no-gpg-sign",
            "-m",
            &commit.message,
        ];
        let outcome = self
            .git(&repo, Intent::Change, &arguments, ANSWER, COMMIT)
            .await?;
        let first_line = text(&outcome.stdout);
        let first_line = first_line.lines().next().unwrap_or("committed").to_owned();
        Ok(judge(ACTION, &outcome, &first_line))
    }

    /// To the upstream if there is one, else to `origin`, else to the only remote.
    pub async fn push(&self, name: &str) -> Result<GitResult, GitError> {
        const ACTION: Action = Action::Push;
        let repo = match self.found(ACTION, name).await? {
            Ok(repo) => repo,
            Err(result) => return Ok(result),
        };
        let arguments = ["symbolic-ref", "--quiet", "--short", "HEAD"];
        let head = self
            .git(&repo, Intent::Look, &arguments, ANSWER, READ)
            .await?;
        if head.code != 0 {
            let message = "no branch is checked out; make one first";
            return Ok(GitResult::failure(ACTION, Code::UnknownError, message));
        }
        let branch = text(&head.stdout).trim().to_owned();
        let remotes = self
            .git(&repo, Intent::Look, &["remote"], ANSWER, READ)
            .await?;
        let remotes: Vec<String> = text(&remotes.stdout).lines().map(str::to_owned).collect();
        let upstream = self.upstream(&repo, &branch).await?;
        let target = match target(&branch, upstream, &remotes) {
            Ok(target) => target,
            Err((code, message)) => return Ok(GitResult::failure(ACTION, code, message)),
        };
        let refspec = format!("refs/heads/{branch}:{}", target.reference);
        let arguments = [
            "push",
            RECEIVE_PACK,
            "--no-verify",
            "--set-upstream",
            "--",
            &target.remote,
            &refspec,
        ];
        let pushed = format!("pushed {branch} to {}", target.remote);
        let outcome = self
            .git(&repo, Intent::Change, &arguments, ANSWER, PUSH)
            .await?;
        let result = judge(ACTION, &outcome, &pushed);
        if result.code != Code::ShallowPushFailed {
            return Ok(result);
        }
        // The remote cannot place a history that was cut off so near; once is enough.
        let deepen = ["fetch", UPLOAD_PACK, "--deepen=100", "--", &target.remote];
        let deepened = self
            .git(&repo, Intent::Change, &deepen, ANSWER, DEEPEN)
            .await?;
        if deepened.code != 0 {
            return Ok(result);
        }
        let outcome = self
            .git(&repo, Intent::Change, &arguments, ANSWER, PUSH)
            .await?;
        Ok(judge(ACTION, &outcome, &pushed))
    }

    /// The remote and the reference there.
    async fn upstream(&self, repo: &Repo, branch: &str) -> Result<Option<Target>, GitError> {
        let mut values = Vec::new();
        for last in ["remote", "merge"] {
            let key = format!("branch.{branch}.{last}");
            let arguments = ["config", "--get", &key];
            let outcome = self
                .git(repo, Intent::Look, &arguments, ANSWER, READ)
                .await?;
            values.push(text(&outcome.stdout).trim().to_owned());
        }
        let [remote, reference] = <[String; 2]>::try_from(values).unwrap_or_default();
        Ok((!remote.is_empty() && !reference.is_empty()).then_some(Target { remote, reference }))
    }

    async fn found(&self, action: Action, name: &str) -> Result<Result<Repo, GitResult>, GitError> {
        match self.repo(name).await {
            Ok(repo) => Ok(Ok(repo)),
            Err(error @ GitError::NotARepo(_)) => Ok(Err(GitResult::failure(
                action,
                Code::NotARepo,
                error.to_string(),
            ))),
            Err(error) => Err(error),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    remote: String,
    reference: String,
}

fn target(
    branch: &str,
    upstream: Option<Target>,
    remotes: &[String],
) -> Result<Target, (Code, &'static str)> {
    // A remote that is not in the list is an address that somebody wrote into the configuration.
    if let Some(upstream) = upstream.filter(|upstream| remotes.contains(&upstream.remote)) {
        return Ok(upstream);
    }
    let remote = match remotes {
        [] => return Err((Code::NoRemote, "there is no remote to push to")),
        _ if remotes.iter().any(|remote| remote == "origin") => "origin",
        [only] => only,
        _ => {
            let message = "there are several remotes and none is called origin; set an upstream";
            return Err((Code::MultipleRemotes, message));
        }
    };
    Ok(Target {
        remote: remote.to_owned(),
        reference: format!("refs/heads/{branch}"),
    })
}

fn judge(action: Action, outcome: &Outcome, done: &str) -> GitResult {
    if outcome.code == 0 {
        return GitResult::success(action, done);
    }
    let said = format!("{}\n{}", text(&outcome.stdout), complaint(outcome));
    GitResult::failure(action, classify(&said), complaint(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_push_goes() {
        let upstream = |remote: &str| {
            Some(Target {
                remote: remote.to_owned(),
                reference: "refs/heads/other".to_owned(),
            })
        };
        let remotes = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let pushed = |upstream, names: &[&str]| {
            target("main", upstream, &remotes(names))
                .map(|target| format!("{} {}", target.remote, target.reference))
                .map_err(|(code, _)| code)
        };
        assert_eq!(
            pushed(upstream("a"), &["a", "b"]).unwrap(),
            "a refs/heads/other"
        );
        assert_eq!(
            pushed(upstream("--exec=x"), &["a"]).unwrap(),
            "a refs/heads/main"
        );
        assert_eq!(
            pushed(None, &["a", "origin"]).unwrap(),
            "origin refs/heads/main"
        );
        assert_eq!(pushed(None, &["a"]).unwrap(), "a refs/heads/main");
        assert_eq!(pushed(None, &["a", "b"]), Err(Code::MultipleRemotes));
        assert_eq!(pushed(None, &[]), Err(Code::NoRemote));
    }
}
