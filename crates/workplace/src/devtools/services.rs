use std::rc::Rc;

use bytes::Bytes;
use camino::Utf8PathBuf;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::Tools;
use super::answer::{Answer, Failure, bytes, json, stream};
use super::ask::Ask;
use crate::services::{Definition, Follow, LOG_LIMIT, Name, Restart};

/// What is shown of a log unless more is asked for.
const TAIL: u64 = 10_000;
const TEXT: &str = "text/plain; charset=utf-8";
/// Pieces of a log that wait for a reader.
const PIECES: usize = 4;

#[derive(Deserialize)]
struct Start {
    name: String,
    command: String,
    #[serde(default)]
    cwd: Option<Utf8PathBuf>,
    #[serde(default)]
    restart: Restart,
}

#[derive(Deserialize)]
struct Expose {
    port: u16,
}

pub(super) async fn answer(
    tools: &Rc<Tools>,
    ask: Ask,
    method: &Method,
    path: &[&str],
) -> Result<Answer, Failure> {
    let services = &tools.services;
    match (method.as_str(), path) {
        ("GET", []) => {
            let exposed = services.exposed();
            Ok(json(
                &json!({"services": services.list(), "exposed_port": exposed}),
            ))
        }
        ("POST", []) => {
            let start: Start = ask.json().await?;
            let service = services.start(Definition {
                name: Name::new(&start.name)?,
                command: start.command,
                cwd: start.cwd,
                restart: start.restart,
            })?;
            tools.ports.hint();
            Ok(json(&json!({"service": service})))
        }
        (method, [name, rest @ ..]) => {
            let name = Name::new(name)?;
            let service = match (method, rest) {
                ("GET", []) => services.info(&name)?,
                ("DELETE", []) => {
                    services.remove(&name).await?;
                    tools.ports.hint();
                    return Ok(json(&json!({"ok": true})));
                }
                ("POST", ["start"]) => services.start_again(&name)?,
                ("POST", ["stop"]) => services.stop(&name).await?,
                ("POST", ["restart"]) => services.restart(&name)?,
                ("GET", ["logs"]) => return logs(tools, &ask, &name),
                _ => return Err(Failure::no_route()),
            };
            tools.ports.hint();
            Ok(json(&json!({"service": service})))
        }
        _ => Err(Failure::no_route()),
    }
}

pub(super) async fn expose(
    tools: &Rc<Tools>,
    ask: Ask,
    method: &Method,
) -> Result<Answer, Failure> {
    if method != Method::POST {
        return Err(Failure::no_route());
    }
    let Expose { port } = ask.json().await?;
    tools.services.expose(port)?;
    Ok(json(&json!({"ok": true, "exposed_port": port})))
}

/// As it was written: a log need not be text.
fn logs(tools: &Rc<Tools>, ask: &Ask, name: &Name) -> Result<Answer, Failure> {
    let tail = ask.number("tail")?.unwrap_or(TAIL).min(LOG_LIMIT);
    let mut follow = tools.services.log(name)?.tail(tail);
    if ask
        .parameter("follow")
        .is_some_and(|value| value != "false")
    {
        let (sender, receiver) = mpsc::channel(PIECES);
        tools.tasks.spawn_local(feed(follow, sender));
        return Ok(stream(receiver, TEXT));
    }
    let mut content = Vec::new();
    loop {
        match follow.ready() {
            piece if piece.is_empty() => return Ok(bytes(content.into(), TEXT)),
            piece => content.extend(piece),
        }
    }
}

/// Until the reader goes, or the log.
async fn feed(mut follow: Follow, sender: mpsc::Sender<Bytes>) {
    loop {
        let piece = tokio::select! {
            piece = follow.next() => piece,
            () = sender.closed() => return,
        };
        let Some(piece) = piece else { return };
        if sender.send(piece.into()).await.is_err() {
            return;
        }
    }
}
