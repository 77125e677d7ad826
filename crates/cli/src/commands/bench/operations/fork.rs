use std::time::{Duration, Instant};

use model::SnapshotId;
use provider::{Provider as _, ProviderError, SandboxId};
use provider_local::Local;
use tokio::task::JoinSet;

use super::super::stats::Samples;
use super::{Bench, from_snapshot as spec_from, limited, make_files, snapshot_with_files};
use crate::error::CommandError;

/// How many creates are under way at a time, at most.
const AT_ONCE: usize = 4;

/// One sandbox from a snapshot.
pub(in super::super) async fn from_snapshot(bench: &mut Bench) -> Result<(), CommandError> {
    let local = &bench.local;
    let snapshot = snapshot_with_files(local, bench.runs.some_files).await?;
    local.warm_up();
    let spec = spec_from(&snapshot);
    let mut times = Samples::default();
    for _ in 0..bench.runs.often {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        let sandbox = local.create(&spec).await?;
        times.add(begun.elapsed());
        local.remove(sandbox.id).await?;
    }
    let name = "fork_snapshot";
    if let Some(summary) = bench.report.times(name, &times) {
        bench
            .report
            .goal(name, "p99_ms", summary.p99_ms, 25.0, "ms");
    }
    local.delete_snapshot(&snapshot).await?;
    Ok(())
}

/// Many from one snapshot, all up at the end: one after the other, and some at a time.
pub(in super::super) async fn herd(bench: &mut Bench) -> Result<(), CommandError> {
    let local = bench.local.clone();
    let count = bench.runs.herd;
    let snapshot = snapshot_with_files(&local, bench.runs.some_files).await?;
    let mut times = [Samples::default(), Samples::default()];
    for _ in 0..bench.runs.few {
        for (at_once, times) in [1, AT_ONCE].into_iter().zip(&mut times) {
            bench.interrupt.check().await?;
            local.warm_up();
            tokio::time::sleep(Duration::from_millis(100)).await;
            let begun = Instant::now();
            let made = create_many(&local, &snapshot, count, at_once).await?;
            times.add(begun.elapsed());
            for id in made {
                bench.interrupt.check().await?;
                local.remove(id).await?;
            }
        }
    }
    let worst = ["", "_4_at_once"]
        .iter()
        .zip(&times)
        .filter_map(|(suffix, times)| {
            let summary = bench
                .report
                .times(&format!("forks_{count}{suffix}"), times)?;
            Some(summary.p99_ms)
        });
    if let Some(better) = worst.min_by(f64::total_cmp) {
        let name = format!("forks_{count}, the better way");
        bench.report.goal(&name, "p99_ms", better, 1000.0, "ms");
    }
    local.delete_snapshot(&snapshot).await?;
    Ok(())
}

async fn create_many(
    local: &Local,
    snapshot: &SnapshotId,
    count: usize,
    at_once: usize,
) -> Result<Vec<SandboxId>, ProviderError> {
    let mut under_way: JoinSet<Result<SandboxId, ProviderError>> = JoinSet::new();
    let mut made = Vec::with_capacity(count);
    let mut failed = None;
    for index in 0..count + at_once {
        if index >= at_once
            && let Some(done) = under_way.join_next().await
        {
            match done {
                Ok(Ok(id)) => made.push(id),
                Ok(Err(error)) => failed = Some(error),
                Err(error) => failed = Some(ProviderError::unavailable("create", error)),
            }
        }
        if index < count && failed.is_none() {
            let (local, spec) = (local.clone(), spec_from(snapshot));
            under_way.spawn(async move { Ok(local.create(&spec).await?.id) });
        }
    }
    failed.map_or(Ok(made), Err)
}

/// A copy of what a running sandbox has on disk, and one more sandbox on it.
pub(in super::super) async fn live(bench: &mut Bench) -> Result<(), CommandError> {
    let local = &bench.local;
    let id = local.create(&limited()).await?.id;
    make_files(local, id, bench.runs.some_files).await?;
    local.warm_up();
    let mut times = Samples::default();
    for _ in 0..bench.runs.seldom {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        let forks = local.fork(id, 1).await?;
        times.add(begun.elapsed());
        for fork in forks {
            local.remove(fork.id).await?;
        }
    }
    bench.report.times("fork_live", &times);
    local.remove(id).await?;
    Ok(())
}
