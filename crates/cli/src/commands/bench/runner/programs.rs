use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use provider::Provider as _;

use super::super::census::{children, parent, sizes};
use super::super::machine::text;
use super::super::stats::number;
use super::Ground;
use crate::error::CommandError;

const MIB: f64 = 1024.0 * 1024.0;
const MB: f64 = 1_000_000.0;
/// The kernel frees and accounts some things a little later.
const SETTLE: Duration = Duration::from_secs(2);

/// What beside the agent is there in every sandbox: as files, and in memory, with the link up and no
/// agent.
pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let (id, mut hub) = ground.greeted().await?;
    let idle = async {
        match tokio::time::timeout(SETTLE, hub.stay()).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    };
    ground.interrupt.or(idle).await?;

    let missing = |name: &str| CommandError::failed(format!("{name} of sandbox {id} is not there"));
    let runner = ground.local.show(id).await?.pid;
    let runner = runner.ok_or_else(|| missing("the runner"))?;
    let keeper = parent(runner)
        .filter(|pid| is_named(*pid, "nacre-keeper"))
        .ok_or_else(|| missing("the keeper"))?;
    let workplace = children(runner)
        .into_iter()
        .find(|pid| is_named(*pid, "nacre-workplace"))
        .ok_or_else(|| missing("the workplace"))?;

    let (mut rss, mut pss, mut libraries) = (0, 0, 0);
    // By what they are on the disk: two processes of one program have it once.
    let mut programs = BTreeMap::new();
    for (name, pid) in [
        ("keeper", keeper),
        ("runner", runner),
        ("workplace", workplace),
    ] {
        let (resident, share) = sizes(pid)?;
        rss += resident;
        pss += share;
        let mut value = |what: &str, bytes: u64, unit: f64, name_of_unit| {
            let name = format!("{name}: {what}");
            ground
                .report
                .value(&name, number(bytes) / unit, name_of_unit);
        };
        value("idle, Rss", resident, MIB, "MiB");
        value("idle, Pss", share, MIB, "MiB");
        if name != "keeper" {
            let file = fs_err::metadata(format!("/proc/{pid}/exe"))?;
            programs.insert((file.dev(), file.ino()), file.len());
            libraries += text(&format!("/proc/{pid}/maps")).matches(".so").count() as u64;
        }
    }
    let bytes = programs.values().sum();
    let report = &mut ground.report;
    let name = "runner and workplace";
    report.goal(name, "program", number(bytes) / MB, 6.0, "MB");
    report.goal(name, "shared libraries", number(libraries), 0.0, "mapped");
    let name = "keeper, runner and workplace, idle";
    report.goal(name, "Rss", number(rss) / MIB, 8.0, "MiB");
    report.goal(name, "Pss", number(pss) / MIB, 8.0, "MiB");
    ground.local.remove(id).await?;
    Ok(())
}

fn is_named(pid: i32, name: &str) -> bool {
    text(&format!("/proc/{pid}/comm")).trim_end() == name
}
