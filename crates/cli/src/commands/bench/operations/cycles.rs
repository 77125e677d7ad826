use std::time::{Duration, Instant};

use provider::Provider as _;

use super::super::census::Census;
use super::super::report::Counter;
use super::super::stats::{Samples, number};
use super::{Bench, limited};
use crate::error::CommandError;

/// Within this, everything must be as it was.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Makes and removes sandboxes, then counts what is left.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let local = bench.local.clone();
    let count = bench.runs.cycles;
    local.warm_up();
    let census = prepare(bench).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = census.take();

    let mut times = Samples::default();
    for _ in 0..count {
        bench.interrupt.check().await?;
        let begun = Instant::now();
        let sandbox = local.create(&limited()).await?;
        local.remove(sandbox.id).await?;
        times.add(begun.elapsed());
    }
    bench.report.times("create and remove", &times);

    let ended = Instant::now();
    let mut returned = vec![None; before.len()];
    let mut after = census.take();
    loop {
        let now = ended.elapsed();
        for ((returned, (_, before)), (_, after)) in returned.iter_mut().zip(&before).zip(&after) {
            // What has returned may rise again: others use this machine too.
            if after > before {
                *returned = None;
            } else {
                returned.get_or_insert(now);
            }
        }
        if returned.iter().all(Option::is_some) || now > PATIENCE {
            break;
        }
        bench.interrupt.check().await?;
        tokio::time::sleep(LOOK_EVERY).await;
        after = census.take();
    }
    let left = returned
        .iter()
        .filter(|returned| returned.is_none())
        .count();
    for (((name, before), (_, after)), returned) in before.into_iter().zip(after).zip(returned) {
        let returned_ms = returned.map(|took| took.as_secs_f64() * 1000.0);
        bench.report.counter(Counter {
            name,
            before,
            after,
            returned_ms,
        });
    }
    let name = format!("cycles_{count}");
    let left = number(left as u64);
    bench
        .report
        .goal(&name, "counters not back in 10 s", left, 0.0, "counters");
    Ok(())
}

/// One cycle before the first count, which also shows where the home's cgroups are.
async fn prepare(bench: &Bench) -> Result<Census, CommandError> {
    let sandbox = bench.local.create(&limited()).await?;
    let pid = bench.local.show(sandbox.id).await?.pid;
    let census = pid.and_then(|pid| Census::new(&bench.home, pid));
    bench.local.remove(sandbox.id).await?;
    census.ok_or_else(|| CommandError::failed("the sandbox is in no cgroup of the home's"))
}
