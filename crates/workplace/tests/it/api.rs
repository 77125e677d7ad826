use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use workplace::devtools::{
    self, Hub, HubError, HubRequest, Others, Picture, Token, Tools, TunnelRefused, TunnelRegistry,
};
use workplace::services::Status;
use workplace::tunnels::Tunnel;

use crate::world::{World, eventually, in_world};

const TOKEN: &str = "a token that nobody guesses";

#[derive(Debug, Default)]
struct List(RefCell<Vec<Tunnel>>);

impl TunnelRegistry for List {
    fn list(&self) -> Vec<Tunnel> {
        self.0.borrow().clone()
    }

    fn register(&self, tunnel: Tunnel) -> Result<Tunnel, TunnelRefused> {
        self.0.borrow_mut().push(tunnel.clone());
        Ok(tunnel)
    }

    fn unregister(&self, name: &str) -> Result<(), TunnelRefused> {
        let mut tunnels = self.0.borrow_mut();
        let before = tunnels.len();
        tunnels.retain(|tunnel| tunnel.name != name);
        if tunnels.len() < before {
            Ok(())
        } else {
            Err(TunnelRefused::Unknown(name.to_owned()))
        }
    }
}

/// Approves at the second look, and denies what is called `danger`.
#[derive(Debug)]
struct Approver;

impl Hub for Approver {
    fn show(&self, picture: Picture) -> LocalBoxFuture<'_, Result<(), HubError>> {
        assert_eq!(picture.media_type, "image/png");
        Box::pin(std::future::ready(Ok(())))
    }

    fn ask(&self, request: HubRequest) -> LocalBoxFuture<'_, Result<Value, HubError>> {
        let answer = match request {
            HubRequest::Snapshot { message } => {
                Ok(json!({"snapshot_id": "snap-1", "message": message}))
            }
            HubRequest::InvokeAction { action, .. } => {
                Ok(json!({"status": "pending", "invocation": action}))
            }
            HubRequest::Invocation { id } if id == "danger" => Ok(json!({"status": "denied"})),
            HubRequest::Invocation { .. } => Ok(json!({"status": "completed", "result": 7})),
            _ => Err(HubError::TimedOut),
        };
        Box::pin(std::future::ready(answer))
    }
}

pub(crate) fn tools(world: &World) -> Rc<Tools> {
    let others = Others {
        preview: Rc::new(()),
        tunnels: Rc::new(List::default()),
        hub: Rc::new(Approver),
        git: Vec::new(),
    };
    Tools::new(&world.hands, &world.place, &world.clock, others)
}

struct Api {
    address: SocketAddr,
    tools: Rc<Tools>,
}

impl Api {
    async fn start(world: &World, token: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tools = tools(world);
        let token = token.map(|token| Token::new(token).unwrap());
        tokio::task::spawn_local(devtools::serve(listener, Rc::clone(&tools), token));
        Self { address, tools }
    }

    async fn raw(&self, request: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = [request.as_bytes(), body].concat();
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap()
            + 4;
        let content = answer.split_off(end);
        let head = String::from_utf8(answer).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, content)
    }

    async fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let request = format!(
            "{method} {path} HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, _, content) = self.raw(&request, body).await;
        (status, content)
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let (status, content) = self.ask(method, path, body.as_bytes()).await;
        (status, serde_json::from_slice(&content).unwrap_or_default())
    }
}

/// Every path that the manual names, and some that it does not.
fn paths() -> BTreeSet<String> {
    let manual = include_str!("../../../../docs/dev-tools.md");
    let named = manual.match_indices("/api/").filter_map(|(at, _)| {
        let path = manual[at..].split(['`', '?', ' ', '|']).next()?;
        (path != "/api/health").then(|| path.replace(['{', '}'], ""))
    });
    let others = [
        "/",
        "/api",
        "/api/auth/check",
        "/api/nonsense",
        "/api/health/x",
    ];
    named.chain(others.map(str::to_owned)).collect()
}

#[test]
fn nothing_of_the_manual_is_open_but_the_health_check() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        let closed = Api::start(&world, None).await;
        let methods = ["GET", "POST", "PUT", "DELETE"];
        let paths = paths();
        assert!(paths.len() > 30, "{paths:?}");
        for (path, method) in paths
            .iter()
            .flat_map(|path| methods.map(|method| (path, method)))
        {
            let headers = [
                "",
                "Authorization: Bearer wrong\r\n",
                "Authorization: Bearer \r\n",
                "Authorization: Basic x\r\n",
            ];
            for header in headers {
                let request = format!("{method} {path} HTTP/1.0\r\n{header}\r\n");
                assert_eq!(
                    api.raw(&request, b"").await.0,
                    401,
                    "{method} {path} {header}"
                );
            }
            assert_eq!(
                closed.ask(method, path, b"").await.0,
                401,
                "{method} {path}: no token at all"
            );
        }
        for api in [&api, &closed] {
            let (status, _, content) = api.raw("GET /api/health HTTP/1.0\r\n\r\n", b"").await;
            let health: Value = serde_json::from_slice(&content).unwrap();
            assert_eq!(
                (status, &health["status"], &health["api"]),
                (200, &json!("ok"), &json!(1))
            );
        }
        let sneaky = [
            "/api/health/../services",
            "/api/health%2f..%2fservices",
            "/api//health",
            "/health",
        ];
        for path in sneaky {
            let request = format!("GET {path} HTTP/1.0\r\n\r\n");
            assert_eq!(api.raw(&request, b"").await.0, 401, "{path}");
        }
        assert_eq!(api.ask("GET", "/api/auth/check", b"").await.0, 200);
        assert_eq!(api.ask("GET", "/api/nonsense", b"").await.0, 404);
    });
}

#[test]
fn services_are_driven_over_the_port() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        let body = json!({"name": "web server", "command": "printf 'a\\377b\\n'; exec sleep 1000"});
        let (status, answer) = api.json("POST", "/api/services", body).await;
        assert_eq!(
            (status, &answer["service"]["name"]),
            (200, &json!("web server"))
        );
        let running = || api.tools.services.list()[0].status == Status::Running;
        eventually("it runs", running).await;
        let (_, answer) = api.json("GET", "/api/services", Value::Null).await;
        assert_eq!(answer["services"][0]["status"], "running");
        let log = loop {
            let (_, log) = api.ask("GET", "/api/services/web%20server/logs", b"").await;
            if log.ends_with(b"b\n") {
                break log;
            }
        };
        assert!(log.ends_with(b"a\xffb\n"), "as it was written");
        let (status, answer) = api
            .json("POST", "/api/services/web%20server/stop", Value::Null)
            .await;
        assert_eq!(
            (status, &answer["service"]["status"]),
            (200, &json!("stopped"))
        );
        assert_eq!(
            api.json("POST", "/api/expose", json!({"port": 3000}))
                .await
                .0,
            200
        );
        assert_eq!(
            api.json("POST", "/api/expose", json!({"port": 4000}))
                .await
                .0,
            400
        );
        assert_eq!(
            api.json("DELETE", "/api/services/web%20server", Value::Null)
                .await
                .0,
            200
        );
        let (_, answer) = api.json("GET", "/api/services", Value::Null).await;
        assert_eq!(
            (&answer["services"], &answer["exposed_port"]),
            (&json!([]), &json!(3000))
        );
        for (name, status) in [
            ("..%2F..%2Fetc%2Fpasswd", 400),
            ("%2e%2e", 400),
            ("none", 404),
            ("", 400),
        ] {
            let path = format!("/api/services/{name}/logs");
            assert_eq!(api.ask("GET", &path, b"").await.0, status, "{name}");
        }
        for bad in [
            json!({}),
            json!({"name": "x"}),
            json!({"name": "a/b", "command": "true"}),
            json!([]),
        ] {
            assert_eq!(
                api.json("POST", "/api/services", bad.clone()).await.0,
                400,
                "{bad}"
            );
        }
        let (_, answer) = api
            .json("POST", "/api/services", json!({"name": "x"}))
            .await;
        assert!(
            answer["error"].as_str().unwrap().contains("command"),
            "names the field"
        );
    });
}

#[test]
fn a_log_is_followed_over_the_port() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        let body =
            json!({"name": "tick", "command": "for i in 1 2 3; do echo tick $i; sleep 0.1; done"});
        api.json("POST", "/api/services", body).await;
        let mut stream = TcpStream::connect(api.address).await.unwrap();
        let request = format!(
            "GET /api/services/tick/logs?follow HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("tick 3") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
        }
        assert_eq!(api.tools.tasks.len(), 1);
        drop(stream);
        eventually("nobody follows", || api.tools.tasks.is_empty()).await;
    });
}

#[test]
fn files_and_git_stay_in_the_workspace_over_the_port() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        assert_eq!(
            api.ask("PUT", "/api/files?path=a%2Fb.txt", b"hello")
                .await
                .0,
            200
        );
        assert_eq!(
            api.ask("GET", "/api/files?path=a/b.txt", b"").await,
            (200, b"hello".to_vec())
        );
        let request = format!(
            "GET /api/files?path=a/b.txt HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nRange: bytes=1-3\r\n\r\n"
        );
        let (status, head, content) = api.raw(&request, b"").await;
        assert_eq!((status, content.as_slice()), (206, &b"ell"[..]));
        assert!(head.contains("content-range: bytes 1-3/5"), "{head}");
        assert!(head.contains("content-type: text/plain"), "{head}");
        let (_, listing) = api.json("GET", "/api/files/list?path=a", Value::Null).await;
        assert_eq!(
            (
                &listing["entries"][0]["name"],
                &listing["entries"][0]["size"]
            ),
            (&json!("b.txt"), &json!(5))
        );
        let rename = json!({"from": "a/b.txt", "to": "c.txt"});
        assert_eq!(api.json("POST", "/api/files/rename", rename).await.0, 200);
        world.must("ln -s /etc etc; git init -q repo").await;
        for bad in ["..%2Fx", "%2Fetc%2Fpasswd", "etc%2Fpasswd", "..", "a%00b"] {
            for (method, path) in [
                ("GET", "/api/files?path="),
                ("PUT", "/api/files?path="),
                ("DELETE", "/api/files?path="),
                ("GET", "/api/files/list?path="),
                ("GET", "/api/git/status?repo="),
                ("GET", "/api/git/log?repo="),
                ("GET", "/api/git/diff?repo="),
                ("GET", "/api/git/diff?repo=repo&path="),
                ("GET", "/api/evidence?folder="),
            ] {
                if bad.starts_with("etc") && path.contains("repo=repo") {
                    continue;
                }
                let status = api.ask(method, &format!("{path}{bad}"), b"x").await.0;
                assert!(
                    (400..500).contains(&status),
                    "{method} {path}{bad}: {status}"
                );
            }
            let bad = bad.replace("%2F", "/").replace("%00", "\0");
            for (path, body) in [
                ("/api/files/rename", json!({"from": "c.txt", "to": bad})),
                ("/api/files/rename", json!({"from": bad, "to": "d.txt"})),
                ("/api/files/directory", json!({"path": bad})),
                ("/api/git/branch", json!({"repo": bad, "name": "topic"})),
                ("/api/git/commit", json!({"repo": bad, "message": "m"})),
                (
                    "/api/git/commit",
                    json!({"repo": "repo", "message": "m", "files": [bad]}),
                ),
                ("/api/git/push", json!({"repo": bad})),
            ] {
                let (status, answer) = api.json("POST", path, body).await;
                assert!(
                    (400..500).contains(&status) || answer["success"] == false,
                    "{path} {bad}: {status} {answer}"
                );
            }
        }
        let (_, repos) = api.json("GET", "/api/git/repos", Value::Null).await;
        assert_eq!(repos["repos"][0]["id"], "repo");
        let (status, state) = api
            .json("GET", "/api/git/status?repo=repo", Value::Null)
            .await;
        assert_eq!((status, &state["is_busy"]), (200, &json!(false)), "{state}");
        let huge = format!(
            "PUT /api/files?path=x HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 99999999\r\n\r\n"
        );
        assert_eq!(api.raw(&huge, &vec![0; 17 << 20]).await.0, 413);
    });
}

#[test]
fn heads_and_bodies_without_end_are_refused_and_keep_nobody_out() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        let lines = "x: y\r\n".repeat(1000);
        let head = format!("GET /api/ports HTTP/1.0\r\n{lines}\r\n");
        assert_eq!(api.raw(&head, b"").await.0, 431);
        let body = vec![b' '; (1 << 20) + 1];
        for path in ["/api/services", "/api/env/apply", "/api/git/commit"] {
            assert_eq!(api.ask("POST", path, &body).await.0, 413, "{path}");
        }
        // One who is not let in is not listened to either.
        let endless = "POST /api/services HTTP/1.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert_eq!(api.raw(endless, b"").await.0, 401);
        assert_eq!(api.ask("GET", "/api/ports", b"").await.0, 200);
    });
}

#[test]
fn a_terminal_is_a_websocket_on_the_port() {
    in_world(|world: Rc<World>| async move {
        let api = Api::start(&world, Some(TOKEN)).await;
        assert_eq!(api.ask("GET", "/api/terminal", b"").await.0, 426);
        let mut stream = TcpStream::connect(api.address).await.unwrap();
        let request = format!(
            "GET /api/terminal?name=main&rows=30&columns=90 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
             Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        socket
            .send(Message::binary(b"stty size\n".to_vec()))
            .await
            .unwrap();
        let mut seen = String::new();
        while !seen.contains("30 90") {
            if let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() {
                seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        let (_, answer) = api.json("GET", "/api/terminals", Value::Null).await;
        assert_eq!(answer["terminals"][0]["name"], "main");
        assert_eq!(
            api.json("DELETE", "/api/terminals/main", Value::Null)
                .await
                .0,
            200
        );
    });
}
