//! One request's way through the gateway: what it asks for, who asks, and whether a page of ours
//! does. What follows is in [`super::forward`].

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, StatusCode, Version};
use hyper_util::rt::TokioIo;
use model::SignedDuration;
use tokio::sync::mpsc;
use wire::keys::token::PROBE;

use super::answer::{self, Answer, Refusal, refusal};
use super::guard::{Admitted, Denied, Shown, Way as Admission};
use super::routes::{End, Handler, Way};
use super::socket::{self, Socket};
use super::target::{BadTarget, Target};
use super::{Gateway, Notice, headers, random};

/// A client's connection, over which it makes its requests.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) gateway: Rc<Gateway>,
    pub(super) peer: IpAddr,
    is_admitted: Cell<bool>,
    /// What becomes of the connection once its handshake is done.
    pub(super) next: RefCell<Option<Next>>,
}

#[derive(Debug)]
pub(super) struct Next {
    pub(super) client: OnUpgrade,
    pub(super) to: Partner,
    pub(super) user: String,
    pub(super) path: String,
}

#[derive(Debug)]
pub(super) enum Partner {
    Backend(OnUpgrade),
    Handler(Rc<dyn Handler>),
    /// With a place kept for it.
    Link(mpsc::OwnedPermit<Socket>),
}

/// A request that may go on.
#[derive(Debug)]
pub(super) struct Allowed {
    pub(super) admitted: Admitted,
    pub(super) target: Target,
    pub(super) is_upgrade: bool,
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

    pub(super) fn let_in(&self, user: &str) {
        self.is_admitted.set(true);
        self.gateway.note_use(user);
    }

    /// A service of hyper's may fail; ours answers.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let answer = self.respond(request).await;
        Ok(answer.unwrap_or_else(|refusal| *refusal))
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
                    let silence = self.gateway.limits.silence;
                    socket::join(stream, TokioIo::new(backend), silence).await;
                }
            }
            Partner::Handler(handler) => handler.serve(Socket { stream, user, path }).await,
            Partner::Link(place) => {
                place.send(Socket { stream, user, path });
            }
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let target = Target::of(request.uri()).map_err(bad_target)?;
        check_once_only(request.headers(), request.version())?;
        if target.path == "/health" {
            return Ok(answer::health(request.method()));
        }
        let (parts, body) = request.into_parts();
        let way = self.find(&target.path, &parts.headers);
        let allowed = self.admit(&parts, target, &way)?;
        if let Some(redirect) = self.without_code(&parts, &allowed) {
            return Ok(redirect);
        }
        self.gateway.note_use(&allowed.admitted.user);
        let led = self.lead(parts, body, way, &allowed).await;
        let mut answer = led.unwrap_or_else(|refusal| *refusal);
        if let Admission::Bearer(cookie) = &allowed.admitted.way
            && !allowed.is_upgrade
        {
            answer::add(&mut answer, header::SET_COOKIE, &cookie.header());
        }
        Ok(answer)
    }

    /// A path that no route knows may be one that a page of the only tunnel or of the preview asks
    /// for.
    pub(super) fn find(&self, path: &str, headers: &HeaderMap) -> Way {
        match self.gateway.routes.find(path) {
            Way::Nowhere if headers::is_from_own_page(headers) => {
                self.gateway.routes.find_for_own_page(path)
            }
            way => way,
        }
    }

    fn admit(&self, parts: &Parts, target: Target, way: &Way) -> Result<Allowed, Refusal> {
        let now = self.gateway.now();
        let bearer = headers::bearer(&parts.headers);
        let shown = Shown {
            cookie: headers::our_cookie(&parts.headers),
            code: target.code.as_deref(),
            bearer,
            path: &target.path,
        };
        let mut guard = self.gateway.guard.borrow_mut();
        let admitted = match way {
            Way::To(to) if matches!(to.end, End::Link(_)) => guard.admit_link(bearer, now),
            _ => guard.admit(shown, now, random),
        };
        let admitted = admitted.map_err(|denied| self.denied(denied, &target.path))?;
        self.is_admitted.set(true);
        let is_upgrade = headers::is_upgrade(&parts.headers) && parts.version == Version::HTTP_11;
        let is_change = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        // A browser sends cookies along whichever page wants the request, and a careless backend
        // may let that page read the answer. Only links and pictures come without an origin.
        let is_by_cookie = !matches!(admitted.way, Admission::Bearer(_));
        let has_origin = parts.headers.contains_key(header::ORIGIN);
        let is_checked = is_upgrade || is_by_cookie && (is_change || has_origin);
        if is_checked && headers::is_foreign(&parts.headers, &self.gateway.origins.list()) {
            let path = shortened(&target.path);
            self.gateway.tell(Notice::Foreign { path });
            return Err(refusal(StatusCode::FORBIDDEN, "Foreign origin"));
        }
        Ok(Allowed {
            admitted,
            target,
            is_upgrade,
        })
    }

    fn denied(&self, denied: Denied, path: &str) -> Refusal {
        match denied {
            Denied::Missing => answer::challenge("Missing token"),
            Denied::Invalid(why) => {
                self.gateway.tell(Notice::Denied {
                    peer: self.peer,
                    path: shortened(path),
                    why: why.to_string(),
                });
                answer::challenge("Invalid or expired token")
            }
            Denied::TooMany => answer::too_many_tries(),
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
                answer::add(&mut answer, header::SET_COOKIE, &cookie.header());
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
}

impl Gateway {
    /// Somebody uses the sandbox. Our own probes do not.
    fn note_use(&self, user: &str) {
        if user != PROBE {
            let now = self.clock.now();
            self.used.send_if_modified(|used| {
                // Whoever waits for it counts in minutes, and is not woken for every request.
                let is_news = used.is_none_or(|used| now.duration_since(used) >= A_WHILE);
                if is_news {
                    *used = Some(now);
                }
                is_news
            });
        }
    }
}

const A_WHILE: SignedDuration = SignedDuration::from_secs(1);

/// What more than one of would let two servers read two requests.
const ONCE_ONLY: [HeaderName; 3] = [header::HOST, header::AUTHORIZATION, header::ORIGIN];

pub(super) fn check_once_only(headers: &HeaderMap, version: Version) -> Result<(), Refusal> {
    for name in &ONCE_ONLY {
        if headers.get_all(name).iter().count() > 1 {
            let message = format!("More than one {name}");
            return Err(refusal(StatusCode::BAD_REQUEST, &message));
        }
    }
    if version == Version::HTTP_11 && !headers.contains_key(header::HOST) {
        return Err(refusal(StatusCode::BAD_REQUEST, "No host"));
    }
    Ok(())
}

fn bad_target(bad: BadTarget) -> Refusal {
    let status = match bad {
        BadTarget::TooLong => StatusCode::URI_TOO_LONG,
        BadTarget::NotAPath | BadTarget::Ambiguous => StatusCode::BAD_REQUEST,
    };
    refusal(status, &bad.to_string())
}

/// For a log line.
fn shortened(path: &str) -> String {
    path.chars().take(100).collect()
}
