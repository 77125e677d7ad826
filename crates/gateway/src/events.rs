//! The same stream as a socket's, as server-sent events: without commands, and for programs that
//! have nothing but HTTP.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::answer::{self, Body, problem};
use crate::fanout::Seat;
use crate::frame::Batch;
use crate::replay::Replay;
use crate::{Gateway, Leave, Watched};

impl Gateway {
    /// A session's stream for a caller that was let in. A browser that comes again says where it
    /// was in `Last-Event-ID`, and that counts more than the address.
    pub async fn events(&self, headers: &HeaderMap, mut watched: Watched) -> Response<Body> {
        let last = headers.get("last-event-id");
        let last = last.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        watched.since = last.or(watched.since);
        let seat = match self.take_seat(watched.session, &watched.caller).await {
            Ok(seat) => seat,
            Err(error) => return problem(&error.into()),
        };
        let place = match self.place() {
            Ok(place) => place,
            Err(refusal) => return problem(&refusal),
        };
        if watched.resume && watched.caller.may_act() {
            let shared = Arc::clone(&self.0);
            self.0.tasks.spawn(async move {
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    // What comes of it is told.
                    _ = async { shared.sessions.open(watched.session).await?.ensure_ready().await } => {}
                }
            });
        }
        let told = Told {
            replay: self.replay(watched.session, seat.feed(), watched.since),
            _seat: seat,
            _place: place,
            leave: Arc::clone(&watched.leave),
            heartbeat: self.0.settings.heartbeat,
            stop: self.0.stop.clone(),
            batches: VecDeque::new(),
        };
        let pieces = stream::unfold(told, |mut told| async {
            let piece = told.next().await?;
            Some((Ok::<_, io::Error>(Frame::data(piece)), told))
        });
        let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/event-stream");
        headers.insert(header::CONTENT_TYPE, kind);
        // A proxy that gathers would hold back what is new.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        answer::no_store(&mut response);
        response
    }
}

struct Told {
    replay: Replay,
    _seat: Seat,
    _place: OwnedSemaphorePermit,
    leave: Leave,
    heartbeat: std::time::Duration,
    stop: CancellationToken,
    batches: VecDeque<Batch>,
}

impl Told {
    /// None at the end: the client comes again.
    async fn next(&mut self) -> Option<Bytes> {
        let told = tokio::select! {
            () = self.stop.cancelled() => return None,
            () = self.leave.cancelled() => return None,
            told = timeout(self.heartbeat, self.replay.next(&mut self.batches)) => told,
        };
        match told {
            Err(_) => return Some(Bytes::from_static(b":\n\n")),
            Ok(Err(_)) => return None,
            Ok(Ok(())) => {}
        }
        let mut bytes = BytesMut::new();
        for batch in self.batches.drain(..) {
            for (seq, json) in batch.frames() {
                put(&mut bytes, seq, json);
            }
        }
        Some(bytes.freeze())
    }
}

fn put(bytes: &mut BytesMut, seq: Option<u64>, json: &[u8]) {
    if let Some(seq) = seq {
        bytes.put_slice(format!("id: {seq}\n").as_bytes());
    }
    // JSON may be written over several lines; an event's data may not.
    for line in json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.put_slice(b"data: ");
        bytes.put_slice(line);
        bytes.put_u8(b'\n');
    }
    bytes.put_u8(b'\n');
}
