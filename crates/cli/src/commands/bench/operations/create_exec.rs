use std::time::{Duration, Instant};

use provider::Provider as _;

use super::super::stats::Samples;
use super::{Bench, limited, succeed};
use crate::error::CommandError;

const NAME: &str = "create_exec";

/// From nothing to the end of the first command, limits and record included; one of ours, then
/// one of each peer, so that whatever else the machine does hits all alike.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let spec = limited();
    bench.local.warm_up();
    // The first makes what all share: the skeleton, the caches.
    let first = bench.local.create(&spec).await?;
    succeed(&bench.local, first.id, &["/bin/true"]).await?;
    bench.local.remove(first.id).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;

    let (mut whole, mut created) = (Samples::default(), Samples::default());
    let mut peers = vec![Samples::default(); bench.peers.len()];
    for round in 0..bench.runs.often {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        let sandbox = bench.local.create(&spec).await?;
        created.add(begun.elapsed());
        succeed(&bench.local, sandbox.id, &["/bin/true"]).await?;
        whole.add(begun.elapsed());
        bench.local.remove(sandbox.id).await?;
        for (peer, samples) in bench.peers.iter().zip(&mut peers) {
            if !peer.runs() || (peer.is_slow() && !bench.runs.is_turn(round)) {
                continue;
            }
            match peer.create_exec() {
                Ok(took) => samples.add(took),
                Err(error) => bench.report.peer_failed(peer.name(), format!("{error:#}")),
            }
        }
    }
    for (peer, samples) in bench.peers.iter().zip(&peers) {
        bench.report.peer_times(peer.name(), NAME, samples);
    }
    if let Some(summary) = bench.report.times(NAME, &whole) {
        let p50 = summary.p50_ms;
        bench.report.goal_by_peer(NAME, p50, "bubblewrap", 1.2);
        bench.report.goal_by_peer(NAME, p50, "runc", 0.25);
    }
    bench.report.times("create", &created);
    Ok(())
}
