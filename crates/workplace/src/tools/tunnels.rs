use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Bench, Tool, read};
use crate::link::Who;
use crate::tunnels::{Protocol, Tunnel};

/// Whom the list of tunnels names for what the agent does.
const ACTOR: &str = "agent";

pub(super) struct List;
pub(super) struct Register;
pub(super) struct Unregister;

/// With where each is, below the address at which the user sees this sandbox.
fn shown(tunnels: &[Tunnel]) -> String {
    let with_address = |tunnel: &Tunnel| {
        let mut shown = json!(tunnel);
        shown["address"] = json!(format!("/t/{}/", tunnel.name));
        shown
    };
    let shown: Vec<Value> = tunnels.iter().map(with_address).collect();
    serde_json::to_string_pretty(&shown).expect("our own types serialise")
}

#[async_trait(?Send)]
impl Tool for List {
    fn name(&self) -> &'static str {
        "tunnels_list"
    }

    fn description(&self) -> &'static str {
        "List the ports of this sandbox that people can open by name."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (json!({}), &[])
    }

    async fn call(&self, bench: &Bench, _: Value, _: Who) -> Result<String, String> {
        Ok(shown(&bench.tunnels.list()))
    }
}

#[async_trait(?Send)]
impl Tool for Register {
    fn name(&self) -> &'static str {
        "tunnels_register"
    }

    fn description(&self) -> &'static str {
        "Give a port that something listens on a name, so that the user can open it."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        let properties = json!({
            "name": { "type": "string", "description": "1 to 32 letters, digits, _ or -" },
            "port": { "type": "integer", "minimum": 1, "maximum": 65535 },
            "protocol": { "type": "string", "enum": ["http", "ws", "auto"] },
        });
        (properties, &["name", "port"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
            port: u16,
            #[serde(default)]
            protocol: Protocol,
        }
        let asked: Arguments = read(arguments)?;
        let registered = bench
            .tunnels
            .register(&asked.name, asked.port, asked.protocol);
        registered
            .map(|tunnel| shown(&[tunnel]))
            .map_err(|error| error.to_string())
    }
}

#[async_trait(?Send)]
impl Tool for Unregister {
    fn name(&self) -> &'static str {
        "tunnels_unregister"
    }

    fn description(&self) -> &'static str {
        "Take the name of a port back."
    }

    fn takes(&self) -> (Value, &'static [&'static str]) {
        (json!({ "name": { "type": "string" } }), &["name"])
    }

    async fn call(&self, bench: &Bench, arguments: Value, _: Who) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Arguments {
            name: String,
        }
        let asked: Arguments = read(arguments)?;
        let removed = bench.tunnels.remove(&asked.name, ACTOR);
        removed
            .map(|tunnel| format!("{} is gone", tunnel.name))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_told_with_its_address() {
        let tunnel = Tunnel {
            name: "web".to_owned(),
            port: 3000,
            protocol: Protocol::default(),
        };
        assert!(shown(&[tunnel]).contains("\"address\": \"/t/web/\""));
    }
}
