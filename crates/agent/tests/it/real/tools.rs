//! A server of tools over MCP, as small as it can be: one tool that remembers how it was called.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use agent::event::Happening;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::office::{self, Office, Wants, text_of};

#[derive(Debug)]
struct Tools {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Seen {
    calls: Vec<Value>,
    bearer: String,
}

impl Tools {
    async fn listen() -> Tools {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut tasks = JoinSet::new();
        let shared = seen.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Tools {
            address,
            seen,
            _tasks: tasks,
        }
    }

    fn calls(&self) -> Vec<Value> {
        self.seen.lock().unwrap().calls.clone()
    }

    fn bearer(&self) -> String {
        self.seen.lock().unwrap().bearer.clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut bytes = Vec::new();
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        let Some((head, body)) = request(&bytes) else {
            continue;
        };
        bytes.clear();
        if let Some(line) = head
            .lines()
            .find(|line| line.to_lowercase().starts_with("authorization:"))
        {
            line.split_once(": ")
                .unwrap()
                .1
                .clone_into(&mut seen.lock().unwrap().bearer);
        }
        let (status, answer) = if head.starts_with("POST") {
            answer(&body, &seen)
        } else {
            ("405 Method Not Allowed", Value::Null)
        };
        let answer = if answer.is_null() {
            String::new()
        } else {
            answer.to_string()
        };
        let reply = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The head and the body, when both are there whole.
fn request(bytes: &[u8]) -> Option<(String, Value)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    let body = body.get(..length)?;
    Some((
        head.to_owned(),
        serde_json::from_str(body).unwrap_or_default(),
    ))
}

fn answer(asked: &Value, seen: &Mutex<Seen>) -> (&'static str, Value) {
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "double", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{
            "name": "note", "description": "Take a note",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }]}),
        "tools/call" => {
            seen.lock().unwrap().calls.push(asked["params"].clone());
            json!({ "content": [{ "type": "text", "text": "ok" }] })
        }
        _ => return ("202 Accepted", Value::Null),
    };
    (
        "200 OK",
        json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }),
    )
}

#[tokio::test]
async fn a_tool_of_ours_is_told_whose_session_calls() {
    let tools = Tools::listen().await;
    let mut office = office!(Wants {
        tools: Some(tools.address),
        ..Wants::default()
    });
    let events = office
        .ask(
            r#"!!{"tool": "nacre_note", "input": {"text": "hi"}}
!!{"text": "noted"}"#,
        )
        .await;
    assert_eq!(text_of(&events), "noted");
    let session = events.iter().find_map(|event| match &event.happening {
        Happening::SessionStarted { session, .. } => Some(session.0.clone()),
        _ => None,
    });
    let calls = tools.calls();
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!(call["arguments"]["text"], "hi");
    assert_eq!(
        call["arguments"][agent::opencode::SESSION_ARGUMENT].as_str(),
        session.as_deref()
    );
    assert_eq!(tools.bearer(), "Bearer tools-token");
    office.close().await;
}
