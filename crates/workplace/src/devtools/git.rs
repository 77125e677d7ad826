use std::rc::Rc;

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::Tools;
use super::answer::{Answer, Failure, json};
use super::ask::Ask;
use crate::git::{Commit, Staging};

#[derive(Deserialize)]
struct Branch {
    #[serde(default = "workspace")]
    repo: String,
    name: String,
}

#[derive(Deserialize)]
struct Commits {
    #[serde(default = "workspace")]
    repo: String,
    message: String,
    #[serde(default)]
    include_untracked: bool,
    #[serde(default)]
    files: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Push {
    #[serde(default = "workspace")]
    repo: String,
}

fn workspace() -> String {
    ".".to_owned()
}

pub(super) async fn answer(
    tools: &Rc<Tools>,
    ask: Ask,
    method: &Method,
    what: &str,
) -> Result<Answer, Failure> {
    let git = &tools.git;
    let repo = ask.parameter("repo").unwrap_or_else(workspace);
    match (method.as_str(), what) {
        ("GET", "repos") => Ok(json(&json!({"repos": git.repos().await?}))),
        ("GET", "status") => Ok(json(&git.status(&repo).await?)),
        ("GET", "diff") => {
            let (path, base) = (ask.parameter("path"), ask.parameter("base"));
            let path = path.as_deref();
            Ok(json(&match base {
                Some(base) => git.diff_since(&repo, &base, path).await?,
                None => git.diff(&repo, path).await?,
            }))
        }
        ("GET", "log") => Ok(json(&json!({"commits": git.commits(&repo).await?}))),
        ("POST", "branch") => {
            let Branch { repo, name } = ask.json().await?;
            Ok(json(&git.create_branch(&repo, &name).await?))
        }
        ("POST", "commit") => {
            let asked: Commits = ask.json().await?;
            let staging = match asked.files {
                Some(files) => Staging::Files(files),
                None if asked.include_untracked => Staging::All,
                None => Staging::Tracked,
            };
            let commit = Commit {
                message: asked.message,
                staging,
            };
            Ok(json(&git.commit(&asked.repo, &commit).await?))
        }
        ("POST", "push") => {
            let Push { repo } = ask.json().await?;
            Ok(json(&git.push(&repo).await?))
        }
        _ => Err(Failure::no_route()),
    }
}
