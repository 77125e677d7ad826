use serde::Serialize;

use super::guard::Intent;
use super::repo::below;
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
        let path = path.map(|path| below(&repo.path, path)).transpose()?;
        let path = path.as_deref().filter(|path| !path.is_empty());
        let fixed = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--ignore-submodules=dirty",
        ];
        for against in [Some("HEAD"), None] {
            let mut arguments = fixed.to_vec();
            arguments.extend(against);
            arguments.push("--");
            arguments.extend(path);
            let outcome = self
                .git(&repo, Intent::Look, &arguments, DIFF_LIMIT, READ)
                .await?;
            if outcome.code == 0 {
                return Ok(cut(text(&outcome.stdout), outcome.cut));
            }
            // Before the first commit there is no HEAD.
            if against.is_none() {
                return Err(GitError::Failed(complaint(&outcome)));
            }
        }
        unreachable!("the second turn returns")
    }
}

fn cut(mut diff: String, truncated: bool) -> Diff {
    if truncated {
        diff.push_str(MARK);
    }
    Diff { diff, truncated }
}
