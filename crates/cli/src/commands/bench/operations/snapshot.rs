use provider::Provider as _;

use super::super::stats::Samples;
use super::{Bench, limited, make_files};
use crate::error::CommandError;

/// A snapshot of a running sandbox right after it has written many files. How long it stands still
/// is what its agent notices.
pub(in super::super) async fn live(bench: &mut Bench) -> Result<(), CommandError> {
    let local = &bench.local;
    let files = bench.runs.fresh_files;
    let (mut frozen, mut sync, mut took) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..bench.runs.seldom.div_ceil(2) {
        bench.interrupt.check().await?;
        let id = local.create(&limited()).await?.id;
        make_files(local, id, files).await?;
        let receipt = local.snapshot(id, None).await?;
        frozen.add_ms(receipt.frozen_ms);
        sync.add_ms(receipt.sync_ms);
        took.add_ms(receipt.took_ms);
        local.remove(id).await?;
        if let Some(snapshot) = receipt.snapshot {
            local.delete_snapshot(&snapshot).await?;
        }
    }
    for (part, times) in [("frozen", &frozen), ("sync", &sync), ("took", &took)] {
        bench.report.times(&format!("snapshot_live_{part}"), times);
    }
    Ok(())
}
