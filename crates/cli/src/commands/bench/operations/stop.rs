use std::time::Instant;

use provider::Provider as _;

use super::super::stats::Samples;
use super::{Bench, limited, make_files};
use crate::error::CommandError;

const FEW_FILES: usize = 10;
const GOAL_MS: f64 = 5.0;

/// Sealing must not depend on how much there is to seal; writing back does, and is apart.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let runs = bench.runs;
    measure(bench, FEW_FILES, runs.often).await?;
    measure(bench, runs.many_files, runs.few).await
}

async fn measure(bench: &mut Bench, files: usize, runs: usize) -> Result<(), CommandError> {
    let local = &bench.local;
    let (mut sealed, mut sync, mut took) =
        (Samples::default(), Samples::default(), Samples::default());
    let mut digest = Samples::default();
    for run in 0..runs {
        bench.interrupt.check().await?;
        let id = local.create(&limited()).await?.id;
        make_files(local, id, files).await?;
        let receipt = local.stop(id).await?;
        sealed.add_ms(receipt.sealed_ms);
        sync.add_ms(receipt.sync_ms);
        took.add_ms(receipt.took_ms);
        let snapshot = receipt
            .snapshot
            .ok_or_else(|| CommandError::failed("the stop gave no snapshot"))?;
        if run == 0 {
            let begun = Instant::now();
            local.digest_snapshot(&snapshot).await?;
            digest.add(begun.elapsed());
        }
        local.remove(id).await?;
        local.delete_snapshot(&snapshot).await?;
    }
    let name = |part: &str| format!("stop_{files}_{part}");
    if let Some(summary) = bench.report.times(&name("sealed"), &sealed) {
        let p99 = summary.p99_ms;
        bench
            .report
            .goal(&name("sealed"), "p99_ms", p99, GOAL_MS, "ms");
    }
    bench.report.times(&name("sync"), &sync);
    bench.report.times(&name("took"), &took);
    bench.report.times(&name("digest"), &digest);
    Ok(())
}
