//! To where a request leads, and back.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};

use super::answer::{self, Answer, Content, Refusal, refusal};
use super::backends::BackendError;
use super::patience::Patient;
use super::routes::{Backend, Destination, End, Takes, Way};
use super::visit::{Allowed, Next, Partner, Visit};
use super::{Notice, headers, socket};

/// Whom the agent's server knows.
const AGENT_USER: &str = "opencode";

impl Visit {
    pub(super) async fn lead(
        &self,
        parts: Parts,
        body: Incoming,
        way: Way,
        allowed: &Allowed,
    ) -> Result<Answer, Refusal> {
        let destination = match way {
            Way::To(destination) => destination,
            Way::WithSlash(path) => return Ok(answer::redirect(&allowed.target.address_at(&path))),
            Way::Index(address) => return Ok(answer::redirect(&address)),
            Way::Nowhere => return Err(refusal(StatusCode::NOT_FOUND, "Not found")),
        };
        if allowed.is_upgrade {
            return self.upgrade(parts, body, destination, allowed).await;
        }
        let Destination { end, prefix, path } = destination;
        match end {
            End::Backend(backend) if backend.takes == Takes::Everything => {
                let address = allowed.target.address_at(&path);
                self.proxy(parts, body, &backend, &prefix, &address).await
            }
            End::Handler(handler) => Ok(handler.answer(&parts.method, &path).map(Content::of)),
            End::Backend(_) | End::Link(_) => Err(answer::upgrade_required()),
        }
    }

    async fn proxy(
        &self,
        mut parts: Parts,
        body: Incoming,
        backend: &Backend,
        prefix: &str,
        address: &str,
    ) -> Result<Answer, Refusal> {
        let hosts = headers::known_hosts(&parts.headers);
        headers::drop_hop_by_hop(&mut parts.headers);
        self.prepare(&mut parts.headers, backend, prefix)?;
        let request = self.request(parts, body, address)?;
        let within = self.gateway.limits.answer;
        let response = self.send(backend.port, request, within).await?;
        if response.status().is_informational() {
            let message = "The backend switches and was not asked to";
            return Err(refusal(StatusCode::BAD_GATEWAY, message));
        }
        let mut answer = self.take_over(response);
        headers::move_location(answer.headers_mut(), prefix, backend.port, &hosts);
        Ok(answer)
    }

    async fn upgrade(
        &self,
        mut parts: Parts,
        body: Incoming,
        destination: Destination,
        allowed: &Allowed,
    ) -> Result<Answer, Refusal> {
        let client = parts.extensions.remove::<OnUpgrade>();
        let is_handshake = parts.method == Method::GET && socket::is_handshake(&parts.headers);
        let client = client
            .filter(|_| is_handshake)
            .ok_or_else(answer::no_handshake)?;
        let Destination { end, prefix, path } = destination;
        let path = allowed.target.address_at(&path);
        let (answer, to) = match end {
            End::Backend(backend) => {
                let response = self
                    .shake_hands(parts, body, &backend, &prefix, &path)
                    .await?;
                match response {
                    Shaken::Agreed(answer, backend) => (answer, Partner::Backend(backend)),
                    Shaken::Refused(answer) => return Ok(answer),
                }
            }
            End::Handler(handler) => {
                let protocol = handler.protocol();
                let is_offered = socket::offers(&parts.headers, protocol);
                let answer = answer::switch(&parts.headers, is_offered.then_some(protocol))?;
                (answer, Partner::Handler(handler))
            }
            End::Link(sockets) => {
                // Nobody takes those that came before.
                let busy = |_| refusal(StatusCode::SERVICE_UNAVAILABLE, "The link is busy");
                let place = sockets.try_reserve_owned().map_err(busy)?;
                let answer = answer::switch(&parts.headers, None)?;
                (answer, Partner::Link(place))
            }
        };
        let user = allowed.admitted.user.clone();
        self.next.replace(Some(Next {
            client,
            to,
            user,
            path,
        }));
        Ok(answer)
    }

    /// The client's handshake, word for word: what the backend agrees to, the client gets to see.
    async fn shake_hands(
        &self,
        mut parts: Parts,
        body: Incoming,
        backend: &Backend,
        prefix: &str,
        address: &str,
    ) -> Result<Shaken, Refusal> {
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::put_upgrade(&mut parts.headers);
        self.prepare(&mut parts.headers, backend, prefix)?;
        let request = self.request(parts, body, address)?;
        let within = self.gateway.limits.handshake;
        let mut response = self.send(backend.port, request, within).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Shaken::Refused(self.take_over(response)));
        }
        let backend = hyper::upgrade::on(&mut response);
        let mut answer = self.take_over(response).map(|_| Content::NONE);
        headers::put_upgrade(answer.headers_mut());
        Ok(Shaken::Agreed(answer, backend))
    }

    /// Takes off what is ours and puts on what the backend is to know.
    pub(super) fn prepare(
        &self,
        headers: &mut HeaderMap,
        backend: &Backend,
        prefix: &str,
    ) -> Result<(), Refusal> {
        headers::drop_our_cookie(headers);
        let guard = self.gateway.guard.borrow();
        if headers::bearer(headers).is_some_and(|token| guard.is_our_token(token)) {
            headers.remove(header::AUTHORIZATION);
        }
        if let Some(authorization) = authorization(backend)? {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        headers::add_forwarded(headers, self.peer, prefix);
        // What a browser would send to it inside; servers refuse names that they do not know.
        let host = HeaderValue::try_from(format!("localhost:{}", backend.port));
        headers.insert(header::HOST, host.expect("a name and a number"));
        Ok(())
    }

    fn request(
        &self,
        mut parts: Parts,
        body: Incoming,
        address: &str,
    ) -> Result<Request<Patient>, Refusal> {
        // Both are said by the body itself, as it is sent.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::EXPECT);
        let path: PathAndQuery = address
            .parse()
            .map_err(|_| refusal(StatusCode::BAD_REQUEST, "Not a path"))?;
        let mut request = Request::new(Patient::new(body, self.gateway.limits.body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = Uri::from(path);
        *request.headers_mut() = parts.headers;
        Ok(request)
    }

    async fn send(
        &self,
        port: u16,
        request: Request<Patient>,
        within: Duration,
    ) -> Result<Response<Incoming>, Refusal> {
        let sent = self.gateway.backends.send(port, request, within).await;
        sent.map_err(|failure| self.failed(&failure))
    }

    pub(super) fn failed(&self, failure: &BackendError) -> Refusal {
        let message = failure.to_string();
        let status = match failure {
            BackendError::Request { .. } => return refusal(StatusCode::BAD_REQUEST, &message),
            BackendError::Down { .. }
            | BackendError::Broken { .. }
            | BackendError::Silent { .. } => StatusCode::BAD_GATEWAY,
            BackendError::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
        };
        let answer = refusal(status, &message);
        self.gateway.tell(Notice::Backend { failure: message });
        answer
    }

    /// A backend's answer as it may go on to the client.
    fn take_over(&self, response: Response<Incoming>) -> Answer {
        let (mut parts, body) = response.into_parts();
        headers::drop_hop_by_hop(&mut parts.headers);
        headers::drop_set_of_our_cookie(&mut parts.headers);
        let body = Patient::new(body, self.gateway.limits.silence);
        Response::from_parts(parts, Content::Backend(body))
    }
}

enum Shaken {
    Agreed(Answer, OnUpgrade),
    /// With an answer of its own.
    Refused(Answer),
}

/// The password, for the one backend that has one.
fn authorization(backend: &Backend) -> Result<Option<HeaderValue>, Refusal> {
    let Some(password) = &backend.password else {
        return Ok(None);
    };
    let password = password.borrow();
    let Some(password) = password.as_ref() else {
        return Err(refusal(StatusCode::BAD_GATEWAY, "The agent is not running"));
    };
    let pair = format!("{AGENT_USER}:{}", password.expose());
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .expect("base64 is plain text");
    value.set_sensitive(true);
    Ok(Some(value))
}
