//! One connection from inside, from its first request to its end.
//!
//! ```text
//! head ──► target ──► on the list? ──► address ──► public, or excepted? ──► dial ──► carry
//!   │ 400     │ 403        │ 403                        │ 403                │ 502, 504
//! ```
//!
//! Every request on a connection goes this way, however many came before it.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use relay::{Form, HeadError, Request, Stream, Version, head_length, parse_request};
use tokio::time::{Instant, timeout};

use crate::carry::{self, Exchanged, Side};
use crate::dial::{DialError, Lookup, dial, dial_upstream};
use crate::log::{Carried, Decision, Log, Verdict};
use crate::passes::{Open as Opened, Passes};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::target::{Host, Target};
use crate::upstream::Upstream;
use crate::write::Answer;

/// How long anything may take, and how much there may be at once.
#[derive(Debug, Clone)]
pub struct Limits {
    pub connections: usize,
    /// To resolve and connect.
    pub dial: Duration,
    /// For a head, once it has begun.
    pub head: Duration,
    /// Between two requests.
    pub between: Duration,
    /// Until a server answers a request.
    pub answer: Duration,
    /// A tunnel or body through which nothing passes.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            dial: Duration::from_secs(10),
            head: Duration::from_secs(30),
            between: Duration::from_mins(5),
            answer: Duration::from_mins(10),
            idle: Duration::from_hours(1),
        }
    }
}

#[derive(Debug)]
pub struct Proxy {
    pub policy: Policy,
    /// What was let through since.
    pub passes: Passes,
    pub upstream: Option<Upstream>,
    pub lookup: Lookup,
    pub log: Arc<Log>,
    pub limits: Limits,
}

/// A connection to a server that the last request on this connection used.
struct Open {
    target: Target,
    side: Side,
    /// With the upstream's credentials, when it goes through it.
    to_proxy: Option<Vec<u8>>,
}

/// Why a request ends here: what is answered, and why.
struct Stop {
    answer: Answer,
    code: &'static str,
    text: String,
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        let answer = match reason {
            Reason::Target(_) | Reason::NotForAProxy => Answer::BAD_REQUEST,
            Reason::Busy => Answer::BUSY,
            _ => Answer::REFUSED,
        };
        Self {
            answer,
            code: reason.code(),
            text: reason.to_string(),
        }
    }
}

impl From<DialError> for Stop {
    fn from(error: DialError) -> Self {
        let (answer, code) = match error {
            DialError::Refused(reason) => return reason.into(),
            DialError::Unresolved { .. } => (Answer::BAD_GATEWAY, "unresolved"),
            DialError::Unreachable { .. } => (Answer::BAD_GATEWAY, "unreachable"),
            DialError::TimedOut { .. } => (Answer::TIMED_OUT, "timed-out"),
        };
        Self {
            answer,
            code,
            text: error.to_string(),
        }
    }
}

impl From<HeadError> for Stop {
    fn from(error: HeadError) -> Self {
        Self {
            answer: Answer::to(error),
            code: error.code(),
            text: error.to_string(),
        }
    }
}

impl Stop {
    fn verdict(&self) -> Verdict {
        match self.answer {
            Answer::BAD_GATEWAY | Answer::TIMED_OUT => Verdict::Failed,
            _ => Verdict::Refused,
        }
    }
}

/// Whether a connection from inside goes on.
enum Next {
    Request,
    End,
}

impl Proxy {
    pub(crate) async fn serve(&self, stream: Stream) {
        let mut client = Side::new(stream);
        let mut open = None;
        loop {
            let length = match self.next_head(&mut client).await {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(error) => {
                    self.note_unreadable(error);
                    return client
                        .refuse(Answer::to(error), error.code(), &error.to_string())
                        .await;
                }
            };
            let head = client.buffer.split_to(length).freeze();
            match parse_request(&head) {
                Ok(request) => match self.request(&mut client, &mut open, &request).await {
                    Next::Request => {}
                    Next::End => return,
                },
                Err(error) => {
                    self.note_unreadable(error);
                    return client
                        .refuse(Answer::to(error), error.code(), &error.to_string())
                        .await;
                }
            }
        }
    }

    /// Tells a connection that there are too many.
    pub(crate) async fn turn_away(&self, stream: Stream) {
        let stop = Stop::from(Reason::Busy);
        Side::new(stream)
            .refuse(stop.answer, stop.code, &stop.text)
            .await;
    }

    /// The length of the next head; `None` when the client has no more to ask.
    async fn next_head(&self, client: &mut Side) -> Result<Option<usize>, HeadError> {
        let mut looked_at = 0;
        let begun = Instant::now();
        loop {
            if let Some(length) = head_length(&client.buffer, looked_at)? {
                return Ok(Some(length));
            }
            looked_at = client.buffer.len();
            let patience = if looked_at == 0 {
                self.limits.between
            } else {
                self.limits.head.saturating_sub(begun.elapsed())
            };
            match timeout(patience, client.fill()).await {
                Ok(Ok(1..)) => {}
                _ => return Ok(None),
            }
        }
    }

    async fn request(
        &self,
        client: &mut Side,
        open: &mut Option<Open>,
        request: &Request<'_>,
    ) -> Next {
        let begun = Instant::now();
        let mut decision = Decision {
            method: request.method.to_owned(),
            ..Decision::default()
        };
        let (target, path) = match target_of(request) {
            Ok(both) => both,
            Err(reason) => {
                // What was asked for is shown as it was read, bounded and printable.
                decision.host = shown(request);
                return self.stop(client, decision, reason.into()).await;
            }
        };
        decision.host = target.host.to_string();
        decision.port = target.port;
        let ends = match self.admitted(&target) {
            Ok(ends) => ends,
            Err(reason) => return self.stop(client, decision, reason.into()).await,
        };
        let Some(path) = path else {
            return self.tunnel(client, &target, decision, begun, ends).await;
        };
        let mut reused = open
            .take()
            .filter(|open| open.target == target && !open.side.is_stale());
        loop {
            let was_reused = reused.is_some();
            let mut server = match reused.take() {
                Some(server) => server,
                None => match self.open(&target).await {
                    Ok(server) => server,
                    Err(stop) => return self.stop(client, decision, stop).await,
                },
            };
            decision.address = server.side.peer.clone();
            let number = self.log.decided(Verdict::Allowed, decision.clone());
            let exchanging = carry::exchange(
                client,
                &mut server.side,
                carry::Order {
                    request,
                    target: &target,
                    path,
                    to_proxy: server.to_proxy.as_deref(),
                    limits: &self.limits,
                },
            );
            let Some(exchanged) = before(ends, exchanging).await else {
                decision.reason = Some(OVER.to_owned());
                let carried = timed(Carried::default(), begun);
                self.log.closed(number, decision, carried);
                return Next::End;
            };
            let (carried, next) = match exchanged {
                Exchanged::Done {
                    carried,
                    reusable,
                    close,
                } => {
                    if reusable {
                        *open = Some(server);
                    }
                    let next = if close { Next::End } else { Next::Request };
                    (carried, next)
                }
                // It was closed under us while nobody used it; a new one will do.
                Exchanged::Unanswered if was_reused => continue,
                Exchanged::Unanswered => {
                    decision.reason = Some("no-answer".to_owned());
                    let text = format!("{target} closed without an answer");
                    client.refuse(Answer::BAD_GATEWAY, "no-answer", &text).await;
                    (Carried::default(), Next::End)
                }
                Exchanged::Unusable { answer, code, text } => {
                    decision.reason = Some(code.to_owned());
                    client.refuse(answer, code, &text).await;
                    (Carried::default(), Next::End)
                }
                Exchanged::Broken { carried } => {
                    decision.reason = Some("broken".to_owned());
                    (carried, Next::End)
                }
            };
            self.log.closed(number, decision, timed(carried, begun));
            return next;
        }
    }

    async fn tunnel(
        &self,
        client: &mut Side,
        target: &Target,
        mut decision: Decision,
        begun: Instant,
        ends: Option<Instant>,
    ) -> Next {
        let opened = match self.open(target).await {
            Ok(open) if open.to_proxy.is_some() => self.tunnel_through(open, target).await,
            other => other,
        };
        let mut server = match opened {
            Ok(server) => server,
            Err(stop) => return self.stop(client, decision, stop).await,
        };
        decision.address = server.side.peer.clone();
        let number = self.log.decided(Verdict::Allowed, decision.clone());
        let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
        let carried = match client.stream.write_all(established).await {
            Ok(()) => {
                let carrying = carry::both_ways(client, &mut server.side, self.limits.idle);
                before(ends, carrying).await.unwrap_or_else(|| {
                    decision.reason = Some(OVER.to_owned());
                    Carried::default()
                })
            }
            Err(_) => Carried::default(),
        };
        self.log.closed(number, decision, timed(carried, begun));
        Next::End
    }

    /// Until when it may last, if it is on the list or was let through.
    fn admitted(&self, target: &Target) -> Result<Option<Instant>, Reason> {
        let Err(reason) = self.policy.admits(target) else {
            return Ok(None);
        };
        match self.passes.admit(target) {
            Some(Opened::Always) => Ok(None),
            Some(Opened::For(time)) => Ok(Some(Instant::now() + time)),
            None => Err(reason),
        }
    }

    /// Asks the upstream proxy for a tunnel.
    async fn tunnel_through(&self, mut open: Open, target: &Target) -> Result<Open, Stop> {
        let credentials = open.to_proxy.as_deref().unwrap_or_default();
        let answered = carry::ask_for_tunnel(&mut open.side, target, credentials);
        let failed = |text: String| Stop {
            answer: Answer::BAD_GATEWAY,
            code: "upstream",
            text,
        };
        match timeout(self.limits.dial, answered).await {
            Ok(Ok(200..=299)) => Ok(open),
            Ok(Ok(status)) => Err(failed(format!(
                "the upstream proxy answered {status} for {target}"
            ))),
            Ok(Err(error)) => Err(failed(format!("the upstream proxy failed: {error}"))),
            Err(_) => Err(Stop {
                answer: Answer::TIMED_OUT,
                ..failed("the upstream proxy does not answer".to_owned())
            }),
        }
    }

    /// A connection that leads to a target on the list, by way of the upstream if there is one.
    async fn open(&self, target: &Target) -> Result<Open, Stop> {
        let (side, to_proxy) = match &self.upstream {
            Some(upstream) if !self.policy.is_private(target) => {
                // A name is the upstream's to resolve; an address can be classed here.
                if let Host::Address(address) = target.host {
                    self.policy.admits_address(target, address)?;
                }
                let stream =
                    dial_upstream(&upstream.target, &self.lookup, self.limits.dial).await?;
                (stream, Some(upstream.credentials.clone()))
            }
            _ => {
                let stream = dial(target, &self.policy, &self.lookup, self.limits.dial).await?;
                (stream, None)
            }
        };
        Ok(Open {
            target: target.clone(),
            side: Side::new(side),
            to_proxy,
        })
    }

    async fn stop(&self, client: &mut Side, mut decision: Decision, stop: Stop) -> Next {
        decision.reason = Some(stop.code.to_owned());
        self.log.decided(stop.verdict(), decision);
        client.refuse(stop.answer, stop.code, &stop.text).await;
        Next::End
    }

    fn note_unreadable(&self, error: HeadError) {
        let decision = Decision {
            reason: Some(error.code().to_owned()),
            ..Decision::default()
        };
        self.log.decided(Verdict::Refused, decision);
    }
}

/// In the log, of what was let through for a time that is over.
const OVER: &str = "pass-over";

/// What comes of it, if that is before the end.
async fn before<T>(ends: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match ends {
        Some(ends) => tokio::time::timeout_at(ends, work).await.ok(),
        None => Some(work.await),
    }
}

/// Where a request wants to go, and its path unless it is a tunnel.
fn target_of<'a>(request: &Request<'a>) -> Result<(Target, Option<&'a [u8]>), Reason> {
    match request.form {
        Form::Connect { authority } => Target::parse(authority, None)
            .map(|target| (target, None))
            .map_err(Reason::Target),
        Form::Absolute { authority, path } => Target::parse(authority, Some(80))
            .map(|target| (target, Some(path)))
            .map_err(Reason::Target),
        Form::OtherScheme => Err(Reason::Scheme),
        Form::Path(_) => Err(Reason::NotForAProxy),
    }
}

fn shown(request: &Request<'_>) -> String {
    let (Form::Connect { authority } | Form::Absolute { authority, .. }) = request.form else {
        return String::new();
    };
    // What stands before an @ may be a password.
    let from = authority.iter().rposition(|byte| *byte == b'@');
    let host = &authority[from.map_or(0, |at| at + 1)..];
    host.iter()
        .take(80)
        .flat_map(|byte| byte.escape_ascii())
        .map(char::from)
        .collect()
}

fn timed(carried: Carried, begun: Instant) -> Carried {
    Carried {
        ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..carried
    }
}

/// HTTP/1.0 clients are told the end of a response by the end of the connection.
pub(crate) fn wants_close(request: &Request<'_>) -> bool {
    !request.keep_alive || request.version == Version::Http10
}

impl Side {
    pub(crate) fn new(stream: Stream) -> Self {
        Self {
            peer: stream.peer().map(|address| address.ip().to_string()),
            stream,
            buffer: BytesMut::new(),
            pipe: None,
        }
    }
}
