//! Moving bytes: a request and its response, or both ways until an end.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use relay::{Body, Gone, HeadError, Pipe, Request, Response, Stream, Way, fill, parse_response};
use tokio::task::coop::consume_budget;
use tokio::time::{sleep, timeout};

use crate::log::Carried;
use crate::proxy::{Limits, wants_close};
use crate::target::Target;
use crate::write::{Answer, forwarded_request, forwarded_response};

/// Room for a head and for what of the body came with it.
const PIECE: usize = 16 << 10;
/// A client that still talks after a refusal is listened to for so long, so that it sees it.
const LINGER: Duration = Duration::from_secs(1);

/// A connection and what came on it that nobody has used yet.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) stream: Stream,
    /// The address of the other end, where it has one.
    pub(crate) peer: Option<String>,
    pub(crate) buffer: BytesMut,
    /// For bodies that come from it; empty between two.
    pub(crate) pipe: Option<Pipe>,
}

impl Side {
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        fill(&self.stream, &mut self.buffer).await
    }

    pub(crate) fn is_stale(&self) -> bool {
        !self.buffer.is_empty() || self.stream.is_stale()
    }

    /// Answers and ends. What the client still sends is read and dropped for a moment: closing on
    /// unread bytes would take the answer away from it.
    pub(crate) async fn refuse(&mut self, answer: Answer, code: &str, text: &str) {
        let response = answer.response(code, text);
        let linger = async {
            self.stream.write_all(&response).await?;
            self.stream.finish();
            while self.fill().await? > 0 {
                self.buffer.clear();
            }
            io::Result::Ok(())
        };
        let _ = timeout(LINGER, linger).await;
    }
}

/// A request to be carried out.
pub(crate) struct Order<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) target: &'a Target,
    pub(crate) path: &'a [u8],
    pub(crate) to_proxy: Option<&'a [u8]>,
    pub(crate) limits: &'a Limits,
}

pub(crate) enum Exchanged {
    Done {
        carried: Carried,
        /// The server's connection is good for another request.
        reusable: bool,
        /// The client's is not.
        close: bool,
    },
    /// The server closed before it said anything, and the request can be made again.
    Unanswered,
    /// The client got nothing yet and can be told.
    Unusable {
        answer: Answer,
        code: &'static str,
        text: String,
    },
    Broken {
        carried: Carried,
    },
}

/// Sends one request and gives its response back.
pub(crate) async fn exchange(client: &mut Side, server: &mut Side, order: Order<'_>) -> Exchanged {
    let mut head = Vec::with_capacity(512);
    forwarded_request(
        order.request,
        order.target,
        order.path,
        order.to_proxy,
        &mut head,
    );
    let counts = Counts::default();
    counts.out(head.len());
    let has_body = order.request.body != Body::None;
    if server.stream.write_all(&head).await.is_err() && !has_body {
        return Exchanged::Unanswered;
    }
    let (from, to) = (&client.stream, &server.stream);
    let outward = Way {
        from,
        unread: &mut client.buffer,
        pipe: &mut client.pipe,
        to,
        count: &counts.outward,
        silence: order.limits.idle,
        taking: order.limits.idle,
    };
    let inward = Way {
        from: to,
        unread: &mut server.buffer,
        pipe: &mut server.pipe,
        to: from,
        count: &counts.inward,
        silence: order.limits.idle,
        taking: order.limits.idle,
    };
    let mut answering = pin!(answer(inward, &order));
    if !has_body {
        return concluded(&answering.await, &order, &counts, true);
    }
    let mut sending = pin!(outward.carry(order.request.body, Vec::new()));
    tokio::select! {
        biased;
        sent = &mut sending => match sent {
            Ok(()) => concluded(&answering.await, &order, &counts, true),
            // It may have said why it does not want the rest.
            Err(Gone::To) => concluded(&answering.await, &order, &counts, false),
            Err(Gone::From | Gone::Ended) => Exchanged::Broken { carried: counts.carried() },
        },
        answered = &mut answering => concluded(&answered, &order, &counts, false),
    }
}

fn concluded(
    answered: &Result<Answered, Fault>,
    order: &Order<'_>,
    counts: &Counts,
    sent_whole: bool,
) -> Exchanged {
    let unusable = |answer, code, text| Exchanged::Unusable { answer, code, text };
    match answered {
        Ok(Answered { keeps, framed }) => Exchanged::Done {
            carried: counts.carried(),
            reusable: *keeps && *framed && sent_whole,
            close: !*framed || !sent_whole || wants_close(order.request),
        },
        // A body that was sent in part cannot be sent again.
        Err(Fault::Silent) if order.request.body == Body::None => Exchanged::Unanswered,
        Err(Fault::Silent) => unusable(
            Answer::BAD_GATEWAY,
            "no-answer",
            format!("{} closed without an answer", order.target),
        ),
        Err(Fault::Late) => unusable(
            Answer::TIMED_OUT,
            "timed-out",
            format!("{} does not answer", order.target),
        ),
        Err(Fault::Head(error)) => unusable(
            Answer::BAD_GATEWAY,
            "bad-answer",
            format!("{} answered what is not HTTP: {error}", order.target),
        ),
        Err(Fault::Half) => Exchanged::Broken {
            carried: counts.carried(),
        },
    }
}

/// What has passed so far. Read by the watch over idle ones while it grows.
#[derive(Debug, Default)]
struct Counts {
    inward: AtomicU64,
    outward: AtomicU64,
}

impl Counts {
    fn out(&self, bytes: usize) {
        self.outward.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn carried(&self) -> Carried {
        Carried {
            bytes_in: self.inward.load(Ordering::Relaxed),
            bytes_out: self.outward.load(Ordering::Relaxed),
            ms: 0,
        }
    }
}

struct Answered {
    /// The server takes another request on this connection.
    keeps: bool,
    /// The end of the response was told in it.
    framed: bool,
}

enum Fault {
    /// Not a byte came.
    Silent,
    Late,
    Head(HeadError),
    /// The client has a part of the response.
    Half,
}

async fn answer(way: Way<'_>, order: &Order<'_>) -> Result<Answered, Fault> {
    let mut was_told_to_wait = false;
    loop {
        let length = match timeout(order.limits.answer, next_head(way.from, way.unread)).await {
            Ok(Ok(length)) => length,
            Ok(Err(fault)) if !was_told_to_wait => return Err(fault),
            Err(_) if !was_told_to_wait => return Err(Fault::Late),
            _ => return Err(Fault::Half),
        };
        let head = way.unread.split_to(length).freeze();
        let response = parse_response(&head).map_err(Fault::Head)?;
        match response.status {
            // Nobody asked to switch: the field that asks for it is not forwarded.
            101 => return Err(Fault::Head(HeadError::Version)),
            100..=199 => {
                let mut out = Vec::with_capacity(64);
                forwarded_response(&response, false, &mut out);
                way.to.write_all(&out).await.map_err(|_| Fault::Half)?;
                was_told_to_wait = true;
            }
            _ => return give(&response, way, order).await,
        }
    }
}

async fn next_head(server: &Stream, answers: &mut BytesMut) -> Result<usize, Fault> {
    match relay::next_head(server, answers).await {
        Ok(Some(length)) => Ok(length),
        Ok(None) if answers.is_empty() => Err(Fault::Silent),
        Ok(None) => Err(Fault::Head(HeadError::FirstLine)),
        Err(error) => Err(Fault::Head(error)),
    }
}

/// The final response, head and body.
async fn give(response: &Response<'_>, way: Way<'_>, order: &Order<'_>) -> Result<Answered, Fault> {
    let body = response.body(order.request.method);
    let framed = body != Body::UntilClose;
    let mut out = Vec::with_capacity(PIECE);
    let close = !framed || wants_close(order.request);
    forwarded_response(response, close, &mut out);
    // Whichever end is gone, the client has half a response and no more is to be said.
    way.carry(body, out).await.map_err(|_| Fault::Half)?;
    Ok(Answered {
        keeps: response.keep_alive,
        framed,
    })
}

/// Carries both ways until both ends have closed, one of them breaks, or nothing passes for long.
pub(crate) async fn both_ways(client: &mut Side, server: &mut Side, idle: Duration) -> Carried {
    let counts = Counts::default();
    let outward = pump(
        &client.stream,
        &mut client.buffer,
        &server.stream,
        &counts.outward,
    );
    let inward = pump(
        &server.stream,
        &mut server.buffer,
        &client.stream,
        &counts.inward,
    );
    let both = async { tokio::try_join!(outward, inward) };
    tokio::select! {
        _ = both => {}
        () = until_idle(&counts, idle) => {}
    }
    counts.carried()
}

async fn pump(
    from: &Stream,
    unread: &mut BytesMut,
    to: &Stream,
    count: &AtomicU64,
) -> io::Result<()> {
    to.write_all(unread).await?;
    count.fetch_add(unread.len() as u64, Ordering::Relaxed);
    // A tunnel may live long with nothing to carry; it need not hold memory.
    *unread = BytesMut::new();
    let pipe = Pipe::new()?;
    loop {
        consume_budget().await;
        match pipe.carry(from, to, u64::MAX).await? {
            0 => break,
            moved => count.fetch_add(moved, Ordering::Relaxed),
        };
    }
    to.finish();
    Ok(())
}

async fn until_idle(counts: &Counts, idle: Duration) {
    let seen = || {
        let Carried {
            bytes_in,
            bytes_out,
            ..
        } = counts.carried();
        (bytes_in, bytes_out)
    };
    let mut before = seen();
    loop {
        sleep(idle).await;
        let now = seen();
        if now == before {
            return;
        }
        before = now;
    }
}

/// `CONNECT` to an upstream proxy; gives the status of its answer.
pub(crate) async fn ask_for_tunnel(
    upstream: &mut Side,
    target: &Target,
    credentials: &[u8],
) -> io::Result<u16> {
    let mut ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if !credentials.is_empty() {
        ask.extend_from_slice(b"Proxy-Authorization: ");
        ask.extend_from_slice(credentials);
        ask.extend_from_slice(b"\r\n");
    }
    ask.extend_from_slice(b"\r\n");
    upstream.stream.write_all(&ask).await?;
    let length = next_head(&upstream.stream, &mut upstream.buffer)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let head = upstream.buffer.split_to(length);
    let response = parse_response(&head).map_err(io::Error::other)?;
    Ok(response.status)
}
