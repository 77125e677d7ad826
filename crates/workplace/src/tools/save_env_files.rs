use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::SaveEnvFiles;

use super::{Bench, For, Tool, read};
use crate::link::Who;

pub(super) struct SaveEnvFilesTool;

#[async_trait(?Send)]
impl Tool for SaveEnvFilesTool {
    fn name(&self) -> &'static str {
        "save_env_files"
    }

    fn description(&self) -> &'static str {
        "Save which env files sessions of this prebuild have, and which keys are in them. Never values."
    }

    fn is_for(&self) -> For {
        For::Setup
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({
                "files": {
                    "type": "array",
                    "maxItems": 10,
                    "items": {
                        "type": "object",
                        "properties": {
                            "workspace_path": { "type": "string" },
                            "path": { "type": "string", "maxLength": 500 },
                            "keys": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "key": { "type": "string", "maxLength": 200 },
                                        "required": { "type": "boolean" },
                                    },
                                    "required": ["key"],
                                },
                            },
                        },
                        "required": ["path", "keys"],
                    },
                },
            }),
            &["files"],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: SaveEnvFiles = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let _ = answer;
        Ok("saved".to_owned())
    }
}
