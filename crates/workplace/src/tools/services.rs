use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bench, Tool, read};
use crate::link::Who;
use crate::services::{Definition, Name, Restart};

/// What of a log is shown to an agent.
const SHOWN: u64 = 16 << 10;

pub(super) struct List;
pub(super) struct Start;
pub(super) struct Stop;
pub(super) struct Logs;
pub(super) struct Expose;

#[derive(Deserialize)]
struct Named {
    name: String,
}

fn name(text: String) -> Result<Name, String> {
    Name::try_from(text).map_err(|error| error.to_string())
}

fn shown(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("our own types serialise")
}

#[async_trait(?Send)]
impl Tool for List {
    fn name(&self) -> &'static str {
        "services_list"
    }

    fn description(&self) -> &'static str {
        "List the services of this workspace: dev servers, workers, databases, with their status."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (json!({}), &[])
    }

    async fn call(&self, bench: &Bench, _: Value, _: Who) -> Result<String, String> {
        Ok(shown(&bench.services.list()))
    }
}

#[async_trait(?Send)]
impl Tool for Start {
    fn name(&self) -> &'static str {
        "services_start"
    }

    fn description(&self) -> &'static str {
        "Start a long-running command (a dev server, a watcher, a database) as a named service that \
         goes on after this call, is restarted when it fails, and whose log is kept. Starting a name \
         again replaces it. Use this instead of running such a command in the background."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        let properties = json!({
            "name": { "type": "string", "description": "a short name, such as web" },
            "command": { "type": "string", "description": "a shell command that stays in the foreground" },
            "cwd": { "type": "string", "description": "a directory of the workspace; default: the workspace" },
        });
        (properties, &["name", "command"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
            command: String,
            cwd: Option<String>,
        }
        let asked: Arguments = read(arguments)?;
        let definition = Definition {
            name: name(asked.name)?,
            command: asked.command,
            cwd: asked.cwd.map(Into::into),
            restart: Restart::default(),
        };
        let started = bench.services.start(definition);
        started
            .map(|info| shown(&info))
            .map_err(|error| error.to_string())
    }
}

#[async_trait(?Send)]
impl Tool for Stop {
    fn name(&self) -> &'static str {
        "services_stop"
    }

    fn description(&self) -> &'static str {
        "Stop a service and everything it started."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (json!({ "name": { "type": "string" } }), &["name"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        let asked: Named = read(arguments)?;
        let stopped = bench.services.stop(&name(asked.name)?).await;
        stopped
            .map(|info| shown(&info))
            .map_err(|error| error.to_string())
    }
}

#[async_trait(?Send)]
impl Tool for Logs {
    fn name(&self) -> &'static str {
        "services_logs"
    }

    fn description(&self) -> &'static str {
        "Show the end of a service's log."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (json!({ "name": { "type": "string" } }), &["name"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        let asked: Named = read(arguments)?;
        let log = bench
            .services
            .log(&name(asked.name)?)
            .map_err(|error| error.to_string())?;
        let tail = log.tail(SHOWN).ready();
        Ok(String::from_utf8_lossy(&tail).into_owned())
    }
}

#[async_trait(?Send)]
impl Tool for Expose {
    fn name(&self) -> &'static str {
        "services_expose"
    }

    fn description(&self) -> &'static str {
        "Choose the port that the preview shows to the user."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        let port = json!({ "type": "integer", "minimum": 1, "maximum": 65535 });
        (json!({ "port": port }), &["port"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            port: u16,
        }
        let asked: Arguments = read(arguments)?;
        let exposed = bench.services.expose(asked.port);
        exposed
            .map(|()| format!("the preview shows port {}", asked.port))
            .map_err(|error| error.to_string())
    }
}
