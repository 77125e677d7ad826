//! HTTP/1 over a stream that came through a door.

use std::convert::Infallible;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::content::Answer;

/// A head is this long at most, its first line included.
const HEAD: usize = 64 << 10;
const HEADERS: usize = 100;

/// Also how long a connection may rest between requests.
const HEAD_TIME: Duration = Duration::from_mins(5);

/// Until either side is done with the connection.
pub(crate) async fn serve<S, F, A>(stream: S, handle: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    F: Fn(Request<Incoming>) -> A,
    A: Future<Output = Answer>,
{
    let service = service_fn(|request| {
        let answer = handle(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        // A sandbox that goes away in the middle is no event.
        tracing::debug!(%error, "a connection at a door ended early");
    }
}
