use std::time::Instant;

use provider::Provider as _;

use super::super::stats::Samples;
use super::{Bench, limited, succeed};
use crate::error::CommandError;

const NAME: &str = "exec";

/// A command in a sandbox that runs already.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let sandbox = bench.local.create(&limited()).await?;
    let mut taking_part = Vec::new();
    for (index, peer) in bench.peers.iter_mut().enumerate() {
        match peer.start() {
            Ok(true) => taking_part.push((index, Samples::default())),
            Ok(false) => {}
            Err(error) => bench.report.peer_failed(peer.name(), format!("{error:#}")),
        }
    }
    let mut ours = Samples::default();
    for round in 0..bench.runs.often {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        succeed(&bench.local, sandbox.id, &["/bin/true"]).await?;
        ours.add(begun.elapsed());
        if !bench.runs.is_turn(round) {
            continue;
        }
        for (index, samples) in &mut taking_part {
            let peer = &bench.peers[*index];
            match peer.exec() {
                Ok(took) => samples.add(took),
                Err(error) => bench.report.peer_failed(peer.name(), format!("{error:#}")),
            }
        }
    }
    for (index, samples) in &taking_part {
        let name = bench.peers[*index].name();
        bench.report.peer_times(name, NAME, samples);
    }
    if let Some(summary) = bench.report.times(NAME, &ours) {
        bench.report.goal(NAME, "p50_ms", summary.p50_ms, 3.0, "ms");
    }
    bench.local.remove(sandbox.id).await?;
    Ok(())
}
