use std::time::Instant;

use provider::Provider as _;

use super::super::operations::succeed;
use super::super::stats::Samples;
use super::Ground;
use crate::error::CommandError;

const NAME: &str = "create_exec, with a workplace";

/// From nothing to the end of the first command, while the workplace starts beside it.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let spec = ground.workplace();
    // The first one brings what all share into the caches.
    let first = ground.local.create(&spec).await?;
    succeed(&ground.local, first.id, &["/bin/true"]).await?;
    ground.local.remove(first.id).await?;

    let (mut whole, mut created) = (Samples::default(), Samples::default());
    for _ in 0..ground.runs.creates {
        ground.interrupt.check().await?;
        let begun = Instant::now();
        let sandbox = ground.local.create(&spec).await?;
        created.add(begun.elapsed());
        succeed(&ground.local, sandbox.id, &["/bin/true"]).await?;
        whole.add(begun.elapsed());
        ground.local.remove(sandbox.id).await?;
    }
    if let Some(summary) = ground.report.times(NAME, &whole) {
        ground
            .report
            .goal(NAME, "p50_ms", summary.p50_ms, 15.0, "ms");
    }
    ground.report.times("create, with a workplace", &created);
    Ok(())
}
