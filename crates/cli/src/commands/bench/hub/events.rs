//! The way of an event: said by a runner, committed, told to whoever watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use camino::Utf8Path;
use model::session::Place;
use model::{Clock as _, SignedDuration, SystemClock};
use provider::fake::Fake;
use serde_json::json;
use sessions::{Handle, Spec, Told};
use store::{NewEvent, Write};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::task::JoinSet;

use super::world::World;
use super::{Figure, Sizes, number, percentile, sorted};
use crate::error::CommandError;

pub(super) async fn run(directory: &Utf8Path, sizes: &Sizes) -> Result<Vec<Figure>, CommandError> {
    let fake = Fake::default();
    let world = World::over(&directory.join("events.db"), Arc::new(fake.clone())).await?;
    let begun = Instant::now();
    let each = Duration::from_secs_f64(number(sizes.sessions) / number(sizes.rate));
    let count = sizes.rate * sizes.seconds / sizes.sessions;
    let (mut saying, mut hearing) = (JoinSet::new(), JoinSet::new());
    for place in 0..sizes.sessions {
        let id = world.create(Spec::default()).await?;
        let session = world.sessions.open(id).await.map_err(anyhow::Error::from)?;
        let sandbox = session.ensure_ready().await.map_err(anyhow::Error::from)?;
        fake.silence(sandbox.sandbox).await?;
        let mut watch = session.watch().await.map_err(anyhow::Error::from)?;
        hearing.spawn(async move {
            let mut times = Vec::new();
            while times.len() < count {
                let Ok(told) = watch.told.recv().await else {
                    break;
                };
                if let Told::Numbered(event) = told
                    && let Some(said) = said_at(&event.body)
                {
                    times.push((begun.elapsed().as_secs_f64() - said) * 1000.0);
                }
            }
            times
        });
        // Not all at the same moment.
        let offset = each.mul_f64(number(place) / number(sizes.sessions));
        saying.spawn(say(
            fake.clone(),
            session,
            sandbox,
            begun,
            offset,
            each,
            count,
        ));
    }
    while let Some(said) = saying.join_next().await {
        said.map_err(anyhow::Error::from)??;
    }
    let mut times = Vec::new();
    while let Some(heard) = hearing.join_next().await {
        times.extend(heard.map_err(anyhow::Error::from)?);
    }
    let alone = alone(&world, sizes).await?;
    world.close().await?;
    let times = sorted(times);
    let detail = format!(
        "{} of {} events, {}/s over {} sessions; p50 {:.2}, worst {:.2} ms",
        times.len(),
        count * sizes.sessions,
        sizes.rate,
        sizes.sessions,
        percentile(&times, 50),
        percentile(&times, 100),
    );
    Ok(vec![
        Figure {
            name: "event_committed_and_told",
            value: percentile(&times, 99),
            unit: "ms p99",
            goal: Some(2.0),
            detail,
        },
        Figure {
            name: "event_committed_alone",
            value: percentile(&alone, 99),
            unit: "ms p99",
            goal: None,
            detail: format!(
                "as many, handed to the store by itself: no runner, no hub; p50 {:.2}, worst {:.2} ms",
                percentile(&alone, 50),
                percentile(&alone, 100),
            ),
        },
    ])
}

/// As many events in as much time, of which nobody is told: what the disk and the machine's clock
/// take of it in this run.
async fn alone(world: &World, sizes: &Sizes) -> Result<Vec<f64>, CommandError> {
    let each = Duration::from_secs_f64(number(sizes.sessions) / number(sizes.rate));
    let count = sizes.rate * sizes.seconds / sizes.sessions;
    let mut writing = JoinSet::new();
    for place in 0..sizes.sessions {
        let session = world.create(Spec::default()).await?;
        let store = world.store.clone();
        let offset = each.mul_f64(number(place) / number(sizes.sessions));
        writing.spawn(async move {
            let now = SystemClock.now();
            let until = now.checked_add(SignedDuration::from_hours(1))?;
            let fence = store.take_over(session, "alone", now, until).await?;
            tokio::time::sleep(offset).await;
            let mut ticks = tokio::time::interval(each);
            let mut times = Vec::new();
            for number in 0..count {
                ticks.tick().await;
                let begun = Instant::now();
                let event = json!({ "type": "agent_status", "status": "thinking",
                    "channel": "web:default", "detail": number.to_string() });
                let event = NewEvent::from_json(event.to_string())?;
                let write = Write::new(fence, SystemClock.now()).event(event);
                store.submit(write).await?.await?;
                times.push(begun.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(written) = writing.join_next().await {
        times.extend(written.map_err(anyhow::Error::from)??);
    }
    Ok(sorted(times))
}

fn said_at(body: &str) -> Option<f64> {
    let event: serde_json::Value = serde_json::from_str(body).ok()?;
    event["detail"].as_str()?.parse().ok()
}

/// As a runner does, in place of the one that was silenced.
async fn say(
    fake: Fake,
    session: Handle,
    place: Place,
    begun: Instant,
    offset: Duration,
    each: Duration,
    count: usize,
) -> anyhow::Result<()> {
    let stream = loop {
        match fake.knock(place.sandbox, "link").await {
            Some(stream) => break stream,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let hello = json!({ "type": "hello", "session": session.session().to_string(),
        "generation": place.generation.0, "boot": "bench", "protocol": 1, "term": 0 });
    writer.write_all(format!("{hello}\n").as_bytes()).await?;
    lines.next_line().await?.context("nobody greets")?;
    tokio::time::sleep(Duration::from_millis(200) + offset).await;
    let mut ticks = tokio::time::interval(each);
    for seq in 1..=count {
        tokio::select! {
            _ = ticks.tick() => {}
            // Acknowledgements are read, or they would pile up.
            () = async { while let Ok(Some(_)) = lines.next_line().await {} } => break,
        }
        let at = begun.elapsed().as_secs_f64().to_string();
        let frame = json!({ "type": "agent_status", "seq": seq, "status": "thinking",
            "channel": "web:default", "detail": at });
        writer.write_all(format!("{frame}\n").as_bytes()).await?;
    }
    // Until the last is acknowledged.
    let ending = async { while let Ok(Some(_)) = lines.next_line().await {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), ending).await;
    Ok(())
}
