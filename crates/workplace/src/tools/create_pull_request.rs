use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::CreatePr;

use super::{Bench, For, Tool, read};
use crate::link::Who;

pub(super) struct CreatePullRequestTool;

#[async_trait(?Send)]
impl Tool for CreatePullRequestTool {
    fn name(&self) -> &'static str {
        "create_pull_request"
    }

    fn description(&self) -> &'static str {
        "Open a pull request for a branch that is pushed already. If the branch has one that is open, it is that one. No token is needed here: it is opened from outside."
    }

    fn is_for(&self) -> For {
        For::Repositories
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        let text = |description: &str| json!({ "type": "string", "description": description });
        (
            json!({
                "branch": text("the branch with the changes, as it is called on the remote"),
                "title": text("one line"),
                "body": text("what changes and why, in Markdown"),
                "base": text("the branch to merge into; default: the repository's own"),
                "repo": text("its directory below the workspace; not needed if there is one repository"),
            }),
            &["branch", "title"],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: CreatePr = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(format!(
            "#{} is {}: {}",
            answer.number, answer.state, answer.url
        ))
    }
}
