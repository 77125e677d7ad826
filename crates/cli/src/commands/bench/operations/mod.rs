//! What is measured. Each leaves its sandboxes to be removed by the caller if it fails.

pub(super) mod create_exec;
pub(super) mod cycles;
pub(super) mod dial;
pub(super) mod exec;
pub(super) mod files;
pub(super) mod fork;
pub(super) mod idle;
pub(super) mod pause;
pub(super) mod snapshot;
pub(super) mod stop;

use camino::Utf8PathBuf;
use model::{ByteCount, SnapshotId};
use provider::{ExecSpec, Origin, Provider as _, ProviderError, SandboxId, SandboxSpec};
use provider_local::Local;

use super::interrupt::Interrupt;
use super::peers::Peer;
use super::report::Report;
use crate::error::CommandError;

/// The same for our sandboxes and for those peers that have limits.
pub(super) mod limits {
    pub(in super::super) const MEMORY: u64 = 512 << 20;
    pub(in super::super) const PIDS: u64 = 256;
    pub(in super::super) const CPU_MILLIS: u64 = 1000;
}

/// What every measurement is given.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) local: Local,
    pub(super) home: Utf8PathBuf,
    pub(super) runs: Runs,
    pub(super) peers: Vec<Peer>,
    pub(super) interrupt: Interrupt,
    pub(super) report: Report,
}

/// How often, and how many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    /// What is quick.
    often: usize,
    /// What is slow: most peers, whole trees of files.
    seldom: usize,
    /// What takes seconds.
    few: usize,
    busy: usize,
    many_files: usize,
    /// Written just before a snapshot.
    fresh_files: usize,
    some_files: usize,
    herd: usize,
    idle: usize,
    cycles: usize,
}

impl Runs {
    pub(super) fn full(often: usize) -> Self {
        Self {
            often,
            seldom: often.div_ceil(5),
            few: often.div_ceil(40),
            busy: 20,
            many_files: 100_000,
            fresh_files: 10_000,
            some_files: 1000,
            herd: 100,
            idle: 500,
            cycles: 1000,
        }
    }

    pub(super) fn quick() -> Self {
        Self {
            often: 5,
            seldom: 2,
            few: 1,
            busy: 20,
            many_files: 2000,
            fresh_files: 500,
            some_files: 100,
            herd: 8,
            idle: 8,
            cycles: 10,
        }
    }

    /// Whether something that is done `seldom` is done in this round, evenly spread.
    fn is_turn(self, round: usize) -> bool {
        (round * self.seldom) / self.often != ((round + 1) * self.seldom) / self.often
    }
}

/// A sandbox with every limit, on the host's `/usr`.
fn limited() -> SandboxSpec {
    SandboxSpec {
        memory: Some(ByteCount::new(limits::MEMORY)),
        pids: Some(limits::PIDS),
        cpu_millis: Some(limits::CPU_MILLIS),
        ..SandboxSpec::from(Origin::Bare)
    }
}

fn from_snapshot(snapshot: &SnapshotId) -> SandboxSpec {
    SandboxSpec {
        origin: Origin::Snapshot(snapshot.clone()),
        ..limited()
    }
}

/// Runs a command to its end, which must be a good one.
pub(super) async fn succeed(
    local: &Local,
    id: SandboxId,
    argv: &[&str],
) -> Result<(), CommandError> {
    let done = local.exec(id, ExecSpec::new(argv)).await?.finish().await?;
    if done.exit.code == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(CommandError::failed(format!(
        "`{}` in the sandbox ended with {}: {}",
        argv.join(" "),
        done.exit.code,
        said.trim()
    )))
}

/// Starts a command that goes on by itself.
pub(super) async fn detach(
    local: &Local,
    id: SandboxId,
    argv: &[&str],
) -> Result<(), ProviderError> {
    let spec = ExecSpec {
        detach: true,
        ..ExecSpec::new(argv)
    };
    local.exec(id, spec).await.map(drop)
}

/// Makes small files, a thousand to a directory, with nothing but a shell.
async fn make_files(local: &Local, id: SandboxId, files: usize) -> Result<(), CommandError> {
    let script = format!(
        "set -e; i=0; mkdir /bench; cd /bench
        while [ $i -lt {files} ]; do
            if [ $((i % 1000)) = 0 ]; then d=d$((i / 1000)); mkdir $d; fi
            echo $i > $d/f$i; i=$((i + 1))
        done"
    );
    succeed(local, id, &["/bin/sh", "-c", &script]).await
}

/// A snapshot with this many files, from a sandbox that is gone again.
async fn snapshot_with_files(local: &Local, files: usize) -> Result<SnapshotId, CommandError> {
    let sandbox = local.create(&limited()).await?;
    make_files(local, sandbox.id, files).await?;
    let receipt = local.stop(sandbox.id).await?;
    local.remove(sandbox.id).await?;
    receipt
        .snapshot
        .ok_or_else(|| CommandError::failed("the stop gave no snapshot"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_seldom_is_spread_over_the_rounds() {
        let runs = Runs::full(200);
        let turns: Vec<usize> = (0..200).filter(|round| runs.is_turn(*round)).collect();
        assert_eq!((turns.len(), turns[0], turns[39]), (40, 4, 199));
        let gaps = turns.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.into_iter().all(|gap| gap == 5));
    }

    #[test]
    fn a_single_run_is_everyones_turn() {
        assert!(Runs::full(1).is_turn(0));
    }
}
