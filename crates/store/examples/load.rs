//! A process that writes to a store, for tests that end it and for measuring.
//!
//! ```text
//! load append FILE SESSIONS     appends until it is ended; prints each event that it was told of
//! load full DIRECTORY           fills the file system there, frees some of it and goes on
//! load measure FILE|ADDRESS     how long commits take
//! ```

#![expect(clippy::print_stdout, reason = "whoever started it reads that")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use model::session::Lifecycle;
use model::{Clock as _, Id, SignedDuration, SystemClock};
use nacre_store::frames::Frame;
use nacre_store::sessions::{Channel, NewSession, Type};
use nacre_store::{
    Config, Durability, Error, Fence, Location, NewEvent, Replay, StateColumns, Store, Write,
};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["append", file, sessions] => append(file, sessions.parse()?).await,
        ["full", directory] => full(directory).await,
        ["measure", address] => measure(address).await,
        _ => bail!("load append FILE SESSIONS | full DIRECTORY | measure ADDRESS"),
    }
}

async fn session(store: &Store) -> Result<Fence> {
    let now = SystemClock.now();
    let (organisation, id) = (Id::new(&SystemClock), Id::new(&SystemClock));
    let mut tx = store.begin().await?;
    tx.create_organisation(organisation, "Load", now).await?;
    tx.create_session(&NewSession {
        id,
        organisation,
        created_by: None,
        parent: None,
        title: "Load".to_owned(),
        r#type: Type::Coding,
        channel: Channel::Api,
        provider: "local".to_owned(),
        spec: "{}".to_owned(),
        state: StateColumns::from(Lifecycle::new()),
        at: now,
    })
    .await?;
    tx.commit().await?;
    let until = now + SignedDuration::from_hours(1);
    Ok(store.take_over(id, "load", now, until).await?)
}

/// Prints `SESSION SEQ` for each event after it was told that it is committed.
async fn append(file: &str, sessions: usize) -> Result<()> {
    let store = Store::open(&Config::new(Location::File(file.into()))).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..sessions {
        let store = store.clone();
        let fence = session(&store).await?;
        tasks.spawn(async move {
            for number in 1.. {
                let write = write(fence, number, 1 + number % 5)?;
                let committed = store.append(write).await?;
                let mut out = std::io::stdout().lock();
                for event in committed.events {
                    writeln!(out, "{} {}", fence.session, event.seq)?;
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// A frame of a runner that brings `events` events, the first of which opens a message.
fn write(fence: Fence, number: u64, events: u64) -> Result<Write> {
    let frame = Frame {
        generation: 1,
        boot: "boot".to_owned(),
        number,
    };
    let open = format!(r#"{{"type":"message","message_id":"m{number}","channel":"web:default"}}"#);
    let mut write = Write::new(fence, SystemClock.now())
        .frame(frame)
        .event(NewEvent::from_json(open)?);
    let text = "All work and no play makes a dull log. ".repeat(5);
    for part in 1..events {
        let part = format!(
            r#"{{"type":"part","message_id":"m{number}","part_id":"{part}","content":{{"kind":"text","text":"{text}"}}}}"#
        );
        write = write.event(NewEvent::from_json(part)?);
    }
    Ok(write)
}

async fn full(directory: &str) -> Result<()> {
    let ballast = format!("{directory}/ballast");
    fs_err::write(&ballast, vec![1; 4 << 20])?;
    let location = Location::File(format!("{directory}/nacre.db").into());
    let store = Store::open(&Config::new(location.clone())).await?;
    let fence = session(&store).await?;
    let long = format!(r#"{{"type":"title","title":"{}"}}"#, "x".repeat(10_000));
    let event = NewEvent::from_json(long)?;
    let append = |store: Store| {
        let write = Write::new(fence, SystemClock.now()).event(event.clone());
        async move { store.append(write).await }
    };
    let mut told = 0;
    let error = loop {
        match append(store.clone()).await {
            Ok(committed) => told = committed.events[0].seq,
            Err(error) => break error,
        }
        ensure!(told < 10_000, "the file system does not fill up");
    };
    ensure!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    println!("full after {told}: {error:?}");
    fs_err::remove_file(&ballast)?;
    // Without being opened anew, and without a gap.
    for _ in 0..10 {
        let next = append(store.clone()).await.context("after room was made")?;
        ensure!(next.events[0].seq == told + 1, "{next:?} after {told}");
        told += 1;
    }
    store.close().await?;
    let store = Store::open(&Config::new(location)).await?;
    let mut seen = 0;
    while let Replay::Events { events, .. } = store.events_after(fence.session, seen, 100).await? {
        let Some(last) = events.last() else { break };
        seen = last.seq;
    }
    ensure!(seen == told, "{seen} of {told} are there");
    println!("whole with {told}");
    Ok(())
}

async fn measure(address: &str) -> Result<()> {
    for durability in [Durability::Process, Durability::Machine] {
        let mut config = Config::new(address.parse()?);
        config.durability = durability;
        let store = Store::open(&config).await?;
        println!("{durability:?}");
        alone(&store).await?;
        steady(&store).await?;
        flood(&store).await?;
        store.close().await?;
    }
    Ok(())
}

/// One session, one commit after another, five events each.
async fn alone(store: &Store) -> Result<()> {
    let fence = session(store).await?;
    let mut times = Vec::new();
    for number in 1..=2000 {
        let write = write(fence, number, 5)?;
        let start = Instant::now();
        store.append(write).await?;
        times.push(start.elapsed());
    }
    report("five events a commit", times);
    Ok(())
}

/// A thousand events a second over a hundred sessions, each at its own time.
async fn steady(store: &Store) -> Result<()> {
    const SESSIONS: u32 = 100;
    let beat = Duration::from_millis(100);
    let mut tasks = JoinSet::new();
    for place in 0..SESSIONS {
        let store = store.clone();
        let fence = session(&store).await?;
        tasks.spawn(async move {
            let first = tokio::time::Instant::now() + beat * place / SESSIONS;
            let mut ticks = tokio::time::interval_at(first, beat);
            let mut times = Vec::new();
            for number in 1..=100 {
                ticks.tick().await;
                times.push(one(&store, fence, number).await?);
            }
            anyhow::Ok(times)
        });
    }
    let times = all(tasks).await?;
    report("1,000 events/s over 100 sessions", times);
    Ok(())
}

/// How long one event takes to be committed.
async fn one(store: &Store, fence: Fence, number: u64) -> Result<Duration> {
    let write = write(fence, number, 1)?;
    let start = Instant::now();
    store.append(write).await?;
    Ok(start.elapsed())
}

async fn all(mut tasks: JoinSet<Result<Vec<Duration>>>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        times.extend(ended??);
    }
    Ok(times)
}

/// As much as goes through, from a hundred sessions.
async fn flood(store: &Store) -> Result<()> {
    let store = Arc::new(store.clone());
    let mut fences = Vec::new();
    for _ in 0..100 {
        fences.push(session(&store).await?);
    }
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for fence in fences {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut times = Vec::new();
            for number in 1..=100 {
                times.push(one(&store, fence, number).await?);
            }
            anyhow::Ok(times)
        });
    }
    let times = all(tasks).await?;
    let rate = times.len() * 1000 / usize::try_from(start.elapsed().as_millis())?.max(1);
    report(&format!("{rate} events/s at most"), times);
    Ok(())
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent / 100).min(times.len() - 1);
        times[place].as_secs_f64() * 1000.0
    };
    let (p50, p95, p99, most) = (at(50), at(95), at(99), at(100));
    println!("  {what}: p50 {p50:.3} ms, p95 {p95:.3} ms, p99 {p99:.3} ms, most {most:.3} ms");
}
