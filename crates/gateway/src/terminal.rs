//! A client's socket, joined with a terminal in the session's sandbox.

use std::sync::Arc;

use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::{Id, Session};
use sessions::Handle;
use tokio::time::timeout;
use wire::workplace::DEVTOOLS_PORT;

use crate::answer::{Body, full, problem};
use crate::inside::{Inside, InsideError, encode};
use crate::{Gateway, Refusal, Visit, join};

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
            encode(self.name.as_deref().unwrap_or("main")),
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
        visit: &Visit,
        terminal: &Terminal,
    ) -> Response<Body> {
        let opened = self.open_terminal(request, visit, terminal).await;
        opened.unwrap_or_else(|refusal| problem(&refusal))
    }

    async fn open_terminal<B>(
        &self,
        request: &mut Request<B>,
        visit: &Visit,
        terminal: &Terminal,
    ) -> Result<Response<Body>, Refusal> {
        let Visit {
            session,
            caller,
            leave,
        } = visit;
        if !caller.may_act() {
            return Err(Refusal::forbidden("a viewer may only look"));
        }
        if !join::is_handshake(request.headers()) {
            return Err(join::not_a_socket());
        }
        let room = self.place()?;
        let name = terminal.name.as_deref().unwrap_or("main");
        let about = serde_json::json!({ "terminal": name });
        if let Some(line) = self.0.line(caller, *session, "terminal", &about) {
            let mut tx = self.0.store.begin().await?;
            tx.record(&line).await?;
            tx.commit().await?;
        }
        let (handle, inside) = self.wake(*session).await?;
        let shaken = timeout(self.0.settings.wake, self.shake(request, &inside, terminal)).await;
        let (mut response, backend) = shaken.unwrap_or(Err(InsideError::Late))?;
        join::put_upgrade(response.headers_mut());
        let client = hyper::upgrade::on(request);
        let (silence, stop) = (self.0.settings.silence, self.0.stop.clone());
        let leave = Arc::clone(leave);
        self.0.tasks.spawn(async move {
            let (_attendance, _room) = (handle.attend(), room);
            let Ok(client) = client.await else { return };
            let client = TokioIo::new(client);
            tokio::select! {
                () = stop.cancelled() => {}
                () = leave.cancelled() => {}
                () = join::join(client, backend, silence) => {}
            }
        });
        Ok(response)
    }

    /// Its sandbox, awake, or why there is none.
    pub(crate) async fn wake(&self, session: Id<Session>) -> Result<(Handle, Inside), Refusal> {
        let woken = async {
            let handle = self.0.sessions.open(session).await?;
            let place = handle.ensure_ready().await?;
            let inside = self.0.inside(&handle, place)?;
            Ok::<_, sessions::HubError>((handle, inside))
        };
        let woken = timeout(self.0.settings.wake, woken).await;
        let waking = "the session is waking: try again in a moment";
        Ok(woken.map_err(|_| Refusal::later("session-waking", waking))??)
    }

    /// The client's handshake, word for word: what the sandbox agrees to, the client gets to see.
    async fn shake<B>(
        &self,
        request: &Request<B>,
        inside: &Inside,
        terminal: &Terminal,
    ) -> Result<(Response<Body>, TokioIo<hyper::upgrade::Upgraded>), InsideError> {
        let mut asked = Request::new(Empty::<bytes::Bytes>::new());
        *asked.uri_mut() = terminal.path().parse().map_err(|_| InsideError::Path)?;
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
