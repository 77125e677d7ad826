//! One request's way through the gateway: what it asks for, who asks, whether a page of ours does,
//! and then to the backend and back.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use model::Secret;
use tokio::sync::mpsc;
use wire::keys::token::PROBE;

use super::answer::{self, Answer, Answered, Content};
use super::backends::BackendError;
use super::guard::{Admitted, Denied, Shown, Way as Admission};
use super::patience::Patient;
use super::routes::{Destination, End, Handler, Way};
use super::socket::{self, Socket};
use super::target::{BadTarget, Target};
use super::{Gateway, Notice, headers, random};

/// A client's connection, over which it makes its requests.
#[derive(Debug)]
pub(super) struct Visit {
    gateway: Rc<Gateway>,
    peer: IpAddr,
    is_admitted: Cell<bool>,
    /// What becomes of the connection once its handshake is done.
    next: RefCell<Option<Next>>,
}

#[derive(Debug)]
struct Next {
    client: OnUpgrade,
    to: Partner,
    user: String,
    path: String,
}

#[derive(Debug)]
enum Partner {
    Backend(OnUpgrade),
    Handler(Rc<dyn Handler>),
    /// With a place kept for it.
    Link(mpsc::OwnedPermit<Socket>),
}

/// A request that may go on.
struct Allowed {
    admitted: Admitted,
    target: Target,
    is_upgrade: bool,
}

impl Visit {
    pub(super) fn new(gateway: Rc<Gateway>, peer: IpAddr) -> Self {
        Self {
            gateway,
            peer,
            is_admitted: Cell::new(false),
            next: RefCell::default(),
        }
    }

    /// Whether a request on it was let in.
    pub(super) fn is_admitted(&self) -> bool {
        self.is_admitted.get()
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answered {
        Ok(self
            .respond(request)
            .await
            .unwrap_or_else(|refusal| *refusal))
    }

    /// Goes on as a socket, if a handshake was made.
    pub(super) async fn go_on(&self) {
        let Some(next) = self.next.take() else {
            return;
        };
        let Ok(client) = next.client.await else {
            return;
        };
        let stream = TokioIo::new(client);
        let (user, path) = (next.user, next.path);
        match next.to {
            Partner::Backend(backend) => {
                if let Ok(backend) = backend.await {
                    let backend: TokioIo<Upgraded> = TokioIo::new(backend);
                    socket::join(stream, backend, self.gateway.limits.silence).await;
                }
            }
            Partner::Handler(handler) => handler.serve(Socket { stream, user, path }).await,
            Partner::Link(place) => {
                place.send(Socket { stream, user, path });
            }
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Answer, Box<Answer>> {
        let target = Target::of(request.uri()).map_err(bad_target)?;
        check_once_only(&request)?;
        if target.path == "/health" {
            return Ok(health(request.method()));
        }
        let (mut parts, body) = request.into_parts();
        let way = self.find(&target.path, &parts.headers);
        let allowed = self.admit(&parts, target, &way)?;
        if let Some(redirect) = self.without_code(&parts, &allowed) {
            return Ok(redirect);
        }
        self.gateway.note_use(&allowed.admitted.user);
        let destination = match way {
            Way::To(destination) => destination,
            Way::Elsewhere(address) if address.contains('?') => {
                return Ok(answer::redirect(&address));
            }
            Way::Elsewhere(address) => {
                return Ok(answer::redirect(&allowed.target.address_at(&address)));
            }
            Way::Nowhere => return Err(refusal(StatusCode::NOT_FOUND, "Not found")),
        };
        let mut answer = if allowed.is_upgrade {
            self.upgrade(parts, body, destination, &allowed).await?
        } else {
            self.proxy(&mut parts, body, destination, &allowed).await?
        };
        if let Admission::Bearer(cookie) = &allowed.admitted.way
            && !allowed.is_upgrade
        {
            answer::set(&mut answer, header::SET_COOKIE, &cookie.header());
        }
        Ok(answer)
    }

    /// A path that no route knows may be one that a page of the only tunnel asks for.
    fn find(&self, path: &str, headers: &HeaderMap) -> Way {
        match self.gateway.routes.find(path) {
            Way::Nowhere if headers::is_from_own_page(headers) => {
                self.gateway.routes.find_only_tunnel(path)
            }
            way => way,
        }
    }

    fn admit(&self, parts: &Parts, target: Target, way: &Way) -> Result<Allowed, Box<Answer>> {
        let is_link = matches!(
            way,
            Way::To(Destination {
                end: End::Link(_),
                ..
            })
        );
        let now = self.gateway.now();
        let bearer = headers::bearer(&parts.headers);
        let shown = Shown {
            cookie: headers::our_cookie(&parts.headers),
            code: target.code.as_deref(),
            bearer,
            path: &target.path,
        };
        let mut guard = self.gateway.guard.borrow_mut();
        let admitted = if is_link {
            guard.admit_link(bearer, now)
        } else {
            guard.admit(shown, now, random)
        };
        let admitted = admitted.map_err(|denied| self.denied(denied, &target.path))?;
        self.is_admitted.set(true);
        let is_upgrade = headers::is_upgrade(&parts.headers) && parts.version == Version::HTTP_11;
        let is_state_changing =
            !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let is_checked = is_upgrade
            || is_state_changing && matches!(admitted.way, Admission::Cookie | Admission::Code(_));
        if is_checked && headers::is_foreign(&parts.headers, &self.gateway.origins) {
            self.gateway.tell(Notice::Foreign {
                path: shortened(&target.path),
            });
            return Err(refusal(StatusCode::FORBIDDEN, "Foreign origin"));
        }
        Ok(Allowed {
            admitted,
            target,
            is_upgrade,
        })
    }

    fn denied(&self, denied: Denied, path: &str) -> Box<Answer> {
        let peer = self.peer;
        let path = shortened(path);
        match denied {
            Denied::Missing => challenge("Missing token"),
            Denied::Invalid(why) => {
                let why = why.to_string();
                self.gateway.tell(Notice::Denied { peer, path, why });
                challenge("Invalid or expired token")
            }
            Denied::TooMany => {
                let mut answer = refusal(StatusCode::TOO_MANY_REQUESTS, "Too many bad tries");
                answer::set(&mut answer, header::RETRY_AFTER, "3");
                answer
            }
        }
    }

    /// Sends a browser to the same address without the code. A socket cannot follow, and goes on.
    fn without_code(&self, parts: &Parts, allowed: &Allowed) -> Option<Answer> {
        if allowed.is_upgrade {
            return None;
        }
        let target = &allowed.target;
        match &allowed.admitted.way {
            Admission::Code(cookie) => {
                let mut answer = answer::redirect(&target.address());
                answer::set(&mut answer, header::SET_COOKIE, &cookie.header());
                Some(answer)
            }
            Admission::Cookie if matches!(parts.method, Method::GET | Method::HEAD) => {
                let code = target.code.as_deref()?;
                let now = self.gateway.now();
                let mut guard = self.gateway.guard.borrow_mut();
                guard.discard(code, &target.path, now);
                Some(answer::redirect(&target.address()))
            }
            Admission::Cookie | Admission::Bearer(_) | Admission::Link => None,
        }
    }

    async fn proxy(
        &self,
        parts: &mut Parts,
        body: Incoming,
        destination: Destination,
        allowed: &Allowed,
    ) -> Result<Answer, Box<Answer>> {
        let Destination { end, prefix, path } = destination;
        let (port, authorization) = match end {
            End::Port(port) => (port, None),
            End::Agent(port, password) => {
                (port, Some(agent_authorization(password.borrow().as_ref())?))
            }
            End::Handler(handler) => {
                return Ok(handler.answer(&parts.method, &path).map(Content::of));
            }
            End::SocketPort(_) | End::Link(_) => return Err(upgrade_required()),
        };
        let hosts = headers::known_hosts(&parts.headers);
        headers::drop_hop_by_hop(&mut parts.headers);
        self.prepare(&mut parts.headers, port, &prefix, authorization);
        let request = self.request(parts, body, &allowed.target.address_at(&path))?;
        let response = self.send(port, request, self.gateway.limits.answer).await?;
        if response.status().is_informational() {
            // A switch that nobody asked for.
            return Err(refusal(StatusCode::BAD_GATEWAY, "The backend is confused"));
        }
        let (mut parts, body) = response.into_parts();
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::drop_set_of_our_cookie(&mut parts.headers);
        headers::move_location(&mut parts.headers, &prefix, port, &hosts);
        let body = Patient::new(body, self.gateway.limits.silence);
        Ok(Response::from_parts(parts, Content::Backend(body)))
    }

    async fn upgrade(
        &self,
        mut parts: Parts,
        body: Incoming,
        destination: Destination,
        allowed: &Allowed,
    ) -> Result<Answer, Box<Answer>> {
        if parts.method != Method::GET || !socket::is_handshake(&parts.headers) {
            let mut answer = refusal(StatusCode::BAD_REQUEST, "Not a WebSocket handshake");
            answer::set(&mut answer, header::SEC_WEBSOCKET_VERSION, "13");
            return Err(answer);
        }
        let Destination { end, prefix, path } = destination;
        let path = allowed.target.address_at(&path);
        let (port, authorization) = match end {
            End::Port(port) | End::SocketPort(port) => (port, None),
            End::Agent(port, password) => {
                (port, Some(agent_authorization(password.borrow().as_ref())?))
            }
            End::Handler(handler) => {
                let protocol = handler.protocol();
                let protocol = socket::offers(&parts.headers, protocol).then_some(protocol);
                let answer = switching(&parts.headers, protocol);
                self.expect(parts, Partner::Handler(handler), allowed, path);
                return answer;
            }
            End::Link(sockets) => {
                let place = sockets.try_reserve_owned().map_err(|_| link_busy())?;
                let answer = switching(&parts.headers, None);
                self.expect(parts, Partner::Link(place), allowed, path);
                return answer;
            }
        };
        let client = parts.extensions.remove::<OnUpgrade>();
        headers::drop_hop_by_hop(&mut parts.headers);
        put_upgrade(&mut parts.headers);
        self.prepare(&mut parts.headers, port, &prefix, authorization);
        let request = self.request(&mut parts, body, &path)?;
        let handshake = self.gateway.limits.handshake;
        let mut response = self.send(port, request, handshake).await?;
        let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let backend = hyper::upgrade::on(&mut response);
        let (mut answer, body) = response.into_parts();
        headers::drop_hop_by_hop(&mut answer.headers);
        headers::drop_set_of_our_cookie(&mut answer.headers);
        if !is_switching {
            let body = Patient::new(body, self.gateway.limits.silence);
            return Ok(Response::from_parts(answer, Content::Backend(body)));
        }
        put_upgrade(&mut answer.headers);
        if let Some(client) = client {
            parts.extensions.insert(client);
        }
        self.expect(parts, Partner::Backend(backend), allowed, path);
        Ok(Response::from_parts(answer, Content::NONE))
    }

    /// Keeps what the connection goes on as once its answer is written.
    fn expect(&self, mut parts: Parts, to: Partner, allowed: &Allowed, path: String) {
        let Some(client) = parts.extensions.remove::<OnUpgrade>() else {
            return;
        };
        let user = allowed.admitted.user.clone();
        self.next.replace(Some(Next {
            client,
            to,
            user,
            path,
        }));
    }

    /// Takes off what is ours and puts on what the backend is to know.
    fn prepare(
        &self,
        headers: &mut HeaderMap,
        port: u16,
        prefix: &str,
        authorization: Option<HeaderValue>,
    ) {
        headers::drop_our_cookie(headers);
        let guard = self.gateway.guard.borrow();
        if headers::bearer(headers).is_some_and(|token| guard.is_our_token(token)) {
            headers.remove(header::AUTHORIZATION);
        }
        if let Some(authorization) = authorization {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        headers::add_forwarded(headers, self.peer, prefix);
        // What a browser would send to it inside; servers refuse names that they do not know.
        let host = HeaderValue::try_from(format!("localhost:{port}"));
        headers.insert(header::HOST, host.expect("a name and a number"));
    }

    fn request(
        &self,
        parts: &mut Parts,
        body: Incoming,
        address: &str,
    ) -> Result<Request<Patient>, Box<Answer>> {
        // Both are said by the body itself, as it is sent.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::EXPECT);
        let uri: Uri = address
            .parse::<hyper::http::uri::PathAndQuery>()
            .map(Uri::from)
            .map_err(|_| refusal(StatusCode::BAD_REQUEST, "Not a path"))?;
        let mut request = Request::new(Patient::new(body, self.gateway.limits.body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = std::mem::take(&mut parts.headers);
        Ok(request)
    }

    async fn send(
        &self,
        port: u16,
        request: Request<Patient>,
        within: Duration,
    ) -> Result<Response<Incoming>, Box<Answer>> {
        self.gateway
            .backends
            .send(port, request, within)
            .await
            .map_err(|failure| self.failed(&failure))
    }

    fn failed(&self, failure: &BackendError) -> Box<Answer> {
        let message = failure.to_string();
        let status = match failure {
            BackendError::Request { .. } => return refusal(StatusCode::BAD_REQUEST, &message),
            BackendError::Down { .. } | BackendError::Broken { .. } => StatusCode::BAD_GATEWAY,
            BackendError::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
        };
        let answer = refusal(status, &message);
        self.gateway.tell(Notice::Backend { failure: message });
        answer
    }
}

/// What more than one of would let two servers read two requests.
const ONCE_ONLY: [HeaderName; 3] = [header::HOST, header::AUTHORIZATION, header::ORIGIN];

fn check_once_only(request: &Request<Incoming>) -> Result<(), Box<Answer>> {
    let headers = request.headers();
    for name in &ONCE_ONLY {
        if headers.get_all(name).iter().count() > 1 {
            let message = format!("More than one {name}");
            return Err(refusal(StatusCode::BAD_REQUEST, &message));
        }
    }
    if request.version() == Version::HTTP_11 && !headers.contains_key(header::HOST) {
        return Err(refusal(StatusCode::BAD_REQUEST, "No host"));
    }
    Ok(())
}

fn health(method: &Method) -> Answer {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return answer::error(StatusCode::METHOD_NOT_ALLOWED, "Only to be read");
    }
    let health = serde_json::json!({ "status": "ok", "service": "gateway" });
    answer::json(StatusCode::OK, &health)
}

fn agent_authorization(password: Option<&Secret>) -> Result<HeaderValue, Box<Answer>> {
    let Some(password) = password else {
        return Err(refusal(StatusCode::BAD_GATEWAY, "The agent is not running"));
    };
    let pair = format!("{AGENT_USER}:{}", password.expose());
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .expect("base64 is plain text");
    value.set_sensitive(true);
    Ok(value)
}

/// Whom the agent's server knows.
const AGENT_USER: &str = "opencode";

fn switching(headers: &HeaderMap, protocol: Option<&str>) -> Result<Answer, Box<Answer>> {
    let mut answer = Response::new(Content::NONE);
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    put_upgrade(answer.headers_mut());
    let accept = socket::accept(headers)
        .ok_or_else(|| refusal(StatusCode::BAD_REQUEST, "Not a WebSocket handshake"))?;
    answer
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol {
        answer::set(&mut answer, header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(answer)
}

fn put_upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

fn upgrade_required() -> Box<Answer> {
    let mut answer = refusal(StatusCode::UPGRADE_REQUIRED, "Only for WebSockets");
    put_upgrade(answer.headers_mut());
    answer
}

/// Nobody takes the sockets that came before.
fn link_busy() -> Box<Answer> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "The link is busy")
}

fn bad_target(bad: BadTarget) -> Box<Answer> {
    let status = match bad {
        BadTarget::TooLong => StatusCode::URI_TOO_LONG,
        BadTarget::NotAPath | BadTarget::Ambiguous => StatusCode::BAD_REQUEST,
    };
    refusal(status, &bad.to_string())
}

fn challenge(message: &str) -> Box<Answer> {
    let mut answer = refusal(StatusCode::UNAUTHORIZED, message);
    answer::set(&mut answer, header::WWW_AUTHENTICATE, "Bearer");
    answer
}

fn refusal(status: StatusCode, message: &str) -> Box<Answer> {
    Box::new(answer::error(status, message))
}

/// For a log line.
fn shortened(path: &str) -> String {
    path.chars().take(100).collect()
}

impl Gateway {
    /// Somebody uses the sandbox. Our own probes do not.
    fn note_use(&self, user: &str) {
        if user != PROBE {
            let now = Some(self.clock.now());
            self.used
                .send_if_modified(|used| std::mem::replace(used, now) != now);
        }
    }
}
