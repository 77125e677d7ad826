//! The agent's tools: one file each, and one line in `all`.
//!
//! A tool says what it is called and takes, and does it with what a [`Bench`] has. What concerns the
//! session goes to the hub over the link, and its answer comes back across a disconnection; asked
//! twice with one id it is done once, which the link sees to.

mod create_pull_request;
mod mcp;
mod request_env_variables;
mod save_env_files;
mod save_service_commands;
mod save_snapshot;
mod services;
mod tunnels;
mod verify;

use agent::opencode::SESSION_ARGUMENT;
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::link::Kind;

pub use self::mcp::{Call, Description, PATH, serve};
use crate::link::{Handle, Who};
use crate::services::Services;
use crate::tunnels::Tunnels;

/// What tools work with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bench {
    pub services: Services,
    pub tunnels: Tunnels,
    /// Without it, what concerns the session cannot be asked.
    pub link: Option<Handle>,
}

impl Bench {
    fn link(&self) -> Result<&Handle, String> {
        self.link
            .as_ref()
            .ok_or_else(|| "this sandbox belongs to no session, so nobody can be asked".to_owned())
    }
}

/// Where a tool is of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Everybody,
    /// Sessions that make a prebuild.
    Setup,
}

#[async_trait(?Send)]
trait Tool {
    fn name(&self) -> &'static str;

    /// For the agent: what it does and when to use it.
    fn description(&self) -> &'static str;

    fn is_for(&self) -> For {
        For::Everybody
    }

    /// Of its arguments, each with a description; which of them are needed.
    fn takes(&self) -> (Value, &'static [&'static str]);

    /// What it says to the agent, in success or failure.
    async fn call(&self, bench: &Bench, arguments: Value, who: Who) -> Result<String, String>;
}

fn all() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(services::List),
        Box::new(services::Start),
        Box::new(services::Stop),
        Box::new(services::Logs),
        Box::new(services::Expose),
        Box::new(tunnels::List),
        Box::new(tunnels::Register),
        Box::new(tunnels::Unregister),
        Box::new(save_snapshot::SaveSnapshotTool),
        Box::new(verify::VerifyTool),
        Box::new(create_pull_request::CreatePullRequestTool),
        Box::new(request_env_variables::RequestEnvVariablesTool),
        Box::new(save_service_commands::SaveServiceCommandsTool),
        Box::new(save_env_files::SaveEnvFilesTool),
    ]
}

fn offered(kind: Kind) -> impl Iterator<Item = Box<dyn Tool>> {
    all()
        .into_iter()
        .filter(move |tool| tool.is_for() == For::Everybody || kind == Kind::Setup)
}

/// What a session of this kind has.
pub fn descriptions(kind: Kind) -> Vec<Description> {
    offered(kind)
        .map(|tool| {
            let (properties, required) = tool.takes();
            let schema = json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            });
            let Value::Object(mut schema) = schema else {
                unreachable!("an object was written down");
            };
            // Which conversation calls is added on the way and is not the agent's to say.
            schema.remove("additionalProperties");
            Description {
                name: tool.name(),
                description: tool.description(),
                schema,
            }
        })
        .collect()
}

const AT_ONCE: usize = 32;

/// Answers calls until nobody can make one any more.
pub async fn work(bench: Bench, kind: Kind, mut calls: mpsc::Receiver<Call>) {
    let mut working = JoinSet::new();
    loop {
        tokio::select! {
            call = calls.recv(), if working.len() < AT_ONCE => match call {
                Some(call) => {
                    working.spawn_local(answer(bench.clone(), kind, call));
                }
                None => break,
            },
            Some(_) = working.join_next() => {}
        }
    }
    while working.join_next().await.is_some() {}
}

async fn answer(bench: Bench, kind: Kind, call: Call) {
    let Call {
        tool,
        mut arguments,
        reply,
    } = call;
    let who = who(&mut arguments);
    let answer = match offered(kind).find(|known| known.name() == tool) {
        Some(tool) => tool.call(&bench, Value::Object(arguments), who).await,
        None => Err(format!("there is no tool {tool:?} here")),
    };
    // An agent that was cancelled does not wait for it.
    let _ = reply.send(answer);
}

/// The conversation that calls, which is not an argument of any tool.
fn who(arguments: &mut Map<String, Value>) -> Who {
    let session = arguments.remove(SESSION_ARGUMENT);
    Who {
        channel: session.and_then(|session| session.as_str().map(str::to_owned)),
        prompt_id: None,
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("the arguments do not fit: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_session_alone_can_save_what_a_prebuild_starts_with() {
        let names = |kind| -> Vec<&str> {
            descriptions(kind)
                .into_iter()
                .map(|tool| tool.name)
                .collect()
        };
        assert_eq!(names(Kind::Coding).len(), 12);
        let extra: Vec<&str> = names(Kind::Setup)
            .into_iter()
            .filter(|name| !names(Kind::Coding).contains(name))
            .collect();
        assert_eq!(extra, ["save_service_commands", "save_env_files"]);
    }

    #[test]
    fn what_is_needed_is_among_what_is_taken() {
        for tool in descriptions(Kind::Setup) {
            let properties = tool.schema["properties"].as_object().unwrap();
            for needed in tool.schema["required"].as_array().unwrap() {
                assert!(
                    properties.contains_key(needed.as_str().unwrap()),
                    "{tool:?}"
                );
            }
        }
    }
}
