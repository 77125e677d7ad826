use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Tools;
use super::answer::{Answer, Failure, json};
use super::ask::Ask;
use crate::env_files::Spec;

#[derive(Deserialize)]
struct Apply {
    spec: Value,
    /// Of whoever asks.
    #[serde(default)]
    values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Values {
    values: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Scrub {
    #[serde(default)]
    spec: Option<Value>,
}

pub(super) async fn answer(tools: &Rc<Tools>, ask: Ask, what: &str) -> Result<Answer, Failure> {
    match what {
        "apply" => {
            let Apply { spec, values } = ask.json().await?;
            let applied = tools.env.apply(&parse(&spec)?, &values).await?;
            Ok(json(&json!({"applied": applied})))
        }
        "scrub" => {
            let Scrub { spec } = ask.json().await?;
            let spec = spec.as_ref().map(parse).transpose()?;
            Ok(json(
                &json!({"scrubbed": tools.env.scrub(spec.as_ref()).await?}),
            ))
        }
        // What the host gives for the session; `nacre` inside has nothing to give.
        "values" => {
            let Values { values } = ask.json().await?;
            tools.env.give(values)?;
            Ok(json(&json!({"applied": tools.env.catch_up().await?})))
        }
        _ => Err(Failure::no_route()),
    }
}

fn parse(spec: &Value) -> Result<Spec, Failure> {
    Ok(Spec::parse(spec.to_string().as_bytes())?)
}
