use std::time::{Duration, Instant};

use provider::{Provider as _, SandboxId};

use super::super::census::{is_keeper, processes, sizes};
use super::super::machine::memory;
use super::super::stats::{Samples, number};
use super::{Bench, limited};
use crate::error::CommandError;

const MIB: f64 = 1024.0 * 1024.0;

/// Sandboxes in which nothing happens, all at once: what each costs.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let local = bench.local.clone();
    let count = bench.runs.idle;
    local.warm_up();
    // What the first one makes is shared by all.
    let first = local.create(&limited()).await?;
    local.remove(first.id).await?;
    settle().await;

    let before = memory("MemAvailable").unwrap_or(0);
    let begun = Instant::now();
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        bench.interrupt.check().await?;
        ids.push(local.create(&limited()).await?.id);
    }
    let mut up = Samples::default();
    up.add(begun.elapsed());
    settle().await;
    let after = memory("MemAvailable").unwrap_or(0);
    let cost = cost(bench, &ids).await?;

    let begun = Instant::now();
    for id in ids {
        bench.interrupt.check().await?;
        local.remove(id).await?;
    }
    let mut down = Samples::default();
    down.add(begun.elapsed());

    let each = |bytes: f64| bytes / number(count as u64) / MIB;
    let name = |what: &str| format!("idle_{count}: {what}");
    // Below zero when others gave back more than we took: then the figure is worth nothing.
    let machine = each(number(before) - number(after));
    let report = &mut bench.report;
    report.times(&name("all up"), &up);
    report.times(&name("all removed"), &down);
    report.value(&name("memory each, by MemAvailable"), machine, "MiB");
    report.value(
        &name("memory each, Pss of its processes"),
        each(number(cost.pss)),
        "MiB",
    );
    report.value(
        &name("largest keeper's resident set"),
        number(cost.keeper_max) / MIB,
        "MiB",
    );
    report.value(&name("keepers counted"), number(cost.keepers), "processes");
    report.goal(&name("memory each"), "MemAvailable", machine, 8.0, "MiB");
    report.goal(
        &name("memory each"),
        "Pss",
        each(number(cost.pss)),
        8.0,
        "MiB",
    );
    report.goal(
        &name("largest keeper"),
        "Rss",
        number(cost.keeper_max) / MIB,
        2.0,
        "MiB",
    );
    Ok(())
}

/// The kernel frees and accounts some things a little later.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[derive(Debug, Default)]
struct Cost {
    /// Of keepers and runners; what processes share is divided among them.
    pss: u64,
    keepers: u64,
    keeper_max: u64,
}

async fn cost(bench: &Bench, ids: &[SandboxId]) -> Result<Cost, CommandError> {
    let mut cost = Cost::default();
    for process in processes(&bench.home) {
        if is_keeper(&bench.home, process.pid) {
            let (resident, share) = sizes(process.pid)?;
            cost.pss += share;
            cost.keepers += 1;
            cost.keeper_max = cost.keeper_max.max(resident);
        }
    }
    for id in ids {
        let pid = bench.local.show(*id).await?.pid.ok_or_else(|| {
            CommandError::failed(format!(
                "sandbox {id} has no processes, though nobody ended it"
            ))
        })?;
        cost.pss += sizes(pid)?.1;
    }
    Ok(cost)
}
