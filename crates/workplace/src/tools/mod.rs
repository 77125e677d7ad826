//! The agent's tools: one file each, and one line in `all`.
//!
//! A tool says what it is called and takes, and does it with what a [`Bench`] has. What concerns the
//! session goes to the hub over the link, and its answer comes back across a disconnection; asked
//! twice with one id it is done once, which the link sees to.

mod browser_screenshot;
mod create_pull_request;
mod mcp;
mod request_env_variables;
mod save_env_files;
mod save_service_commands;
mod save_snapshot;
mod send_image;
mod services;
mod tunnels;
mod verify;

use agent::opencode::SESSION_ARGUMENT;
use agent::{Held, SessionRef};
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wire::link::{Boot, Kind};

pub use self::mcp::{Call, Description, PATH, serve};
use crate::agent_process::State;
use crate::display::Display;
use crate::files::Files;
use crate::link::{Handle, Who};
use crate::services::Services;
use crate::tunnels::Tunnels;

/// What tools work with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bench {
    pub services: Services,
    pub tunnels: Tunnels,
    /// Of the workspace.
    pub files: Files,
    pub display: Display,
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
    /// Sessions with a repository that came from somewhere.
    Repositories,
}

/// What a session has, by which it is told what is of use in it.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings {
    kind: Kind,
    has_repository: bool,
}

impl Surroundings {
    pub fn of(boot: &Boot) -> Self {
        Self {
            kind: boot.kind,
            has_repository: !boot.repos.is_empty(),
        }
    }

    fn have_use_for(self, tool: &dyn Tool) -> bool {
        match tool.is_for() {
            For::Everybody => true,
            For::Setup => self.kind == Kind::Setup,
            For::Repositories => self.has_repository,
        }
    }
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
        Box::new(send_image::SendImage),
        Box::new(browser_screenshot::BrowserScreenshot),
        Box::new(create_pull_request::CreatePullRequestTool),
        Box::new(request_env_variables::RequestEnvVariablesTool),
        Box::new(save_service_commands::SaveServiceCommandsTool),
        Box::new(save_env_files::SaveEnvFilesTool),
    ]
}

fn offered(surroundings: Surroundings) -> impl Iterator<Item = Box<dyn Tool>> {
    let tools = all().into_iter();
    tools.filter(move |tool| surroundings.have_use_for(&**tool))
}

/// What such a session has.
pub fn descriptions(surroundings: Surroundings) -> Vec<Description> {
    offered(surroundings)
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
pub async fn work(
    bench: Bench,
    surroundings: Surroundings,
    agent: watch::Receiver<State>,
    mut calls: mpsc::Receiver<Call>,
) {
    let mut working = JoinSet::new();
    loop {
        tokio::select! {
            call = calls.recv(), if working.len() < AT_ONCE => match call {
                Some(call) => {
                    working.spawn_local(answer(bench.clone(), surroundings, agent.clone(), call));
                }
                None => break,
            },
            Some(_) = working.join_next() => {}
        }
    }
    while working.join_next().await.is_some() {}
}

async fn answer(
    bench: Bench,
    surroundings: Surroundings,
    agent: watch::Receiver<State>,
    call: Call,
) {
    let Call {
        tool,
        mut arguments,
        reply,
    } = call;
    let who = who(&agent, &mut arguments).await;
    let answer = match offered(surroundings).find(|known| known.name() == tool) {
        Some(tool) => tool.call(&bench, Value::Object(arguments), who).await,
        None => Err(format!("there is no tool {tool:?} here")),
    };
    // An agent that was cancelled does not wait for it.
    let _ = reply.send(answer);
}

/// The channel and prompt whose conversation calls, which is no argument of any tool. The agent
/// itself says which conversation that is, so it is a courtesy, as all that it says.
async fn who(agent: &watch::Receiver<State>, arguments: &mut Map<String, Value>) -> Who {
    let state = agent.borrow().clone();
    let (Some(Value::String(session)), State::Running(agent)) =
        (arguments.remove(SESSION_ARGUMENT), state)
    else {
        return Who::default();
    };
    let held = agent.held().await.unwrap_or_default();
    caller(held, &SessionRef(session))
}

fn caller(held: Vec<Held>, session: &SessionRef) -> Who {
    let caller = held
        .into_iter()
        .find(|held| held.session.as_ref() == Some(session) || held.subagents.contains(session));
    caller.map_or_else(Who::default, |held| Who {
        channel: Some(held.channel.to_string()),
        prompt_id: held.prompt.map(|prompt| prompt.0),
    })
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("the arguments do not fit: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_session_alone_can_save_what_a_prebuild_starts_with() {
        let names = |kind| names(kind, true);
        assert_eq!(names(Kind::Coding).len(), 14);
        let extra: Vec<&str> = names(Kind::Setup)
            .into_iter()
            .filter(|name| !names(Kind::Coding).contains(name))
            .collect();
        assert_eq!(extra, ["save_service_commands", "save_env_files"]);
    }

    #[test]
    fn a_call_is_its_channels_also_when_a_subagent_makes_it() {
        let held = |channel: &str, session: &str, subagent: &str| Held {
            channel: channel.parse().unwrap(),
            session: Some(SessionRef(session.to_owned())),
            subagents: vec![SessionRef(subagent.to_owned())],
            status: agent::event::Status::Idle,
            prompt: Some(agent::prompt::PromptId(format!("p-{session}"))),
            turn: None,
            open_parts: Vec::new(),
            questions: Vec::new(),
            permissions: Vec::new(),
            last_error: None,
        };
        let all = || {
            vec![
                held("web:default", "s1", "s2"),
                held("slack:C1", "s3", "s4"),
            ]
        };
        let who = |session: &str| caller(all(), &SessionRef(session.to_owned()));
        assert_eq!(who("s3").channel.as_deref(), Some("slack:C1"));
        assert_eq!(who("s4"), who("s3"));
        assert_eq!(who("s1").prompt_id.as_deref(), Some("p-s1"));
        assert_eq!(who("somebody's"), Who::default());
    }

    #[test]
    fn nobody_is_offered_a_pull_request_who_has_no_repository() {
        assert!(names(Kind::Coding, true).contains(&"create_pull_request"));
        assert!(!names(Kind::Coding, false).contains(&"create_pull_request"));
    }

    fn surroundings(kind: Kind, has_repository: bool) -> Surroundings {
        Surroundings {
            kind,
            has_repository,
        }
    }

    fn names(kind: Kind, has_repository: bool) -> Vec<&'static str> {
        let tools = descriptions(surroundings(kind, has_repository));
        tools.into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn what_is_needed_is_among_what_is_taken() {
        for tool in descriptions(surroundings(Kind::Setup, true)) {
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
