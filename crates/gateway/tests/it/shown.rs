//! A session with programs in its sandbox, and a browser.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use nacre_gateway::preview::{
    Access, Address, Admitted, Credential, NewCookie, Previews, Refusal, Target,
};
use nacre_gateway::{Body, Settings};
use sessions::Handle;
use tokio::io::DuplexStream;
use tokio_util::task::TaskTracker;

use crate::world::{World, site};

pub(crate) const COOKIE: &str = "__Host-nacre-preview=good";
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

/// Takes the cookie `good`, the cookie `looks`, which wakes nobody, and, once, the code `once`.
#[derive(Debug, Default)]
struct Keys {
    used: Mutex<bool>,
    /// Nothing is good any more.
    are_changed: Mutex<bool>,
}

#[async_trait]
impl Access for Keys {
    async fn admit(&self, _: Address, by: &Credential, _: IpAddr) -> Result<Admitted, Refusal> {
        let mut admitted = Admitted {
            user: "usr_ada".to_owned(),
            wakes: true,
            cookie: None,
        };
        if *self.are_changed.lock().unwrap() {
            return Err(Refusal::Unknown);
        }
        match by {
            Credential::Cookie(value) if value == "good" => Ok(admitted),
            Credential::Cookie(value) if value == "looks" => {
                admitted.wakes = false;
                Ok(admitted)
            }
            Credential::Code(code) if code == "once" => {
                if std::mem::replace(&mut *self.used.lock().unwrap(), true) {
                    return Err(Refusal::Unknown);
                }
                admitted.cookie = Some(NewCookie {
                    value: "good".to_owned(),
                    lasts: Duration::from_mins(1),
                });
                Ok(admitted)
            }
            _ => Err(Refusal::Unknown),
        }
    }
}

pub(crate) struct Shown {
    pub(crate) world: World,
    keys: Arc<Keys>,
    pub(crate) previews: Previews,
    pub(crate) handle: Handle,
}

impl Shown {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::usual()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let world = World::with(settings).await;
        let handle = world.running().await;
        let keys = Arc::<Keys>::default();
        let previews = Previews::new(world.gateway.clone(), site(), Arc::clone(&keys) as _);
        Self {
            world,
            keys,
            previews,
            handle,
        }
    }

    /// From now on nobody is let in.
    pub(crate) fn change_the_keys(&self) {
        *self.keys.are_changed.lock().unwrap() = true;
        self.previews.look_again();
    }

    pub(crate) fn host(&self, target: Target) -> String {
        let origin = site().origin(target, self.handle.session());
        origin.strip_prefix("http://").unwrap().to_owned()
    }

    /// A program in the sandbox.
    pub(crate) async fn program<S>(&mut self, port: u16, answer: S)
    where
        S: Fn(Request<Incoming>) -> Response<Body> + Clone + Send + Sync + 'static,
    {
        let place = self.handle.seen().borrow().place.unwrap();
        let listener = self.world.fake.listen(place.sandbox, port).await;
        let mut listener = listener.unwrap();
        self.world.tasks.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Some(stream) = listener.accept().await {
                let answer = answer.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let response = answer(request);
                        async { Ok::<_, Infallible>(response) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades()
                        .await;
                });
            }
        });
    }

    pub(crate) fn request(&self, target: Target, path: &str) -> hyper::http::request::Builder {
        Request::builder()
            .uri(path)
            .header("host", self.host(target))
    }

    pub(crate) async fn get(&self, target: Target, path: &str) -> Response<Body> {
        let request = self.request(target, path).header("cookie", COOKIE);
        self.send(request.body(nothing()).unwrap()).await
    }

    pub(crate) async fn send<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.previews.answer(request, PEER).await
    }

    /// A connection to a server of previews.
    pub(crate) fn connect(&mut self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let previews = self.previews.clone();
        self.world.tasks.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let previews = previews.clone();
                async move { Ok::<_, Infallible>(previews.answer(request, PEER).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(theirs), service)
                .with_upgrades()
                .await;
        });
        ours
    }
}

pub(crate) fn nothing() -> Full<Bytes> {
    Full::default()
}

pub(crate) fn body(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

pub(crate) async fn text(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Says what it was asked.
pub(crate) fn echo(request: &Request<Incoming>) -> Response<Body> {
    let mut seen = vec![format!("{} {}", request.method(), request.uri())];
    for (name, value) in request.headers() {
        seen.push(format!("{name}: {}", value.to_str().unwrap()));
    }
    Response::builder()
        .header("set-cookie", "__Host-nacre-preview=mine; Path=/")
        .header("set-cookie", "theirs=1; Domain=preview.nacre.localhost")
        .body(body(seen.join("\n")))
        .unwrap()
}

/// Agrees to be a WebSocket, and says back what it hears.
pub(crate) fn socket_echo(mut request: Request<Incoming>) -> Response<Body> {
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
    let key = request.headers()["sec-websocket-key"].as_bytes().to_vec();
    let upgrade = hyper::upgrade::on(&mut request);
    let task = async move {
        let stream = TokioIo::new(upgrade.await.unwrap());
        let role = tokio_tungstenite::tungstenite::protocol::Role::Server;
        let socket = tokio_tungstenite::WebSocketStream::from_raw_socket(stream, role, None);
        let (mut to, mut from) = socket.await.split();
        while let Some(Ok(message)) = from.next().await {
            if to.send(message).await.is_err() {
                break;
            }
        }
    };
    // It goes on for as long as the test.
    drop(TaskTracker::new().spawn(task));
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", derive_accept_key(&key))
        .body(body(""))
        .unwrap()
}
