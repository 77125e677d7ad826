//! A client's socket, joined with a terminal in the session's sandbox.

use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::{Id, Session};
use sessions::Handle;
use tokio::time::timeout;
use wire::workplace::DEVTOOLS_PORT;

use crate::answer::{self, Body, full, problem};
use crate::deeds::query;
use crate::inside::{Inside, InsideError};
use crate::{Caller, Gateway, join};

/// Which terminal, and how large the client shows it.
#[derive(Debug, Clone, Default, serde::Deserialize)]
pub struct Terminal {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub columns: Option<u16>,
    #[serde(default)]
    pub rows: Option<u16>,
}

impl Terminal {
    fn path(&self) -> String {
        format!(
            "/api/terminal?name={}&columns={}&rows={}",
            query(self.name.as_deref().unwrap_or("main")),
            self.columns.unwrap_or(80),
            self.rows.unwrap_or(24),
        )
    }
}

impl Gateway {
    /// For a caller that was let in. Wakes the session; one who may only look has no keyboard.
    pub async fn terminal<B>(
        &self,
        request: &mut Request<B>,
        session: Id<Session>,
        caller: &Caller,
        terminal: &Terminal,
    ) -> Response<Body> {
        if !caller.may_act() {
            let message = "a viewer may only look";
            return problem(StatusCode::FORBIDDEN, "forbidden", message);
        }
        if !join::is_handshake(request.headers()) {
            let message = "this address speaks WebSocket, version 13";
            return problem(StatusCode::UPGRADE_REQUIRED, "upgrade-required", message);
        }
        let (handle, inside) = match self.wake(session).await {
            Ok(woken) => woken,
            Err(refused) => return refused,
        };
        let shaken = timeout(self.0.settings.wake, self.shake(request, &inside, terminal)).await;
        let (mut response, backend) = match shaken.unwrap_or(Err(InsideError::Late)) {
            Ok(shaken) => shaken,
            Err(error) => {
                let message = error.to_string();
                return problem(StatusCode::BAD_GATEWAY, "sandbox-unreachable", &message);
            }
        };
        join::put_upgrade(response.headers_mut());
        let client = hyper::upgrade::on(request);
        let (silence, stop) = (self.0.settings.silence, self.0.stop.clone());
        self.0.tasks.spawn(async move {
            let _attendance = handle.attend();
            let Ok(client) = client.await else { return };
            let client = TokioIo::new(client);
            tokio::select! {
                () = stop.cancelled() => {}
                () = join::join(client, backend, silence) => {}
            }
        });
        response
    }

    /// Its sandbox, awake, or why there is none.
    pub(crate) async fn wake(
        &self,
        session: Id<Session>,
    ) -> Result<(Handle, Inside), Response<Body>> {
        let woken = async {
            let handle = self.0.sessions.open(session).await?;
            let place = handle.ensure_ready().await?;
            let inside = self.0.inside(session, place).await?;
            Ok::<_, sessions::HubError>((handle, inside))
        };
        match timeout(self.0.settings.wake, woken).await {
            Ok(Ok(woken)) => Ok(woken),
            Ok(Err(error)) => Err(answer::of_hub(&error)),
            Err(_) => {
                let message = "the session is waking: try again in a moment";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Err(problem(status, "session-waking", message))
            }
        }
    }

    /// The client's handshake, word for word: what the sandbox agrees to, the client gets to see.
    async fn shake<B>(
        &self,
        request: &Request<B>,
        inside: &Inside,
        terminal: &Terminal,
    ) -> Result<(Response<Body>, TokioIo<hyper::upgrade::Upgraded>), InsideError> {
        let mut asked = Request::new(Empty::<bytes::Bytes>::new());
        *asked.uri_mut() = terminal.path().parse().map_err(|_| InsideError::Body)?;
        let headers = asked.headers_mut();
        for name in [
            header::SEC_WEBSOCKET_KEY,
            header::SEC_WEBSOCKET_VERSION,
            header::SEC_WEBSOCKET_PROTOCOL,
        ] {
            for value in request.headers().get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        join::put_upgrade(headers);
        headers.insert(header::HOST, HeaderValue::from_static("localhost:4000"));
        headers.insert(header::AUTHORIZATION, inside.devtools_bearer().await?);
        let stream = inside.dial(DEVTOOLS_PORT).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = connection.with_upgrades();
        let stop = self.0.stop.clone();
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connection => {}
            }
        });
        let mut answered = sender.send_request(asked).await?;
        if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(InsideError::Said {
                status: answered.status().as_u16(),
                code: "terminal-refused".to_owned(),
                message: format!("the sandbox answered {}", answered.status()),
            });
        }
        let upgraded = hyper::upgrade::on(&mut answered).await?;
        let mut response = Response::new(full(bytes::Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        for name in [header::SEC_WEBSOCKET_ACCEPT, header::SEC_WEBSOCKET_PROTOCOL] {
            if let Some(value) = answered.headers().get(&name) {
                response.headers_mut().insert(&name, value.clone());
            }
        }
        Ok((response, TokioIo::new(upgraded)))
    }
}
