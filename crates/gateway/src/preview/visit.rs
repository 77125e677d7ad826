//! One request on its way into a sandbox, and back.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use model::session::{ClientStatus, Place, Refused};
use sessions::{Handle, HubError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use wire::workplace::{GATEWAY_PORT, OUR_PORTS, PREVIEW_PORT};

use super::page::{self, page};
use super::{Address, Credential, Refusal, Shared, Target, headers, redirect};
use crate::answer::{Body, full};
use crate::inside::{Inside, InsideError};
use crate::join;

/// Between two looks whether who has a socket open may still be here: another process may have
/// changed it.
const LOOKED_EVERY: Duration = Duration::from_secs(15);

pub(super) struct Visit {
    pub(super) shared: Arc<Shared>,
    pub(super) address: Address,
    pub(super) user: String,
    pub(super) wakes: bool,
    /// What let them in.
    pub(super) shown: Credential,
    pub(super) peer: IpAddr,
    pub(super) room: OwnedSemaphorePermit,
}

/// Where in the sandbox it leads.
struct Way {
    port: u16,
    /// By a token of the sandbox's own gateway.
    is_ours: bool,
}

impl Visit {
    pub(super) async fn lead<B>(
        self,
        request: Request<B>,
        client: Option<OnUpgrade>,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let way = match self.way(request.uri()) {
            Ok(way) => way,
            Err(answer) => return *answer,
        };
        let (handle, inside) = match self.wake(&request).await {
            Ok(woken) => woken,
            Err(answer) => return *answer,
        };
        let is_navigation = is_navigation(&request);
        let (parts, body) = request.into_parts();
        let body = body.map_err(io::Error::other).boxed_unsync();
        let sent = match self.prepare(parts, body, &way, &inside).await {
            Ok(request) => self.send(request, &way, &inside).await,
            Err(error) => Err(error),
        };
        match (sent, client) {
            (Err(error), _) => self.failed(&error, &way, &inside).await,
            // A session runs before its editor and its desktop do.
            (Ok(response), _)
                if way.is_ours && is_navigation && response.status() == StatusCode::BAD_GATEWAY =>
            {
                page::waiting("Nothing answers there yet. This page looks again by itself.")
            }
            (Ok(response), Some(client)) => self.upgraded(response, client, &way, handle),
            (Ok(response), None) => self.answered(response, &way),
        }
    }

    fn way(&self, uri: &Uri) -> Result<Way, Box<Response<Body>>> {
        let word = match self.address.target {
            Target::Port(port) if OUR_PORTS.contains(&port) => {
                let message = "This port belongs to Nacre, and is not shown.";
                return Err(Box::new(page(StatusCode::FORBIDDEN, message)));
            }
            Target::Port(port) => {
                let is_ours = false;
                return Ok(Way { port, is_ours });
            }
            Target::Exposed => {
                // Caddy's own routes lead to the dev tools.
                if uri.path().starts_with("/_nacre") {
                    return Err(Box::new(page(StatusCode::NOT_FOUND, "Nothing is here.")));
                }
                return Ok(Way {
                    port: PREVIEW_PORT,
                    is_ours: false,
                });
            }
            Target::Editor => "/vscode/",
            Target::Desktop => "/vnc/",
            Target::Terminal => "/ttyd/",
        };
        // Nothing else of the sandbox's gateway is reached from here, however it is written.
        let path = uri.path();
        let is_plain = !path.contains("..") && !path.contains('\\') && !has_hidden_dots(path);
        if path.starts_with(word) && is_plain {
            return Ok(Way {
                port: GATEWAY_PORT,
                is_ours: true,
            });
        }
        Err(Box::new(match path {
            "/" => redirect(word),
            _ => page(StatusCode::NOT_FOUND, "Nothing is here."),
        }))
    }

    /// The session's sandbox, once it runs.
    async fn wake<B>(&self, request: &Request<B>) -> Result<(Handle, Inside), Box<Response<Body>>> {
        let gateway = &self.shared.gateway.0;
        let session = self.address.session;
        let woken = async {
            let handle = gateway.sessions.open(session).await?;
            let place = running(&handle);
            let place = match place {
                Some(place) => place,
                None if self.wakes => handle.ensure_ready().await?,
                None => return Err(HubError::Refused(Refused::NotRunning)),
            };
            let inside = gateway.inside(&handle, place)?;
            Ok::<_, HubError>((handle, inside))
        };
        match timeout(gateway.settings.wake, woken).await {
            Ok(Ok(woken)) => Ok(woken),
            Ok(Err(error)) => Err(Box::new(asleep(&error))),
            Err(_) if is_navigation(request) => Err(Box::new(page::waiting(
                "The session is waking. This page looks again by itself.",
            ))),
            Err(_) => {
                let mut response = page(StatusCode::SERVICE_UNAVAILABLE, "The session is waking.");
                let again = HeaderValue::from_static("2");
                response.headers_mut().insert(header::RETRY_AFTER, again);
                Err(Box::new(response))
            }
        }
    }

    async fn prepare(
        &self,
        mut parts: Parts,
        body: Body,
        way: &Way,
        inside: &Inside,
    ) -> Result<Request<Body>, InsideError> {
        let host = self.host(&parts.headers);
        let is_upgrade = join::is_upgrade(&parts.headers);
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::drop_our_cookies(&mut parts.headers);
        headers::forwarded(&mut parts.headers, &self.shared.site, &host, self.peer);
        // Said by the body itself, as it is sent; and answered by us.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::EXPECT);
        if is_upgrade {
            join::put_upgrade(&mut parts.headers);
        }
        if way.is_ours {
            let now = self.shared.gateway.0.clock.now().as_second();
            let now = u64::try_from(now).unwrap_or(0);
            let bearer = inside.gateway_bearer(&self.user, now).await?;
            parts.headers.insert(header::AUTHORIZATION, bearer);
        }
        // What a browser would send to it inside; servers refuse names that they do not know.
        let inner = HeaderValue::try_from(format!("localhost:{}", way.port));
        let inner = inner.map_err(|_| InsideError::Path)?;
        // A page that asks its own server is of the same origin inside, too. The editor compares
        // with the name that was forwarded, and refuses its own sockets else.
        let is_own = parts.headers.contains_key(header::ORIGIN);
        if is_own && !way.is_ours && !headers::is_foreign(&parts.headers) {
            let origin = HeaderValue::try_from(format!("http://localhost:{}", way.port));
            let origin = origin.map_err(|_| InsideError::Path)?;
            parts.headers.insert(header::ORIGIN, origin);
        }
        parts.headers.insert(header::HOST, inner);
        let path = parts.uri.path_and_query().cloned();
        let path = path.ok_or(InsideError::Path)?;
        let mut request = Request::new(body);
        *request.method_mut() = parts.method;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = parts.headers;
        Ok(request)
    }

    async fn send(
        &self,
        request: Request<Body>,
        way: &Way,
        inside: &Inside,
    ) -> Result<Response<Incoming>, InsideError> {
        let within = self.shared.gateway.0.settings.answer;
        let backends = &self.shared.backends;
        backends.send(inside, way.port, request, within).await
    }

    fn answered(self, response: Response<Incoming>, way: &Way) -> Response<Body> {
        if response.status().is_informational() {
            let message = "What runs there switches, and was not asked to.";
            return page(StatusCode::BAD_GATEWAY, message);
        }
        let (mut parts, body) = response.into_parts();
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::tame_cookies(&mut parts.headers);
        headers::move_location(&mut parts.headers, way.port);
        // It takes room for as long as its body is on the way.
        let room = self.room;
        let body = body.map_err(move |error| {
            let _ = &room;
            io::Error::other(error)
        });
        Response::from_parts(parts, body.boxed_unsync())
    }

    fn upgraded(
        self,
        mut response: Response<Incoming>,
        client: OnUpgrade,
        way: &Way,
        handle: Handle,
    ) -> Response<Body> {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return self.answered(response, way);
        }
        let backend = hyper::upgrade::on(&mut response);
        let (mut parts, _) = response.into_parts();
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::tame_cookies(&mut parts.headers);
        join::put_upgrade(&mut parts.headers);
        let gateway = &self.shared.gateway.0;
        let (silence, stop, room) = (gateway.settings.silence, gateway.stop.clone(), self.room);
        let right = Right {
            shared: Arc::clone(&self.shared),
            to: self.address,
            shown: self.shown,
            peer: self.peer,
        };
        gateway.tasks.spawn(async move {
            let _here = (room, handle.attend());
            let (Ok(client), Ok(backend)) = (client.await, backend.await) else {
                return;
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = right.until_lost() => {}
                () = join::join(TokioIo::new(client), TokioIo::new(backend), silence) => {}
            }
        });
        Response::from_parts(parts, full(Bytes::new()))
    }

    async fn failed(&self, error: &InsideError, way: &Way, inside: &Inside) -> Response<Body> {
        match error {
            InsideError::Dial { port, .. } if !way.is_ours => {
                let within = Duration::from_secs(5);
                let open = inside.ask(Method::GET, "/api/ports", None, within).await;
                let open: serde_json::Value = open.unwrap_or_default();
                let open: Vec<u16> = open["ports"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|port| u16::try_from(port["port"].as_u64()?).ok())
                    .take(50)
                    .collect();
                page::nothing_there(*port, &open)
            }
            InsideError::Late => page(
                StatusCode::GATEWAY_TIMEOUT,
                "What runs there does not answer.",
            ),
            error => page(StatusCode::BAD_GATEWAY, &error.to_string()),
        }
    }

    fn host(&self, headers: &HeaderMap) -> String {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        host.map_or_else(
            || format!("{}.{}", self.address, self.shared.site.domain),
            str::to_owned,
        )
    }
}

/// To be here, while a socket is open.
struct Right {
    shared: Arc<Shared>,
    to: Address,
    shown: Credential,
    peer: IpAddr,
}

impl Right {
    /// When the link was taken back, is over, or whoever came with it is no member any more. That it
    /// cannot be looked up loses nobody anything.
    async fn until_lost(self) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            tokio::select! {
                () = sleep(LOOKED_EVERY) => {}
                _ = changed.changed() => {}
            }
            let access = &self.shared.access;
            let admitted = access.admit(self.to, &self.shown, self.peer).await;
            if matches!(admitted, Err(Refusal::Unknown | Refusal::SignIn)) {
                return;
            }
        }
    }
}

fn running(handle: &Handle) -> Option<Place> {
    let seen = handle.seen();
    let seen = seen.borrow();
    seen.place
        .filter(|_| matches!(seen.status, ClientStatus::Running | ClientStatus::Migrating))
}

fn has_hidden_dots(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    ["%2e", "%2f", "%5c", "%00"]
        .iter()
        .any(|hidden| lower.contains(hidden))
}

fn is_navigation<B>(request: &Request<B>) -> bool {
    let accepts = request.headers().get(header::ACCEPT);
    request.method() == Method::GET
        && accepts.is_some_and(|accepts| {
            let accepts = accepts.to_str().unwrap_or_default();
            accepts.contains("text/html")
        })
}

fn asleep(error: &HubError) -> Response<Body> {
    let (status, message) = match error {
        HubError::Refused(Refused::Stopped) => (
            StatusCode::GONE,
            "The session is stopped. Fork it to go on from its last snapshot.".to_owned(),
        ),
        HubError::Refused(Refused::Suspended) => (
            StatusCode::CONFLICT,
            "The session is suspended. What suspended it must be cleared first.".to_owned(),
        ),
        HubError::Refused(Refused::NotRunning) => (
            StatusCode::CONFLICT,
            "The session sleeps, and who only looks does not wake it. Ask a member to resume it."
                .to_owned(),
        ),
        HubError::Refused(Refused::Degraded) => (
            StatusCode::CONFLICT,
            "The session lost something. Open it in Nacre and say whether to go on.".to_owned(),
        ),
        HubError::Store(store::Error::NotFound(_)) => (
            StatusCode::NOT_FOUND,
            "No preview has this name.".to_owned(),
        ),
        error => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("The session does not run: {error}"),
        ),
    };
    page(status, &message)
}
