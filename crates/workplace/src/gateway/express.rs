//! The short way, for what most requests are: a plain `GET` by cookie, to a backend. Its head is read
//! here, and the answer's body goes from one connection to the other without entering our memory.
//!
//! Whatever is not as plain as that is left to hyper with all that follows on its connection, before
//! a backend was told of it, or when one gave an answer that only hyper may be able to read.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Uri, Version};
use relay::{
    Body, Fields, Form, Pipe, Response, Stream, Way as Direction, fill, parse_request,
    parse_response,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::answer::{Content, Refusal};
use super::backends::{BackendError, KEEP, MAX_KEPT, dial};
use super::routes::{Destination, End, Takes, Way};
use super::target::Target;
use super::visit::{Visit, check_once_only};
use super::{Limits, headers};

/// With one of these there is more to be decided than where it goes.
const NOT_PLAIN: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::EXPECT,
    header::ORIGIN,
    header::UPGRADE,
];

/// A connection, and what came on it that nobody has used yet.
#[derive(Debug)]
struct Side {
    stream: Stream,
    unread: BytesMut,
}

/// A connection to a backend.
#[derive(Debug)]
struct Line {
    side: Side,
    /// For bodies from there; empty between two.
    pipe: Option<Pipe>,
    was_used: bool,
}

/// Connections to backends between two requests, by port.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kept: RefCell<HashMap<u16, Vec<(Line, Instant)>>>,
    /// Backends whose answers only hyper may be able to read: asked once more for the first of them,
    /// and never again.
    odd: RefCell<HashSet<u16>>,
}

/// A request that goes the short way.
struct Plain {
    port: u16,
    prefix: String,
    /// Under which names the client knows us.
    hosts: Vec<String>,
    /// As the backend is to get it.
    head: Vec<u8>,
}

/// What hyper is to go on with.
pub(super) struct Rest {
    pub(super) stream: TcpStream,
    pub(super) read: Bytes,
}

/// How an exchange ended.
enum Ended {
    /// Both connections are good for another.
    Kept,
    /// The client's is.
    Done,
    /// The client has its answer, and the end of the connection is the end of that.
    Close,
    /// The client has half an answer, or is gone.
    Broken,
    /// The backend is not there; it was told nothing.
    Down,
    /// It closed a connection that it had kept, without a word.
    Stale,
    /// It closed a new one.
    Silent,
    /// It said something that we do not understand.
    Odd,
    Late,
}

/// Serves requests until one is not plain, and gives back what is left then.
pub(super) async fn serve(visit: &Visit, stream: TcpStream) -> Option<Rest> {
    let limits = visit.gateway.limits;
    let mut client = Side::new(stream);
    loop {
        let length = match client.next_head(Instant::now() + limits.header).await {
            Ok(Some(length)) => length,
            Ok(None) => return client.rest(BytesMut::new()),
            Err(_) => return None,
        };
        let Some(plain) = visit.plain(&client.unread[..length]) else {
            return client.rest(BytesMut::new());
        };
        let asked = client.unread.split_to(length);
        match visit.carry_out(&mut client, &plain).await {
            Ended::Kept | Ended::Done => {}
            Ended::Close => return None,
            Ended::Broken => {
                client.stream.break_off();
                return None;
            }
            Ended::Down | Ended::Odd => return client.rest(asked),
            Ended::Stale | Ended::Silent => {
                let silent = visit.failed(&BackendError::Silent { port: plain.port });
                client.refuse(silent, limits.write).await;
                return None;
            }
            Ended::Late => {
                let late = visit.failed(&BackendError::Late { port: plain.port });
                client.refuse(late, limits.write).await;
                return None;
            }
        }
    }
}

impl Visit {
    /// The request with this head, if it is one that may go the short way and its sender is known.
    fn plain(&self, head: &[u8]) -> Option<Plain> {
        let request = parse_request(head).ok()?;
        let Form::Path(path) = request.form else {
            return None;
        };
        let is_get = request.method == "GET" && request.body == Body::None;
        if !is_get || request.version != relay::Version::Http11 || !request.keep_alive {
            return None;
        }
        let mut headers = map(&request.fields)?;
        if NOT_PLAIN.iter().any(|name| headers.contains_key(name)) {
            return None;
        }
        check_once_only(&headers, Version::HTTP_11).ok()?;
        let target = Target::of(&Uri::try_from(path).ok()?).ok()?;
        let Way::To(Destination { end, prefix, path }) = self.find(&target.path, &headers) else {
            return None;
        };
        let End::Backend(backend) = end else {
            return None;
        };
        let is_plain = backend.takes == Takes::Everything
            && backend.password.is_none()
            && !self.gateway.lines.odd.borrow().contains(&backend.port);
        if target.code.is_some() || !is_plain {
            return None;
        }
        let cookie = headers::our_cookie(&headers)?;
        let known = self.gateway.guard.borrow();
        let user = known.user_of(cookie, self.gateway.now())?.to_owned();
        drop(known);
        self.let_in(&user);
        let hosts = headers::known_hosts(&headers);
        headers::drop_hop_by_hop(&mut headers);
        headers.remove(header::CONTENT_LENGTH);
        self.prepare(&mut headers, &backend, &prefix).ok()?;
        let address = target.address_at(&path);
        let mut head = Vec::with_capacity(1024);
        put(&mut head, &[b"GET ", address.as_bytes(), b" HTTP/1.1\r\n"]);
        put_fields(&mut head, &headers);
        put(&mut head, &[b"\r\n"]);
        Some(Plain {
            port: backend.port,
            prefix,
            hosts,
            head,
        })
    }

    async fn carry_out(&self, client: &mut Side, plain: &Plain) -> Ended {
        let limits = self.gateway.limits;
        let lines = &self.gateway.lines;
        let mut end = Ended::Stale;
        // A connection that was kept may have been closed just now: then once more, on a new one.
        let kept = lines.free(plain.port).into_iter().map(Some);
        for line in kept.chain([None]) {
            let line = match line {
                Some(line) => Some(line),
                None => Line::new(plain.port, limits.dial).await,
            };
            let Some(mut line) = line else {
                // What there is to be said of it, hyper's way says.
                return Ended::Down;
            };
            let (stream, unread) = (&client.stream, &mut client.unread);
            end = tokio::select! {
                biased;
                end = line.exchange(stream, plain, limits) => end,
                () = hung_up(stream, unread, limits.header_bytes) => Ended::Broken,
            };
            match end {
                Ended::Stale => {}
                Ended::Kept => {
                    lines.keep(plain.port, line);
                    return end;
                }
                Ended::Odd => {
                    lines.odd.borrow_mut().insert(plain.port);
                    return end;
                }
                _ => return end,
            }
        }
        end
    }
}

impl Side {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream: Stream::tcp(stream),
            unread: BytesMut::new(),
        }
    }

    /// The length of the next head; none if it is not whole in time or none that we read.
    async fn next_head(&mut self, deadline: Instant) -> Result<Option<usize>, Gone> {
        let head = relay::next_head(&self.stream, &mut self.unread);
        match tokio::time::timeout_at(deadline, head).await {
            Ok(Ok(Some(length))) => Ok(Some(length)),
            Ok(Ok(None)) => Err(Gone::Closed),
            Err(_) if self.unread.is_empty() => Err(Gone::Silent),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    async fn refuse(&self, refusal: Refusal, within: Duration) {
        let (parts, content) = refusal.into_parts();
        let Content::Ours(body) = content else {
            return;
        };
        let body = body.unwrap_or_default();
        let mut out = Vec::with_capacity(512);
        put(
            &mut out,
            &[b"HTTP/1.1 ", parts.status.as_str().as_bytes(), b" \r\n"],
        );
        put_fields(&mut out, &parts.headers);
        let length = body.len().to_string();
        put(&mut out, &[b"content-length: ", length.as_bytes()]);
        put(&mut out, &[b"\r\nconnection: close\r\n\r\n", &body]);
        // Who does not read it is not told.
        let _ = timeout(within, self.stream.write_all(&out)).await;
    }

    fn rest(self, mut asked: BytesMut) -> Option<Rest> {
        let Stream::Tcp(stream) = self.stream else {
            return None;
        };
        asked.unsplit(self.unread);
        Some(Rest {
            stream,
            read: asked.freeze(),
        })
    }
}

enum Gone {
    Closed,
    /// Nothing came in time.
    Silent,
}

/// Ends when the client does. What it says meanwhile is for later, and kept up to a bound.
async fn hung_up(stream: &Stream, unread: &mut BytesMut, most: usize) {
    while unread.len() < most {
        match fill(stream, unread).await {
            Ok(1..) => {}
            _ => return,
        }
    }
    std::future::pending::<()>().await;
}

impl Line {
    async fn new(port: u16, within: Duration) -> Option<Self> {
        let stream = timeout(within, dial(port)).await.ok()?.ok()?;
        Some(Self {
            side: Side::new(stream),
            pipe: None,
            was_used: false,
        })
    }

    async fn exchange(&mut self, client: &Stream, plain: &Plain, limits: Limits) -> Ended {
        let silent = if self.was_used {
            Ended::Stale
        } else {
            Ended::Silent
        };
        if self.side.stream.write_all(&plain.head).await.is_err() {
            return silent;
        }
        let deadline = Instant::now() + limits.answer;
        loop {
            let length = match self.side.next_head(deadline).await {
                Ok(Some(length)) => length,
                Err(Gone::Closed) if self.side.unread.is_empty() => return silent,
                _ if Instant::now() >= deadline => return Ended::Late,
                Ok(None) | Err(_) => return Ended::Odd,
            };
            let head = self.side.unread.split_to(length).freeze();
            match parse_response(&head) {
                // Nobody asked it to switch.
                Ok(response) if response.status == 101 => return Ended::Odd,
                Ok(response) if response.status < 200 => {}
                Ok(response) => return self.give(client, &response, plain, limits).await,
                Err(_) => return Ended::Odd,
            }
        }
    }

    async fn give(
        &mut self,
        client: &Stream,
        response: &Response<'_>,
        plain: &Plain,
        limits: Limits,
    ) -> Ended {
        let body = response.body("GET");
        let Some(out) = plain.answer(response) else {
            return Ended::Odd;
        };
        let way = Direction {
            from: &self.side.stream,
            unread: &mut self.side.unread,
            pipe: &mut self.pipe,
            to: client,
            count: &AtomicU64::new(0),
            silence: limits.silence,
            taking: limits.write,
        };
        match way.carry(body, out).await {
            Err(_) => Ended::Broken,
            Ok(()) if body == Body::UntilClose => Ended::Close,
            Ok(()) if response.keep_alive => Ended::Kept,
            Ok(()) => Ended::Done,
        }
    }
}

impl Plain {
    /// The head of an answer as it may go on to the client.
    fn answer(&self, response: &Response<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(16 << 10);
        put(&mut out, &[b"HTTP/1.1 ", response.status_line, b"\r\n"]);
        if response.fields.iter().all(|(name, _)| goes_on(name)) {
            let fields = response.fields.iter();
            for (name, value) in fields.filter(|(name, _)| !is_length(name)) {
                put(&mut out, &[name, b": ", value, b"\r\n"]);
            }
        } else {
            let mut fields = map(&response.fields)?;
            headers::drop_hop_by_hop(&mut fields);
            headers::drop_set_of_our_cookie(&mut fields);
            headers::move_location(&mut fields, &self.prefix, self.port, &self.hosts);
            fields.remove(header::CONTENT_LENGTH);
            put_fields(&mut out, &fields);
        }
        match response.told_length() {
            Body::Length(length) => {
                let length = length.to_string();
                put(&mut out, &[b"content-length: ", length.as_bytes(), b"\r\n"]);
            }
            Body::Chunked => put(&mut out, &[b"transfer-encoding: chunked\r\n"]),
            Body::None if response.status != 204 => put(&mut out, &[b"content-length: 0\r\n"]),
            Body::None => {}
            // A 304 has no body and need not tell the length that it would have.
            Body::UntilClose if response.status == 304 => {}
            Body::UntilClose => put(&mut out, &[b"connection: close\r\n"]),
        }
        put(&mut out, &[b"\r\n"]);
        Some(out)
    }
}

impl Lines {
    fn free(&self, port: u16) -> Option<Line> {
        let mut all = self.kept.borrow_mut();
        let kept = all.get_mut(&port)?;
        // The one used last, so that the others grow old.
        while let Some((line, since)) = kept.pop() {
            if is_worth_keeping(&line, since) {
                return Some(line);
            }
        }
        None
    }

    fn keep(&self, port: u16, mut line: Line) {
        line.was_used = true;
        let mut all = self.kept.borrow_mut();
        let kept = all.entry(port).or_default();
        if kept.len() < MAX_KEPT {
            kept.push((line, Instant::now()));
        }
    }

    /// Closes what was not used for a while.
    pub(super) fn sweep(&self) {
        self.kept.borrow_mut().retain(|_, kept| {
            kept.retain(|(line, since)| is_worth_keeping(line, *since));
            !kept.is_empty()
        });
    }
}

fn is_worth_keeping(line: &Line, since: Instant) -> bool {
    since.elapsed() < KEEP && line.side.unread.is_empty() && !line.side.stream.is_stale()
}

/// Whether a field of an answer goes on as it is, but for the length, which is said anew.
fn goes_on(name: &[u8]) -> bool {
    let is = |other: &HeaderName| name.eq_ignore_ascii_case(other.as_str().as_bytes());
    !headers::HOP_BY_HOP.iter().any(is) && !is(&header::SET_COOKIE) && !is(&header::LOCATION)
}

fn is_length(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-length")
}

/// None where one is not as hyper has them.
fn map(fields: &Fields<'_>) -> Option<HeaderMap> {
    fields
        .iter()
        .map(|(name, value)| {
            let name = HeaderName::from_bytes(name).ok()?;
            Some((name, HeaderValue::from_bytes(value).ok()?))
        })
        .collect()
}

fn put_fields(out: &mut Vec<u8>, headers: &HeaderMap) {
    for (name, value) in headers {
        put(
            out,
            &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"],
        );
    }
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}
