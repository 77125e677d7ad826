//! The same events to the same clients, through our gateway and through Node's `ws`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use super::super::stats::{Samples, Summary, middle};
use super::clients::{Clients, SENT};
use super::relay::Relay;
use super::{Ground, count};
use crate::error::CommandError;

/// Where a relay's sockets are.
const HEAD: &str = "/ HTTP/1.1\r\nHost: localhost\r\n";

/// What is told to whom.
#[derive(Debug, Clone, Copy)]
struct Load {
    clients: usize,
    stalled: usize,
    events: usize,
    /// Between two events; none if all are told at once.
    gap: Option<Duration>,
}

/// What came of it.
struct Carried {
    /// Events times clients in a second of the processor.
    per_second: f64,
    ages: Samples,
}

/// One event in each write, and then more than can be written one by one.
pub(super) async fn deliveries(ground: &mut Ground) -> Result<(), CommandError> {
    let much = ground.runs.deliveries;
    let load = |clients, events, gap| Load {
        clients,
        stalled: 0,
        events,
        gap: Some(Duration::from_millis(gap)),
    };
    let backlog = Load {
        clients: ground.runs.crowd,
        stalled: 0,
        events: much / 60,
        gap: None,
    };
    let loads = [
        ("deliveries: 1 client", 1.5, load(1, much / 20, 1)),
        ("deliveries: 100 clients", 1.5, load(100, much / 100, 5)),
        (
            "deliveries: 1,000 clients",
            1.5,
            load(ground.runs.crowd, much / 1000, 50),
        ),
        ("deliveries: 1,000 clients, backlog", 5.0, backlog),
    ];
    for (name, at_least, load) in loads {
        let (mut ours, mut nodes) = (Vec::new(), Vec::new());
        for _ in 0..ground.runs.rounds {
            ours.push(ground.carry(Which::Ours, load).await?.per_second);
            nodes.push(ground.carry(Which::Node, load).await?.per_second);
        }
        let ratios = ours.iter().zip(&nodes).map(|(ours, nodes)| ours / nodes);
        let ratio = middle(ratios.collect());
        let report = &mut ground.report;
        let unit = "deliveries/CPU-s";
        report.value(&format!("{name}, ours"), middle(ours).round(), unit);
        report.value(&format!("{name}, Node"), middle(nodes).round(), unit);
        report.goal_at_least(name, "× Node's", ratio, at_least, "");
    }
    Ok(())
}

/// How old events are when they come, with and without a client that never reads.
pub(super) async fn latency(ground: &mut Ground) -> Result<(), CommandError> {
    let load = Load {
        clients: 100,
        stalled: 0,
        events: ground.runs.paced,
        gap: Some(Duration::from_millis(1)),
    };
    let stalled = Load { stalled: 1, ..load };
    let mut with = Vec::new();
    let mut without = Vec::new();
    for _ in 0..ground.runs.rounds {
        without.push(summary(&ground.carry(Which::Ours, load).await?));
        with.push(summary(&ground.carry(Which::Ours, stalled).await?));
    }
    let node = summary(&ground.carry(Which::Node, load).await?);
    let p99 = |of: &[Summary]| middle(of.iter().map(|summary| summary.p99_ms).collect());
    let p50 = |of: &[Summary]| middle(of.iter().map(|summary| summary.p50_ms).collect());
    let report = &mut ground.report;
    report.value("latency: ours", p50(&without), "ms p50");
    report.value("latency: Node", node.p50_ms, "ms p50");
    report.value("latency: Node", node.p99_ms, "ms p99");
    report.value(
        "latency: ours beside a stalled client",
        p99(&with),
        "ms p99",
    );
    report.goal(
        "latency: 1,000 events/s, 100 clients",
        "p99",
        p99(&without),
        1.0,
        "ms",
    );
    let ratio = p99(&with) / p99(&without);
    report.goal(
        "latency: beside a stalled client",
        "of p99 without",
        ratio,
        1.25,
        "",
    );
    Ok(())
}

fn summary(carried: &Carried) -> Summary {
    carried.ages.summary().unwrap_or(Summary {
        n: 0,
        min_ms: 0.0,
        p50_ms: 0.0,
        p95_ms: 0.0,
        p99_ms: 0.0,
    })
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Ours,
    Node,
}

impl Ground {
    async fn carry(&self, which: Which, load: Load) -> Result<Carried, CommandError> {
        self.interrupt
            .or(async { Ok(self.try_carry(which, load).await?) })
            .await
    }

    async fn try_carry(&self, which: Which, load: Load) -> anyhow::Result<Carried> {
        let mut relay = match which {
            Which::Ours => {
                let directory = self.directory.join("gateway");
                fs_err::create_dir_all(&directory)?;
                Relay::ours(&directory).await?
            }
            Which::Node => Relay::node(&self.directory.join("node")).await?,
        };
        let begun = Instant::now();
        let (reading, stalled) = (load.clients, load.stalled);
        let clients = Clients::connect(relay.address, HEAD, reading, stalled, begun).await?;
        // What is said to newcomers, and what runs only once, is over.
        relay.tell(&event(begun)).await?;
        clients.until_told(load.clients as u64).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(clients.ages());
        let before = relay.used()?;
        if let Some(gap) = load.gap {
            let mut ticks = tokio::time::interval(gap);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            for _ in 0..load.events {
                ticks.tick().await;
                relay.tell(&event(begun)).await?;
            }
        } else {
            let mut all = String::new();
            for _ in 0..load.events {
                all.push_str(&event(begun));
            }
            relay.tell(&all).await?;
        }
        let deliveries = (load.clients * load.events) as u64;
        clients.until_told(deliveries).await?;
        Ok(Carried {
            per_second: count(deliveries) / (relay.used()? - before),
            ages: clients.ages(),
        })
    }
}

/// As large as most of what is told.
fn event(begun: Instant) -> String {
    let mut line = format!("{{{SENT}{}", begun.elapsed().as_micros());
    let _ = writeln!(
        line,
        r#","type":"part","message_id":"m","part_id":"p","content":{{"kind":"text","text":"{:x<120}"}}}}"#,
        ""
    );
    line
}
