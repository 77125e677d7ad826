//! What the link costs: the time from [`Handle::say`](super::Handle::say) to the hub's end of the
//! socket, beside the same bytes written to a socket by hand.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use wire::link::{FromHub, FromRunner, HubFrame, HubHello, PROTOCOL, RunnerFrame};

use super::dial::{Dial, DialError, Dialling};
use super::heart::BootClock;
use super::journal::{Identity, Journal, Limits};
use super::setup::{Dice, Link, Makings, Me};
use super::{Connection, random};

/// Of one way, over all deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    pub n: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    pub through_link: Figures,
    pub bare_socket: Figures,
}

/// Sends so many deltas, each when the one before has arrived.
pub async fn deltas(n: usize) -> io::Result<Latency> {
    Ok(Latency {
        through_link: through_link(n).await?,
        bare_socket: bare_socket(n).await?,
    })
}

fn delta(place: usize) -> FromRunner {
    FromRunner::PartDelta {
        message_id: "msg_bench".to_owned(),
        part_id: "prt_bench".to_owned(),
        offset: 8 * place as u64,
        text: "a pearl ".to_owned(),
    }
}

async fn through_link(n: usize) -> io::Result<Figures> {
    let (ours, theirs) = UnixStream::pair()?;
    let identity = Identity {
        session: "ses_bench".to_owned(),
        boot: "bench".to_owned(),
    };
    let me = Me {
        session: identity.session.clone(),
        generation: 1,
        boot: identity.boot.clone(),
    };
    let (link, handle, _hears) = Link::new(Makings {
        me,
        journal: Journal::in_memory(identity, Limits::USUAL),
        findings: Vec::new(),
        dial: Some(Box::new(Once(Some(ours)))),
        clock: Box::new(BootClock),
        jitter: Dice(random()),
    });
    let measuring = async {
        let mut hub = Hub::greet(theirs).await?;
        let mut took = Vec::with_capacity(n);
        for place in 0..n {
            let begun = Instant::now();
            handle.say(delta(place)).await.map_err(io::Error::other)?;
            hub.line().await?;
            took.push(begun.elapsed());
        }
        io::Result::Ok(figures(took))
    };
    tokio::select! {
        () = link.run() => Err(io::Error::other("the link ended")),
        figures = measuring => figures,
    }
}

async fn bare_socket(n: usize) -> io::Result<Figures> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut reader = BufReader::new(theirs);
    let mut line = Vec::new();
    let mut took = Vec::with_capacity(n);
    for place in 0..n {
        let begun = Instant::now();
        let mut frame = wire::link::write(&RunnerFrame::passing(delta(place)));
        frame.push(b'\n');
        ours.write_all(&frame).await?;
        line.clear();
        reader.read_until(b'\n', &mut line).await?;
        took.push(begun.elapsed());
    }
    Ok(figures(took))
}

fn figures(mut took: Vec<Duration>) -> Figures {
    took.sort_unstable();
    let at = |hundredth: usize| {
        let place = (took.len() * hundredth / 100).min(took.len().saturating_sub(1));
        took.get(place).copied().unwrap_or_default()
    };
    Figures {
        n: took.len(),
        p50: at(50),
        p99: at(99),
        max: at(100),
    }
}

/// As much of a hub as it takes.
struct Hub {
    lines: BufReader<OwnedReadHalf>,
    line: Vec<u8>,
    writer: OwnedWriteHalf,
}

impl Hub {
    async fn greet(stream: UnixStream) -> io::Result<Self> {
        let (reader, writer) = stream.into_split();
        let mut this = Self {
            lines: BufReader::new(reader),
            line: Vec::new(),
            writer,
        };
        this.line().await?;
        let hello = FromHub::Hello(HubHello {
            session: "ses_bench".to_owned(),
            generation: 1,
            boot: "bench".to_owned(),
            protocol: PROTOCOL,
            seen: Vec::new(),
        });
        let mut frame = wire::link::write(&HubFrame::new(1, hello));
        frame.push(b'\n');
        this.writer.write_all(&frame).await?;
        Ok(this)
    }

    async fn line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.lines.read_until(b'\n', &mut self.line).await?;
        Ok(())
    }
}

#[derive(Debug)]
struct Once(Option<UnixStream>);

impl Dial for Once {
    fn dial(&mut self) -> Dialling {
        let stream = self.0.take();
        Box::pin(async move { stream.map(Connection::lines).ok_or(DialError::Silent) })
    }
}
