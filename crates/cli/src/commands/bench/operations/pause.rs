use std::time::{Duration, Instant};

use provider::{Provider as _, SandboxSpec};

use super::super::stats::Samples;
use super::{Bench, detach, limited};
use crate::error::CommandError;

const GOAL_MS: f64 = 20.0;
/// Long enough for every busy process to have run, or to have stood.
const BETWEEN: Duration = Duration::from_millis(20);

/// With busy processes, which is when it is hard; with and without a quota, under which a frozen
/// process may have to wait for its share before it stands.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    for (cpu_millis, suffix) in [(None, ""), (Some(500), "_cpus_0.5")] {
        let spec = SandboxSpec {
            cpu_millis,
            ..limited()
        };
        measure(bench, &spec, suffix).await?;
    }
    Ok(())
}

async fn measure(bench: &mut Bench, spec: &SandboxSpec, suffix: &str) -> Result<(), CommandError> {
    let local = &bench.local;
    let id = local.create(spec).await?.id;
    for _ in 0..bench.runs.busy {
        detach(local, id, &["/bin/sh", "-c", "while :; do :; done"]).await?;
    }
    let mut wall = [Samples::default(), Samples::default()];
    let mut took = [Samples::default(), Samples::default()];
    for _ in 0..bench.runs.often {
        bench.interrupt.check().await?;
        tokio::time::sleep(BETWEEN).await;
        let begun = Instant::now();
        let paused = local.pause(id).await?;
        wall[0].add(begun.elapsed());
        took[0].add_ms(paused.took_ms);
        tokio::time::sleep(BETWEEN).await;
        let begun = Instant::now();
        let resumed = local.resume(id).await?;
        wall[1].add(begun.elapsed());
        took[1].add_ms(resumed.took_ms);
    }
    local.remove(id).await?;
    for (what, (wall, took)) in ["pause", "resume"].iter().zip(wall.iter().zip(&took)) {
        let name = format!("{what}{suffix}");
        if let Some(summary) = bench.report.times(&name, wall) {
            bench
                .report
                .goal(&name, "p99_ms", summary.p99_ms, GOAL_MS, "ms");
        }
        bench
            .report
            .times(&format!("{name}: as its receipt says"), took);
    }
    Ok(())
}
