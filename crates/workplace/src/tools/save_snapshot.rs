use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::SaveSnapshot;

use super::{Bench, Tool, read};
use crate::link::Who;

pub(super) struct SaveSnapshotTool;

#[async_trait(?Send)]
impl Tool for SaveSnapshotTool {
    fn name(&self) -> &'static str {
        "save_snapshot"
    }

    fn description(&self) -> &'static str {
        "Save the state of this sandbox, so that work can go on from here later or in a fork."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({ "message": { "type": "string", "description": "what is worth remembering about it" } }),
            &[],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: SaveSnapshot = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(format!("saved as {}", answer.snapshot_id))
    }
}
