//! Named ports, wherever they are kept.

use std::fmt;
use std::rc::Rc;

use hyper::Method;
use serde_json::json;

use super::Tools;
use super::answer::{Answer, Failure, json};
use super::ask::Ask;
use crate::tunnels::Tunnel;

#[derive(Debug, thiserror::Error)]
pub enum TunnelRefused {
    #[error("there is no tunnel {0}")]
    Unknown(String),
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    Full(String),
    #[error("{0}")]
    Failed(String),
}

pub trait TunnelRegistry: fmt::Debug {
    fn list(&self) -> Vec<Tunnel>;
    /// In the place of one of the same name.
    fn register(&self, tunnel: Tunnel) -> Result<Tunnel, TunnelRefused>;
    fn unregister(&self, name: &str) -> Result<(), TunnelRefused>;
}

/// Where there is no gateway.
impl TunnelRegistry for () {
    fn list(&self) -> Vec<Tunnel> {
        Vec::new()
    }

    fn register(&self, _: Tunnel) -> Result<Tunnel, TunnelRefused> {
        Err(TunnelRefused::Failed(
            "this sandbox has no gateway".to_owned(),
        ))
    }

    fn unregister(&self, name: &str) -> Result<(), TunnelRefused> {
        Err(TunnelRefused::Unknown(name.to_owned()))
    }
}

pub(super) async fn answer(
    tools: &Rc<Tools>,
    ask: Ask,
    method: &Method,
    path: &[&str],
) -> Result<Answer, Failure> {
    match (method.as_str(), path) {
        ("GET", []) => Ok(json(&json!({"tunnels": tools.tunnels.list()}))),
        ("POST", []) => {
            let tunnel = tools.tunnels.register(ask.json().await?)?;
            Ok(json(&json!({"ok": true, "tunnel": tunnel})))
        }
        ("DELETE", [name]) => {
            tools.tunnels.unregister(name)?;
            Ok(json(&json!({"ok": true})))
        }
        _ => Err(Failure::no_route()),
    }
}
