use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::SaveServiceCommands;

use super::{Bench, For, Tool, read};
use crate::link::Who;

pub(super) struct SaveServiceCommandsTool;

#[async_trait(?Send)]
impl Tool for SaveServiceCommandsTool {
    fn name(&self) -> &'static str {
        "save_service_commands"
    }

    fn description(&self) -> &'static str {
        "Save the commands that sessions of this prebuild start with: name, command and directory each."
    }

    fn is_for(&self) -> For {
        For::Setup
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({
                "commands": {
                    "type": "array",
                    "maxItems": 10,
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": { "type": "string", "maxLength": 100 },
                            "command": { "type": "string", "maxLength": 1000 },
                            "cwd": { "type": "string", "maxLength": 500 },
                        },
                        "required": ["name", "command"],
                    },
                },
            }),
            &["commands"],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: SaveServiceCommands = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let _ = answer;
        Ok("saved".to_owned())
    }
}
