//! From an order to a place to work in. The essential phases come first, the first two side by side
//! and then each after the one before; what is additional never holds anybody up, and says how it
//! fared.
//!
//! ```text
//! essential    git · workspace · freshness · content · agent
//! additional   env_files · terminal · preview · editor · desktop · services
//! ```
//!
//! Every phase can be done again: over a restored disk it finds its work done and leaves it.

mod content;
mod phases;
mod programs;
mod workspace;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use agent::configuration::{
    Configuration, Model, PermissionPolicy, Provider, Questions, Sees, Speaks, ToolServer,
};
use model::{Clock, Secret};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use wire::link::{AgentConfig, Boot, FromRunner, McpTransport, Policy};
use wire::workplace::{AGENT_PORT, MODEL_PORT, TOOLS_PORT};

pub use self::phases::{Phases, Stopped};
pub use self::programs::{Programs, Reload, asked};
pub use self::workspace::folders_below_agent;
use crate::agent_process::State;
use crate::env_files::{EnvFiles, Spec};
use crate::files::Files;
use crate::git::Git;
use crate::hands::Hands;
use crate::place::Place;
use crate::services::{Definition, Name, Restart, Services};
use crate::terminal::Terminals;

/// What a boot works on.
#[derive(Debug, Clone)]
pub struct Site {
    pub hands: Rc<Hands>,
    pub place: Place,
    pub clock: Arc<dyn Clock>,
    /// Below the home.
    pub files: Files,
    pub git: Git,
    pub services: Services,
    pub terminals: Terminals,
    pub env: Rc<EnvFiles>,
    pub programs: Rc<Programs>,
    /// Asked of everybody who talks to the agent's server, and to our tools.
    pub password: Secret,
    pub tools_token: Secret,
    pub model_token: Secret,
}

impl Site {
    /// Everything that has to be done before the agent can be asked for something.
    pub async fn essential(
        &self,
        boot: &Boot,
        phases: &Phases,
        configurations: &watch::Sender<Option<Configuration>>,
        agent: &mut watch::Receiver<State>,
    ) -> Result<(), Stopped> {
        self.git.set(workspace::settings(boot));
        // What the agent has made of its own configuration must not keep it from working again; ours
        // goes with each command.
        let identity = phases.try_to("git", workspace::identity(self, boot));
        let bring = Box::pin(workspace::bring(self, boot, phases));
        let workspace = phases.run("workspace", bring);
        let (_, cloned) = tokio::join!(identity, workspace);
        let cloned = cloned?;
        phases
            .say(FromRunner::CloneComplete { repos: cloned })
            .await;
        phases
            .try_to("freshness", workspace::refresh(self, boot))
            .await;
        let mut written = content::Written::default();
        phases
            .try_to("content", async {
                written = content::write(self, boot).await;
                complaint(&written.wrong)
            })
            .await;
        let configuration = self.configuration(boot, written);
        phases
            .run("agent", async {
                configurations.send_replace(Some(configuration));
                let settled = |state: &State| !matches!(state, State::Starting);
                match agent.wait_for(settled).await.as_deref() {
                    Ok(State::Running(_)) => Ok(()),
                    Ok(State::Down { why } | State::GivenUp { why }) => Err(why.clone()),
                    _ => Err("it was not started".to_owned()),
                }
            })
            .await
    }

    /// What nobody waits for.
    pub async fn additional(&self, boot: &Boot, phases: &Phases) {
        phases.try_to("env_files", self.apply_env(boot)).await;
        phases.try_to("terminal", self.terminals.probe()).await;
        phases.try_to("preview", self.programs.preview()).await;
        phases.try_to("editor", self.programs.editor()).await;
        phases.try_to("desktop", self.programs.desktop()).await;
        phases
            .try_to("services", async { self.start_services(boot) })
            .await;
    }

    /// Before any service: what they read must be there.
    async fn apply_env(&self, boot: &Boot) -> Result<(), String> {
        if boot.env_files.is_empty() {
            return Ok(());
        }
        let spec = serde_json::to_value(&boot.env_files).map_err(|e| e.to_string())?;
        let spec: Spec = serde_json::from_value(spec).map_err(|e| e.to_string())?;
        let applied = self.env.apply_or_wait(&spec).await;
        applied.map(drop).map_err(|error| error.to_string())
    }

    /// Those that ran before, and, where dependencies are installed, those that are listed.
    fn start_services(&self, boot: &Boot) -> Result<(), String> {
        self.services.resume();
        if !boot.has_deps {
            return Ok(());
        }
        let mut wrong = Vec::new();
        for service in &boot.services {
            let name = Name::try_from(service.name.clone()).map_err(|error| error.to_string());
            let started = name.and_then(|name| {
                let definition = Definition {
                    name,
                    command: service.command.clone(),
                    cwd: service.cwd.as_deref().map(Into::into),
                    restart: Restart::default(),
                };
                // One that ran before is on its way already.
                let started = self.services.ensure(definition);
                started.map(drop).map_err(|error| error.to_string())
            });
            wrong.extend(started.err());
        }
        complaint(&wrong)
    }

    /// What the agent is to be set up with, written where it has to be read; and what is wrong with
    /// it, which costs nothing else.
    pub async fn wanted(&self, boot: &Boot) -> (Configuration, Result<(), String>) {
        let written = content::write(self, boot).await;
        let wrong = complaint(&written.wrong);
        (self.configuration(boot, written), wrong)
    }

    /// The git door leads to other repositories from now on.
    pub async fn set_git_access(&self, boot: &Boot) -> Result<(), String> {
        self.git.set(workspace::settings(boot));
        workspace::identity(self, boot).await
    }

    fn configuration(&self, boot: &Boot, written: content::Written) -> Configuration {
        let agent = &boot.agent;
        let off = agent.tools.iter().filter(|(_, on)| !**on);
        Configuration {
            workspace: workspace::directory(self, boot),
            directory: self.place.state.join("agent/configuration").into_string(),
            home: self.place.home.to_string(),
            port: AGENT_PORT,
            password: self.password.clone(),
            providers: providers(agent),
            model: agent.model.as_deref().and_then(|name| name.parse().ok()),
            small_model: agent
                .small_model
                .as_deref()
                .and_then(|name| name.parse().ok()),
            model_token: self.model_token.clone(),
            tools: Some(ToolServer {
                name: TOOLS.to_owned(),
                url: format!("http://127.0.0.1:{TOOLS_PORT}{}", crate::tools::PATH),
                token: self.tools_token.clone(),
                timeout_ms: TOOL_PATIENCE_MS,
            }),
            without_tools: off.map(|(name, _)| name.clone()).collect(),
            instructions: written.paths,
            skills: written.skills,
            permissions: match agent.permissions.default {
                Policy::Allow => PermissionPolicy::Allow,
                // An agent that may do nothing unasked can still ask.
                Policy::Ask | Policy::Deny => PermissionPolicy::Ask,
            },
            questions: Questions::Answered,
            memory_cap: None,
            own_settings: own_settings(agent, browser_server()),
        }
    }
}

fn complaint(wrong: &[String]) -> Result<(), String> {
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("; "))
    }
}

/// What the agent is told in its own words.
fn own_settings(agent: &AgentConfig, browser: Option<&str>) -> Value {
    let mut mcp: Map<String, Value> = agent
        .mcp
        .iter()
        // The name is ours.
        .filter(|mcp| mcp.name != TOOLS)
        .map(|mcp| {
            let mut server = match &mcp.transport {
                McpTransport::Command { argv } => json!({ "type": "local", "command": argv }),
                McpTransport::Http { url } => {
                    json!({ "type": "remote", "url": url, "oauth": false })
                }
            };
            if let (Value::Object(options), Some(server)) = (&mcp.options, server.as_object_mut()) {
                for (name, value) in options {
                    server.entry(name).or_insert_with(|| value.clone());
                }
            }
            (mcp.name.clone(), server)
        })
        .collect();
    if let Some(program) = browser {
        // Another of that name is somebody's choice.
        mcp.entry("playwright").or_insert_with(|| {
            let chromium = "/usr/bin/chromium";
            let command = [
                program,
                "--headless",
                "--isolated",
                "--executable-path",
                chromium,
            ];
            json!({ "type": "local", "command": command })
        });
    }
    json!({ "permission": agent.permissions.by_action, "mcp": mcp })
}

/// Longer than any of our tools waits for the hub, so that it is the tool that says what became of
/// it.
const TOOL_PATIENCE_MS: u64 = 330_000;

/// What drives a browser for the agent, where the base has it. It was called otherwise before.
fn browser_server() -> Option<&'static str> {
    let names = [
        "/usr/local/bin/playwright-mcp",
        "/usr/local/bin/mcp-server-playwright",
    ];
    names.into_iter().find(|name| Path::new(name).exists())
}

/// The name of our own tools' server.
const TOOLS: &str = "nacre";

/// Those of the model door, each below its own name there, and those with an address of their own.
fn providers(agent: &AgentConfig) -> Vec<Provider> {
    let model = |model: &wire::link::Model| Model {
        id: model.id.clone(),
        name: model.name.clone().unwrap_or_else(|| model.id.clone()),
        context: model.context_limit.unwrap_or(200_000),
        output: model.output_limit.unwrap_or(8_192),
        sees: Sees::TextImagesAndPdf,
    };
    let at_the_door = agent.providers.iter().map(|provider| Provider {
        id: provider.id.clone(),
        name: provider.name.clone(),
        speaks: match provider.id.as_str() {
            "anthropic" => Speaks::AnthropicMessages,
            "openai" => Speaks::OpenAiResponses,
            _ => Speaks::OpenAiChat,
        },
        base_url: format!("http://127.0.0.1:{MODEL_PORT}/{}/v1", provider.id),
        models: provider.models.iter().map(model).collect(),
    });
    let elsewhere = agent.custom_providers.iter().map(|provider| Provider {
        id: provider.id.clone(),
        name: provider.name.clone(),
        speaks: Speaks::OpenAiChat,
        base_url: provider.base_url.clone(),
        models: provider.models.iter().map(model).collect(),
    });
    at_the_door.chain(elsewhere).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_driven_where_the_base_has_what_drives_it() {
        let agent = AgentConfig::default();
        let settings = own_settings(&agent, Some("/usr/local/bin/playwright-mcp"));
        let command = &settings["mcp"]["playwright"]["command"];
        assert_eq!(command[0], "/usr/local/bin/playwright-mcp");
        assert!(own_settings(&agent, None)["mcp"]["playwright"].is_null());
    }

    #[test]
    fn a_tool_says_what_became_of_it_before_the_agent_loses_patience() {
        let longest = wire::link::patience("save_snapshot").as_millis();
        assert!(u128::from(TOOL_PATIENCE_MS) > longest);
    }
}
