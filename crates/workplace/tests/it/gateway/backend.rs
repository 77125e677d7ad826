//! A backend that says what it got, and does some things that backends do.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(super) async fn start(tasks: &mut JoinSet<()>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tasks.spawn_local(async move {
        let mut connections = JoinSet::new();
        let second_event = Arc::new(Notify::new());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let second_event = Arc::clone(&second_event);
            connections.spawn_local(async move {
                let sockets = Rc::new(std::cell::RefCell::new(JoinSet::new()));
                let kept = Rc::clone(&sockets);
                let service = hyper::service::service_fn(move |request| {
                    let second_event = Arc::clone(&second_event);
                    let sockets = Rc::clone(&kept);
                    async move { Ok::<_, Infallible>(answer(request, &second_event, &sockets).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades();
                let _ = connection.await;
                let mut sockets = std::mem::take(&mut *sockets.borrow_mut());
                while sockets.join_next().await.is_some() {}
            });
        }
    });
    port
}

async fn answer(
    mut request: Request<Incoming>,
    second_event: &Arc<Notify>,
    sockets: &std::cell::RefCell<JoinSet<()>>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if request.headers().contains_key(header::UPGRADE) {
        let mut response = handshake(&request);
        if path == "/ws/slow" {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        if path == "/ws/never" {
            std::future::pending::<()>().await;
        }
        if path == "/ws/refused" {
            *response.status_mut() = StatusCode::FORBIDDEN;
            return response;
        }
        let upgrade = hyper::upgrade::on(&mut request);
        sockets.borrow_mut().spawn_local(async move {
            if let Ok(upgraded) = upgrade.await {
                echo_socket(TokioIo::new(upgraded)).await;
            }
        });
        return response;
    }
    match path.as_str() {
        "/redirect" => redirect(request.uri().query().unwrap_or_default()),
        "/events" => events(second_event),
        "/events/second" => {
            second_event.notify_one();
            text("")
        }
        "/encoded" => {
            let mut response = text("not really compressed");
            let headers = response.headers_mut();
            headers.insert("content-encoding", HeaderValue::from_static("br"));
            headers.insert("connection", HeaderValue::from_static("x-hop"));
            headers.insert("x-hop", HeaderValue::from_static("1"));
            response
        }
        "/cookies" => {
            let mut response = text("");
            for cookie in [
                "own=1; Path=/",
                "__Host-gateway_session=fixed; Path=/; Secure",
            ] {
                let value = HeaderValue::from_str(cookie).unwrap();
                response.headers_mut().append("set-cookie", value);
            }
            response
        }
        "/endless" => {
            let piece = || Ok(Frame::data(Bytes::from_static(&[7; 16 << 10])));
            let pieces = futures::stream::repeat_with(piece);
            Response::new(StreamBody::new(pieces).boxed_unsync())
        }
        "/slow" => std::future::pending().await,
        "/length" => {
            let length = request
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .len();
            text(&length.to_string())
        }
        _ => echo(request).await,
    }
}

async fn echo(request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let headers: Vec<(&str, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (
                name.as_str(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    let body = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let got = serde_json::json!({
        "method": parts.method.as_str(),
        "target": parts.uri.to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    text(&got.to_string())
}

fn text(text: &str) -> Response<Body> {
    Response::new(Full::new(Bytes::from(text.to_owned())).boxed_unsync())
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = text("");
    *response.status_mut() = StatusCode::FOUND;
    response
        .headers_mut()
        .insert("location", to.parse().unwrap());
    response
}

/// Two events, the second once somebody asks for it.
fn events(second: &Arc<Notify>) -> Response<Body> {
    let second = Arc::clone(second);
    let stream = futures::stream::unfold(0, move |n| {
        let second = Arc::clone(&second);
        async move {
            match n {
                0 => {}
                1 => second.notified().await,
                _ => return None,
            }
            let event = Bytes::from(format!("data: {n}\n\n"));
            Some((Ok(Frame::data(event)), n + 1))
        }
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert("content-type", kind);
    response
}

fn handshake(request: &Request<Incoming>) -> Response<Body> {
    let mut response = text("");
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let key = &request.headers()["sec-websocket-key"];
    let accept = derive_accept_key(key.as_bytes());
    let headers = response.headers_mut();
    headers.insert("connection", HeaderValue::from_static("upgrade"));
    headers.insert("upgrade", HeaderValue::from_static("websocket"));
    headers.insert("sec-websocket-accept", accept.parse().unwrap());
    // The last of those on offer, so that a test can see that all arrived.
    if let Some(offered) = request.headers().get("sec-websocket-protocol") {
        let chosen = offered.to_str().unwrap().rsplit(',').next().unwrap().trim();
        headers.insert("sec-websocket-protocol", chosen.parse().unwrap());
    }
    response
}

/// Says what it hears. Told to `close CODE` or to `break`, it does.
pub(super) async fn echo_socket(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = &message {
            if text.as_str() == "break" {
                return;
            }
            if let Some(code) = text.strip_prefix("close ") {
                let code = code.parse::<u16>().unwrap().into();
                let reason = "because".into();
                let _ = socket.close(Some(CloseFrame { code, reason })).await;
                continue;
            }
        }
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            return;
        }
    }
}
