use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde_json::{Value, json};
use telemetry::{Context, Kind, Span};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use wire::v1::FromClient;

use super::hear::{Foul, Heard, Hearing};
use super::out::Out;
use super::pace::Pace;
use super::words::{about, error, is_slow, named};
use crate::deeds::{Deeds, is_looking};
use crate::direct::Direct;
use crate::replay::{Over, Replay};
use crate::{Leave, Refusal, Settings};

/// The service restarts: come again.
const RESTART: u16 = 1012;
const POLICY: u16 = 1008;
const INTERNAL: u16 = 1011;

/// For what was said last to be taken, and for the client to close.
const FAREWELL: Duration = Duration::from_secs(2);

/// Deeds that are done at a time, and frames that wait for theirs; nothing more is heard then.
const DEEDS: usize = 8;
const WAITING: usize = 32;

/// Frames for a client alone that wait; nothing more is heard then.
const UNTAKEN: usize = 128;

/// One client, after the handshake.
pub(super) struct Client {
    replay: Replay,
    deeds: Deeds,
    leave: Leave,
    /// Where the feed may write by itself.
    direct: Option<Arc<Direct>>,
    settings: Settings,
    hearing: Hearing,
    pace: Pace,
    out: Out,
    /// What is said to the hub, one after the other.
    waiting: VecDeque<FromClient>,
    doing: FuturesUnordered<BoxFuture<'static, Done>>,
    /// One of those is from `waiting`.
    is_saying: bool,
    bad: u32,
    heard: Instant,
    /// When the client last took something.
    taken: Instant,
}

struct Done {
    frame: Value,
    was_waiting: bool,
}

/// What can happen to a client.
enum News {
    Written(io::Result<()>),
    Told(Result<(), Over>),
    /// The feed could not write all of it.
    Woken,
    Read(io::Result<usize>),
    Done(Done),
    Tick,
    Stopped,
    /// Whoever it is may not be here any more.
    Left,
}

/// What a client asks over its socket is a request like any other.
fn traced(frame: &str, deeds: &Deeds) -> (Span, Context) {
    let context = telemetry::current();
    let span = telemetry::span(format!("socket {frame}"), context.trace)
        .of_kind(Kind::Server)
        .with("nacre.session", deeds.session.to_string());
    let context = span.context(&context);
    (span, context)
}

fn unfit(why: &str) -> Refusal {
    Refusal {
        code: "bad-frame",
        ..Refusal::invalid(why)
    }
}

async fn woken(parked: Option<&Arc<Direct>>) {
    match parked {
        Some(direct) => direct.woken.notified().await,
        None => std::future::pending().await,
    }
}

/// How a socket ends.
enum End {
    /// Broken, silent, or closed by the client.
    Gone,
    Close(u16, &'static str),
}

impl From<Foul> for End {
    fn from(Foul(code, reason): Foul) -> Self {
        Self::Close(code, reason)
    }
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Over> for End {
    fn from(over: Over) -> Self {
        match over {
            Over::Elsewhere => Self::Close(RESTART, "the session is elsewhere: connect again"),
            Over::Store(error) => {
                tracing::warn!(%error, "a client cannot be given what it missed");
                Self::Close(INTERNAL, "the log cannot be read: connect again")
            }
        }
    }
}

impl Client {
    /// `read` came with the handshake.
    pub(super) fn new(
        replay: Replay,
        deeds: Deeds,
        leave: Leave,
        read: &[u8],
        direct: Option<Arc<Direct>>,
    ) -> Self {
        let settings = deeds.shared.settings.clone();
        let now = Instant::now();
        Self {
            replay,
            deeds,
            leave,
            direct,
            hearing: Hearing::new(read, settings.frame),
            pace: Pace::new(settings.burst, settings.each_second, now),
            out: Out::default(),
            waiting: VecDeque::new(),
            doing: FuturesUnordered::new(),
            is_saying: false,
            bad: 0,
            heard: now,
            taken: now,
            settings,
        }
    }

    /// Until it is gone.
    pub(super) async fn live<R, W>(mut self, mut reader: R, mut writer: W, resume: bool)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if resume && self.deeds.caller.may_act() {
            self.wake();
        }
        let Err(end) = self.run(&mut reader, &mut writer).await else {
            return;
        };
        if let End::Close(code, reason) = end {
            self.out.close(code, reason);
            let _ = timeout(FAREWELL, self.out.flush(&mut writer)).await;
            let _ = writer.shutdown().await;
            // Closing with something unread would destroy what the client has not read yet.
            let mut sink = tokio::io::sink();
            let _ = timeout(FAREWELL, tokio::io::copy(&mut reader, &mut sink)).await;
        }
    }

    async fn run<R, W>(&mut self, reader: &mut R, writer: &mut W) -> Result<(), End>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (stop, leave) = (self.deeds.shared.stop.clone(), Arc::clone(&self.leave));
        let mut left = std::pin::pin!(leave.cancelled());
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut tick = std::pin::pin!(sleep_until(Instant::now() + self.settings.ping));
        let mut batches = VecDeque::new();
        self.listen()?;
        loop {
            if self.out.is_empty() && self.replay.try_next(&mut batches)? {
                self.out.put(&mut batches);
            }
            let can_hear = self.out.len() < UNTAKEN && self.waiting.len() < WAITING;
            let direct = self.direct.clone();
            let parked = direct
                .as_ref()
                .filter(|direct| self.out.is_empty() && self.replay.park(direct));
            let news = tokio::select! {
                written = self.out.write(writer), if !self.out.is_empty() => News::Written(written),
                next = self.replay.next(&mut batches), if self.out.is_empty() && parked.is_none() => {
                    News::Told(next)
                }
                () = woken(parked) => News::Woken,
                read = reader.read_buf(self.hearing.buffer()), if can_hear => News::Read(read),
                Some(done) = self.doing.next(), if !self.doing.is_empty() => News::Done(done),
                () = &mut tick => News::Tick,
                () = &mut stopped => News::Stopped,
                () = &mut left => News::Left,
            };
            // What the feed has begun to write comes before anything of ours.
            if let Some(direct) = parked {
                let rest = self.replay.unpark(direct);
                self.out.put_first(rest);
            }
            match news {
                News::Written(written) => {
                    written?;
                    self.taken = Instant::now();
                    if self.out.is_empty() {
                        // There is room now for what was heard before.
                        self.listen()?;
                    }
                }
                News::Told(next) => {
                    next?;
                    self.taken = Instant::now();
                    self.out.put(&mut batches);
                }
                News::Woken => self.taken = Instant::now(),
                News::Read(read) => {
                    if read? == 0 {
                        return Err(End::Gone);
                    }
                    self.heard = Instant::now();
                    self.listen()?;
                }
                News::Done(done) => self.finish(&done)?,
                News::Tick => {
                    let now = Instant::now();
                    tick.as_mut().reset(now + self.settings.ping);
                    self.check(now)?;
                }
                News::Stopped => return Err(End::Close(RESTART, "the server restarts")),
                News::Left => {
                    return Err(End::Close(POLICY, "not let in any more: sign in again"));
                }
            }
        }
    }

    /// Sends a ping, unless the client is dead.
    fn check(&mut self, now: Instant) -> Result<(), End> {
        let is_silent = now.duration_since(self.heard) >= self.settings.dead;
        let is_stuck = now.duration_since(self.taken) >= self.settings.dead && !self.out.is_empty();
        // What we do not listen to is no silence of theirs.
        let is_deaf = self.out.len() >= UNTAKEN || self.waiting.len() >= WAITING;
        if is_stuck || (is_silent && !is_deaf) {
            return Err(End::Gone);
        }
        if self.out.is_empty() {
            self.taken = now;
            self.out.ping();
        }
        Ok(())
    }

    /// All that was heard whole.
    fn listen(&mut self) -> Result<(), End> {
        while self.out.len() < UNTAKEN
            && self.waiting.len() < WAITING
            && let Some(heard) = self.hearing.next()?
        {
            match heard {
                Heard::Text(text) => self.text(&text)?,
                Heard::Binary => self.bad(&unfit("a frame is text"), None)?,
                Heard::Ping(payload) => self.out.pong(&payload),
                Heard::Pong => {}
                Heard::Close(code) => {
                    let code = code.unwrap_or(1000);
                    return Err(End::Close(code, ""));
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) -> Result<(), End> {
        if !self.pace.allows(Instant::now()) {
            let refusal = Refusal {
                code: "rate-limited",
                ..Refusal::throttled(1, "too many frames: wait a moment")
            };
            return self.bad(&refusal, None);
        }
        let frame: FromClient = match serde_json::from_slice(text) {
            Ok(frame) => frame,
            Err(error) => {
                let said: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
                let message = error.to_string();
                let message = &message[..message.floor_char_boundary(300)];
                return self.bad(&unfit(message), Some(&said));
            }
        };
        if frame == FromClient::Ping {
            self.out.say(&json!({ "type": "pong" }));
            return Ok(());
        }
        if !self.deeds.caller.may_act() && !is_looking(&frame) {
            let said = serde_json::from_slice(text).unwrap_or(Value::Null);
            let refusal = Refusal::forbidden("a viewer may only look");
            return self.bad(&refusal, Some(&said));
        }
        if is_slow(&frame) {
            if self.doing.len() >= DEEDS {
                let refusal = Refusal::conflict("busy", "too much is under way: wait for it");
                self.out.say(&error(&refusal, &about(&frame)));
                return Ok(());
            }
            self.perform(frame, false);
        } else {
            self.waiting.push_back(frame);
            self.say_next();
        }
        Ok(())
    }

    fn say_next(&mut self) {
        if !self.is_saying
            && let Some(frame) = self.waiting.pop_front()
        {
            self.is_saying = true;
            self.perform(frame, true);
        }
    }

    fn perform(&mut self, frame: FromClient, was_waiting: bool) {
        let deeds = self.deeds.clone();
        let about = about(&frame);
        let (mut span, context) = traced(about["frame"].as_str().unwrap_or_default(), &deeds);
        self.doing.push(Box::pin(async move {
            let frame = match Box::pin(telemetry::within(context, deeds.perform(frame))).await {
                Ok(frame) => frame.unwrap_or(Value::Null),
                Err(refusal) => {
                    span.fail(refusal.code);
                    error(&refusal, &about)
                }
            };
            Done { frame, was_waiting }
        }));
    }

    fn wake(&mut self) {
        let deeds = self.deeds.clone();
        let (mut span, context) = traced("connect", &deeds);
        self.doing.push(Box::pin(async move {
            let woken = async {
                let handle = deeds.shared.sessions.open(deeds.session).await?;
                handle.ensure_ready().await
            };
            let frame = match Box::pin(telemetry::within(context, woken)).await {
                Ok(_) => Value::Null,
                Err(failed) => {
                    let refusal = Refusal::from(failed);
                    span.fail(refusal.code);
                    error(&refusal, &json!({ "frame": "connect" }))
                }
            };
            Done {
                frame,
                was_waiting: false,
            }
        }));
    }

    fn finish(&mut self, done: &Done) -> Result<(), End> {
        if !done.frame.is_null() {
            self.out.say(&done.frame);
        }
        if done.was_waiting {
            self.is_saying = false;
            self.say_next();
        }
        // There may be room now for what was heard before.
        self.listen()
    }

    /// Told to the one who sent it; the socket lives, for a while.
    fn bad(&mut self, refusal: &Refusal, said: Option<&Value>) -> Result<(), End> {
        self.bad += 1;
        if self.bad > self.settings.bad_frames {
            return Err(End::Close(POLICY, "too many frames that cannot be used"));
        }
        let about = said.map(named).unwrap_or_default();
        self.out.say(&error(refusal, &about));
        Ok(())
    }
}
