//! A client's socket: everything that a session tells, and everything that it can be asked.
//!
//! One task for each. It holds what is on its way to its client and nothing more: a client that
//! takes nothing loses its place in the feed, and begins anew when it takes again.

mod client;
mod hear;
mod out;
mod pace;
mod words;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use telemetry::Context;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::Instrument as _;

use self::client::Client;
use crate::answer::{Body, full, problem};
use crate::deeds::Deeds;
use crate::direct::{Closing, Direct, Plain};
use crate::fanout::Seat;
use crate::{Gateway, Refusal, Watched, join, traceparent};

pub(crate) use self::words::about;

/// For the connection to become a socket.
const UPGRADE: Duration = Duration::from_secs(10);

impl Gateway {
    /// Answers the handshake of a client that was let in, and serves its socket.
    pub async fn socket<B>(&self, request: &mut Request<B>, watched: Watched) -> Response<Body> {
        if !join::is_handshake(request.headers()) {
            return problem(&join::not_a_socket());
        }
        if self.0.stop.is_cancelled() {
            let message = "the server is shutting down: come again";
            return problem(&Refusal::later("shutting-down", message));
        }
        let place = match self.place() {
            Ok(place) => place,
            Err(refusal) => return problem(&refusal),
        };
        let seat = match self.take_seat(watched.session, &watched.caller).await {
            Ok(seat) => seat,
            Err(error) => return problem(&error.into()),
        };
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        join::put_upgrade(response.headers_mut());
        let accept = join::accept(request.headers()).unwrap_or(HeaderValue::from_static(""));
        let headers = response.headers_mut();
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        let upgrade = hyper::upgrade::on(&mut *request);
        let gateway = self.clone();
        let context = Context {
            request: telemetry::current().request,
            // Each frame is a trace of its own, unless the client has one: a socket lives for days.
            trace: traceparent(request.headers()),
        };
        let serving = async move {
            let _place = place;
            let Ok(Ok(upgraded)) = timeout(UPGRADE, upgrade).await else {
                return;
            };
            // A plain connection is used as such: nothing stands between it and the frames.
            match upgraded.downcast::<TokioIo<TcpStream>>() {
                Ok(parts) => {
                    let stream = parts.io.into_inner();
                    let _ = stream.set_nodelay(true);
                    let read = parts.read_buf;
                    gateway.serve_tcp(stream, &read, watched, seat).await;
                }
                Err(upgraded) => {
                    let (reader, writer) = tokio::io::split(TokioIo::new(upgraded));
                    gateway.serve(reader, writer, &[], watched, seat).await;
                }
            }
        };
        let serving = serving.instrument(tracing::Span::current());
        self.0.tasks.spawn(telemetry::within(context, serving));
        response
    }

    /// The same as [`serve`](Self::serve), and quicker: who waits is written to by the feed.
    pub async fn serve_tcp(&self, stream: TcpStream, read: &[u8], watched: Watched, seat: Seat) {
        let stream = Arc::new(stream);
        let direct = Arc::new(Direct::new(Arc::clone(&stream)));
        let (reader, writer) = (Plain(Arc::clone(&stream)), Plain(stream));
        let client = self.client(&watched, &seat, read, Some(Arc::clone(&direct)));
        let _closing = Closing(direct);
        client.live(reader, writer, watched.resume).await;
    }

    /// Serves a socket after its handshake; `read` came with it. Returns when the client is gone.
    pub async fn serve<R, W>(&self, reader: R, writer: W, read: &[u8], watched: Watched, seat: Seat)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let client = self.client(&watched, &seat, read, None);
        client.live(reader, writer, watched.resume).await;
        drop(seat);
    }

    fn client(
        &self,
        watched: &Watched,
        seat: &Seat,
        read: &[u8],
        direct: Option<Arc<Direct>>,
    ) -> Client {
        let replay = self.replay(watched.session, seat.feed(), watched.since);
        let deeds = Deeds {
            shared: Arc::clone(&self.0),
            session: watched.session,
            caller: watched.caller.clone(),
        };
        Client::new(replay, deeds, Arc::clone(&watched.leave), read, direct)
    }
}
