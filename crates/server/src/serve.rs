//! Connections: read strictly, answered by the router, told to go elsewhere when the server ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use ::metrics::counter;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_user_timeout};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::app::{App, Parts};
use crate::problem::Problem;
use crate::request::Asked;
use crate::roles::{self, Role};
use crate::{body, housekeeping, metrics, once, page, public_doors, routes, standing};

/// For a head to come whole.
const HEAD: Duration = Duration::from_secs(10);
const HEADERS: usize = 100;
const HEAD_BYTES: usize = 32 << 10;
/// In milliseconds.
const GONE: u32 = 45_000;
const CONNECTIONS: usize = 20_000;

/// The server's description, as JSON.
pub fn openapi() -> String {
    let (_, described) = routes::all();
    let mut text = described.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Ready to take connections.
#[derive(Debug, Clone)]
pub struct Front {
    app: App,
    router: Router,
}

impl Front {
    pub fn new(parts: Parts) -> Self {
        metrics::start();
        let app = App::new(parts);
        let (router, described) = routes::all();
        let described = described.to_json().unwrap_or_default();
        let router = router
            .route_layer(middleware::from_fn_with_state(app.clone(), once::deed))
            .route(
                "/openapi.json",
                axum::routing::get(async move || {
                    ([(header::CONTENT_TYPE, "application/json")], described)
                }),
            )
            .merge(public_doors::routes())
            .fallback(async |State(app): State<App>, request: Request| {
                page::answer(&app.parts.address, &request.into_parts().0)
            })
            .method_not_allowed_fallback(async || {
                Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "method-not-allowed",
                    "this cannot be done to it: see /openapi.json",
                )
            })
            .layer(DefaultBodyLimit::max(body::USUAL))
            .layer(middleware::from_fn_with_state(app.clone(), roles::check))
            .layer(middleware::from_fn(metrics::count))
            .layer(middleware::from_fn_with_state(app.clone(), host_is_ours))
            .layer(middleware::map_response(harmless))
            .with_state(app.clone());
        Self { app, router }
    }

    /// Takes away what is over and sends away who may not be here, until it is told to stop.
    pub async fn keep_house(&self, stop: CancellationToken) {
        let tidying = async {
            if self.app.parts.roles.worker {
                housekeeping::keep(&self.app, stop.clone()).await;
            }
        };
        // Whoever has sockets open looks after them.
        tokio::join!(tidying, standing::keep(&self.app, stop.clone()));
    }

    /// Takes away files that nobody knows of.
    pub async fn sweep_files(&self) {
        housekeeping::sweep(&self.app).await;
    }

    /// Until it is told to stop; then connections may finish what they are at.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) {
        let room = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = std::sync::Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: some will be free soon.
                    tracing::warn!(%error, "a connection was not taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            // One that takes nothing more, or is gone without a word, ends.
            let _ = set_tcp_user_timeout(&stream, GONE);
            let _ = set_socket_keepalive(&stream, true);
            let (front, stop) = (self.clone(), stop.clone());
            self.app.tasks().spawn(async move {
                front.connection(TokioIo::new(stream), peer, stop).await;
                drop(place);
            });
        }
    }

    async fn connection(
        &self,
        stream: TokioIo<tokio::net::TcpStream>,
        peer: SocketAddr,
        stop: CancellationToken,
    ) {
        let answer = service_fn(|request: hyper::Request<Incoming>| {
            let front = self.clone();
            async move { Ok::<_, Infallible>(front.answer(request, peer).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(stream, answer)
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended badly");
        }
    }
}

impl Front {
    async fn answer(&self, request: hyper::Request<Incoming>, peer: SocketAddr) -> Response {
        let asked = Asked::new(self.app.clock(), request.headers(), request.method());
        asked
            .answered(Box::pin(self.find_answer(request, peer)))
            .await
    }

    /// A preview by its name, all else by its route.
    async fn find_answer(
        &self,
        mut request: hyper::Request<Incoming>,
        peer: SocketAddr,
    ) -> Response {
        let is_preview = host(request.headers()).is_some_and(|host| self.app.site().is_below(host));
        if is_preview && !self.app.parts.roles.gateway {
            return roles::refusal(Role::Gateway).into_response();
        }
        if is_preview {
            let answer = self.app.previews().answer(request, peer.ip()).await;
            let status = answer.status().as_u16().to_string();
            counter!("nacre_preview_requests_total", "status" => status).increment(1);
            return answer.map(Body::new);
        }
        request.extensions_mut().insert(peer);
        let answer = self.router.clone().oneshot(request.map(Body::new)).await;
        answer.unwrap_or_else(|never| match never {})
    }

    /// Tells everybody who is connected to come again.
    pub async fn shut_down(&self) {
        self.app.stopping().cancel();
        self.app.gateway().shut_down().await;
        self.app.tasks().close();
        self.app.tasks().wait().await;
    }

    /// Until what sandboxes used is written down: once they are let go.
    pub async fn flush(&self) {
        self.app.parts.outside.flush().await;
    }
}

/// A page elsewhere that leads its own name to our address gets nothing.
async fn host_is_ours(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = host(request.headers());
    if !host.is_some_and(|host| app.parts.address.is_ours(host)) {
        return Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "foreign-host",
            "this server does not go by that name: add it to `server.hosts`",
        )
        .into_response();
    }
    next.run(request).await
}

fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// No answer of ours is taken for a page of somebody else's.
async fn harmless(mut response: Response) -> Response {
    const ALWAYS: [(HeaderName, &str); 4] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}
