use async_trait::async_trait;
use serde_json::{Value, json};
use wire::link::RequestEnvVariables;

use super::{Bench, Tool, read};
use crate::link::Who;

pub(super) struct RequestEnvVariablesTool;

#[async_trait(?Send)]
impl Tool for RequestEnvVariablesTool {
    fn name(&self) -> &'static str {
        "request_env_variables"
    }

    fn description(&self) -> &'static str {
        "Ask the user for values that are missing, such as keys. A form is shown to them; go on with other work, the values come into the env files when they are given."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (
            json!({
                "keys": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "key": { "type": "string" },
                            "description": { "type": "string" },
                            "secret": { "type": "boolean" },
                            "required": { "type": "boolean" },
                        },
                        "required": ["key"],
                    },
                },
            }),
            &["keys"],
        )
    }

    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String> {
        let asked: RequestEnvVariables = read(arguments)?;
        let answer = bench.link()?.ask(&asked, who).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let _ = answer;
        Ok("the user is asked".to_owned())
    }
}
