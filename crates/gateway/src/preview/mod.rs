//! What runs in a sandbox, shown to browsers: each port, and the editor, the desktop and the
//! terminal, at an origin of its own.
//!
//! Everything behind a preview is hostile: it sees neither what lets people in here nor anything of
//! another preview, and what it answers changes nothing of ours.

mod access;
mod backends;
mod headers;
mod page;
mod site;
mod visit;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use model::{Id, Session};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use access::{Access, Admitted, Credential, NewCookie, Refusal};
pub use site::{Address, NotAnAddress, Site, Target};

use self::backends::Backends;
use self::page::page;
use self::visit::Visit;
use crate::answer::Body;
use crate::{Gateway, join};

/// What is shown of sandboxes, to those whom [`Access`] lets in.
#[derive(Debug, Clone)]
pub struct Previews(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    gateway: Gateway,
    site: Site,
    access: Arc<dyn Access>,
    backends: Backends,
    /// How many more may visit each session at once.
    room: Mutex<HashMap<Id<Session>, Arc<Semaphore>>>,
    /// Changes when somebody may have lost the right to be here.
    changed: watch::Sender<()>,
}

impl Previews {
    pub fn new(gateway: Gateway, site: Site, access: Arc<dyn Access>) -> Self {
        Self(Arc::new(Shared {
            backends: Backends::new(gateway.0.tasks.clone(), gateway.0.stop.clone()),
            gateway,
            site,
            access,
            room: Mutex::default(),
            changed: watch::Sender::new(()),
        }))
    }

    /// Asks again for everybody who has a socket open whether they may: now, and not when they are
    /// asked next.
    pub fn look_again(&self) {
        self.0.changed.send_replace(());
    }

    pub fn site(&self) -> &Site {
        &self.0.site
    }

    /// Answers a request whose `Host` is below the previews' domain.
    pub async fn answer<B>(&self, mut request: Request<B>, peer: IpAddr) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let shared = &self.0;
        let host = headers::host(&request);
        let Some(address) = host.and_then(|host| shared.site.address(&host)) else {
            return page(StatusCode::NOT_FOUND, "No preview has this name.");
        };
        if let Some(code) = access::code_in(request.uri()) {
            return self.exchange(&request, address, &code, peer).await;
        }
        let (admitted, shown) = match self.admit(request.headers(), address, peer).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refusal.page(),
        };
        // A browser sends its cookie along for any page's sake.
        let is_upgrade = join::is_upgrade(request.headers());
        let changes = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
        if (is_upgrade || changes) && headers::is_foreign(request.headers()) {
            let message = "This was asked for by a page of another origin.";
            return page(StatusCode::FORBIDDEN, message);
        }
        let Some(room) = shared.enter(address.session) else {
            let message = "Too much is on its way to this session. Try again in a moment.";
            return page(StatusCode::SERVICE_UNAVAILABLE, message);
        };
        let client = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let visit = Visit {
            shared: Arc::clone(shared),
            address,
            user: admitted.user,
            wakes: admitted.wakes,
            shown,
            peer,
            room,
        };
        let mut response = visit.lead(request, client).await;
        headers::guard(response.headers_mut());
        response
    }

    /// A code lets in once; then the cookie does, and the code is in no address any more.
    async fn exchange<B>(
        &self,
        request: &Request<B>,
        address: Address,
        code: &Credential,
        peer: IpAddr,
    ) -> Response<Body> {
        let admitted = self.0.access.admit(address, code, peer).await;
        let cookie = match admitted {
            Ok(Admitted {
                cookie: Some(cookie),
                ..
            }) => cookie,
            // One who came by an old link may be here already.
            _ if self.admit(request.headers(), address, peer).await.is_ok() => {
                return redirect(&access::without_code(request.uri()));
            }
            Ok(_) => return Refusal::Unknown.page(),
            Err(refusal) => return refusal.page(),
        };
        let mut response = redirect(&access::without_code(request.uri()));
        if let Some(value) = headers::set_cookie(&self.0.site, &cookie) {
            response.headers_mut().insert(header::SET_COOKIE, value);
        }
        response
    }

    /// By any of the cookies of our name: a page may have planted one beside ours.
    async fn admit(
        &self,
        headers: &hyper::HeaderMap,
        address: Address,
        peer: IpAddr,
    ) -> Result<(Admitted, Credential), Refusal> {
        let mut refused = Refusal::SignIn;
        for value in headers::our_cookies(headers, &self.0.site) {
            let cookie = Credential::Cookie(value);
            match self.0.access.admit(address, &cookie, peer).await {
                Ok(admitted) => return Ok((admitted, cookie)),
                Err(refusal) => refused = refusal,
            }
        }
        Err(refused)
    }
}

impl Shared {
    fn enter(&self, session: Id<Session>) -> Option<OwnedSemaphorePermit> {
        let most = self.gateway.0.settings.visits;
        let mut room = self.room.lock().expect("no holder of this lock panics");
        if room.len() > 1024 {
            room.retain(|_, left| left.available_permits() < most);
        }
        let left = room
            .entry(session)
            .or_insert_with(|| Arc::new(Semaphore::new(most)));
        Arc::clone(left).try_acquire_owned().ok()
    }
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = page(StatusCode::FOUND, "You are being led on.");
    let headers = response.headers_mut();
    if let Ok(location) = HeaderValue::from_str(to) {
        headers.insert(header::LOCATION, location);
    }
    let nobody = HeaderValue::from_static("no-referrer");
    headers.insert(header::REFERRER_POLICY, nobody);
    response
}
