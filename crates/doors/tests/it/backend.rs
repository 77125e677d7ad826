//! A git host: `git http-backend` behind a small bridge, with a token that it wants to see.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

pub(crate) const TOKEN: &str = "ghs_token_that_stays_outside";
/// `x-access-token:` and the token.
pub(crate) const BASIC: &str = "Basic eC1hY2Nlc3MtdG9rZW46Z2hzX3Rva2VuX3RoYXRfc3RheXNfb3V0c2lkZQ==";

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
}

pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    _serving: JoinSet<()>,
}

impl Backend {
    /// Serves the bare repositories below a directory to whoever has the token.
    pub(crate) async fn start(root: &Utf8Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let root = root.to_owned();
        let of_server = Arc::clone(&seen);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (root, seen) = (root.clone(), Arc::clone(&of_server));
                connections.spawn(async move {
                    let service =
                        service_fn(|request| answer(root.clone(), Arc::clone(&seen), request));
                    let _ended = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            address,
            seen,
            _serving: serving,
        }
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(
    root: Utf8PathBuf,
    seen: Arc<Mutex<Vec<Seen>>>,
    request: Request<Incoming>,
) -> Result<Answer, std::io::Error> {
    let (head, body) = request.into_parts();
    seen.lock().unwrap().push(Seen {
        uri: head.uri.to_string(),
        headers: head.headers.clone(),
    });
    if head
        .headers
        .get("authorization")
        .is_none_or(|value| value != BASIC)
    {
        let mut answer = Response::new(Full::from("who are you?"));
        *answer.status_mut() = StatusCode::UNAUTHORIZED;
        return Ok(answer);
    }
    // As some hosts do, which know repositories by one spelling alone.
    if !head.uri.path().contains(".git/") {
        let to = head.uri.to_string().replacen("/info/", ".git/info/", 1);
        let mut answer = Response::new(Full::default());
        *answer.status_mut() = StatusCode::MOVED_PERMANENTLY;
        answer.headers_mut().insert("location", to.parse().unwrap());
        return Ok(answer);
    }
    let body = body.collect().await.map_err(std::io::Error::other)?;
    let of = |name: &str| {
        let value = head.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap()).to_owned()
    };
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("REMOTE_USER", "someone")
        .env("REQUEST_METHOD", head.method.as_str())
        .env("PATH_INFO", head.uri.path())
        .env("QUERY_STRING", head.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", of("content-type"))
        .env("HTTP_CONTENT_ENCODING", of("content-encoding"))
        .env("GIT_PROTOCOL", of("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = backend.stdin.take().unwrap();
    let bytes = body.to_bytes();
    let (_taken, output) = tokio::join!(
        async move { stdin.write_all(&bytes).await },
        backend.wait_with_output()
    );
    Ok(from_script(&output?.stdout))
}

/// A script's answer: headers, an empty line, a body.
fn from_script(output: &[u8]) -> Answer {
    let end = memchr::memmem::find(output, b"\r\n\r\n").expect("a head");
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(&output[end + 4..])));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.trim();
        if name == "Status" {
            let status = value.split(' ').next().unwrap().parse::<u16>().unwrap();
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        } else {
            let name: HeaderName = name.parse().unwrap();
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    answer
}
