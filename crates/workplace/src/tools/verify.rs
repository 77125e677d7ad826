use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::Verify;

use super::{Bench, Tool, read};
use crate::link::Who;

pub(super) struct VerifyTool;

#[async_trait(?Send)]
impl Tool for VerifyTool {
    fn name(&self) -> &'static str {
        "verify"
    }

    fn description(&self) -> &'static str {
        "Hand in evidence that the work is done: screenshots, logs, test reports in a folder of the workspace. They are fetched and kept for the user."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({ "folder": { "type": "string", "description": "below the workspace; default: .nacre/.verification" } }),
            &[],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: Verify = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(format!("kept: {}", answer.files.join(", ")))
    }
}
