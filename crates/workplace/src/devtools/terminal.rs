use std::rc::Rc;

use hyper::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{HeaderMap, Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use wire::guest::WindowSize;

use super::Tools;
use super::answer::{Answer, Content, Failure, json};
use super::ask::Ask;
use crate::terminal::{DEFAULT_NAME, TTYD_SUBPROTOCOL, serve_plain, serve_ttyd};

pub(super) async fn answer(
    tools: &Rc<Tools>,
    method: &Method,
    path: &[&str],
) -> Result<Answer, Failure> {
    match (method.as_str(), path) {
        ("GET", []) => Ok(json(&json!({"terminals": tools.terminals.list()}))),
        ("DELETE", [name]) => {
            tools.terminals.close(name).await?;
            Ok(json(&json!({"ok": true})))
        }
        _ => Err(Failure::no_route()),
    }
}

/// The answer goes first; then the stream is a WebSocket, served by a task of its own.
pub(super) fn upgrade(tools: &Rc<Tools>, mut ask: Ask) -> Result<Answer, Failure> {
    let name = ask
        .parameter("name")
        .unwrap_or_else(|| DEFAULT_NAME.to_owned());
    let size = size(&ask)?;
    let headers = ask.request.headers();
    let key = key(headers).ok_or_else(|| {
        Failure::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade_required",
            "a terminal is a WebSocket, version 13",
        )
    })?;
    let speaks_ttyd = speaks(headers, TTYD_SUBPROTOCOL);
    let accepted = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| Failure::bad("the WebSocket's key is odd"))?;
    let upgrading = hyper::upgrade::on(&mut ask.request);
    let handed = Rc::clone(tools);
    tools.tasks.spawn_local(async move {
        let Ok(stream) = upgrading.await else { return };
        let stream = TokioIo::new(stream);
        if speaks_ttyd {
            serve_ttyd(&handed.terminals, &name, stream).await;
        } else {
            serve_plain(&handed.terminals, &name, size, stream).await;
        }
    });
    let mut answer = Response::new(Content::Whole(None));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    if speaks_ttyd {
        let protocol = HeaderValue::from_static(TTYD_SUBPROTOCOL);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(answer)
}

fn size(ask: &Ask) -> Result<Option<WindowSize>, Failure> {
    let side = |name| -> Result<Option<u16>, Failure> {
        let number = ask.number(name)?;
        Ok(number.map(|number| u16::try_from(number).unwrap_or(u16::MAX)))
    };
    Ok(match (side("rows")?, side("columns")?) {
        (Some(rows), Some(columns)) => Some(WindowSize { rows, columns }),
        _ => None,
    })
}

/// Of a proper upgrade to a WebSocket.
fn key(headers: &HeaderMap) -> Option<String> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let upgrades = text(UPGRADE)?.eq_ignore_ascii_case("websocket");
    let connects = text(CONNECTION)?
        .split(',')
        .any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    let is_known = text(SEC_WEBSOCKET_VERSION)? == "13";
    let key = text(SEC_WEBSOCKET_KEY)?;
    (upgrades && connects && is_known).then(|| key.to_owned())
}

fn speaks(headers: &HeaderMap, protocol: &str) -> bool {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offered| offered.trim() == protocol)
}
