//! `nacre bench`: how long sandboxes take, beside their peers.
//!
//! [`operations`] measures, each kind in a file of its own; [`peers`] are measured in the same
//! rounds; [`report`] says what was found and whether it is what was asked for.

mod census;
mod egress;
pub(super) mod gateway;
mod hub;
mod interrupt;
mod load;
mod machine;
mod operations;
mod peers;
mod portable;
mod report;
mod runner;
mod stats;
mod storage;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use camino::{Utf8Path, Utf8PathBuf};
use camino_tempfile::Utf8TempDir;
use clap::ValueEnum;
use provider::Provider as _;
use provider_local::Local;

use self::interrupt::Interrupt;
use self::machine::Machine;
use self::operations::{Bench, Runs};
use self::report::Report;
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// How long sandboxes take on this machine, beside bubblewrap, runc and others
    #[command(after_help = "\
Examples:
  nacre bench sandbox --quick
  nacre bench sandbox --runs 500 --only create_exec,exec")]
    Sandbox(Arguments),
    /// Snapshots, stops and forks on each file system that this machine can make
    #[command(after_help = "\
Examples:
  nacre bench storage")]
    Storage(storage::Arguments),
    /// How much a sandbox's way out carries, beside no proxy and beside nginx
    #[command(after_help = "\
Examples:
  nacre bench egress --rounds 3 --connections 32")]
    Egress(egress::Arguments),
    /// How long snapshots take out and in, beside tar and zstd
    #[command(after_help = "\
Examples:
  nacre bench portable --quick")]
    Portable(portable::Arguments),
    /// What clients cost: fan-out beside Node's ws, idle sockets, previews beside Caddy
    #[command(after_help = "\
Examples:
  nacre bench gateway --quick --only idle,create")]
    Gateway(gateway::Arguments),
    /// What sessions cost: records, memory, events, a kill
    #[command(after_help = "\
Examples:
  nacre bench hub --quick")]
    Hub(hub::Arguments),
    /// What a sandbox's workplace costs: start, agent, link, terminal and gateway
    #[command(after_help = "\
Examples:
  nacre bench runner --base base --only agent_ready")]
    Runner(runner::Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often what is quick is measured; what is slow is measured less often
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Measure only these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Operation>,
    /// Few runs of everything: shows that it works, not how fast it is
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Where the throw-away home is made [default: in the configured home]
    #[arg(long, value_name = "DIR")]
    home: Option<Utf8PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Operation {
    /// From create to the end of the first command
    CreateExec,
    /// A command in a running sandbox
    Exec,
    /// Pause and resume with 20 busy processes
    #[value(alias = "resume")]
    Pause,
    /// Stop with few files and with many
    Stop,
    /// Create from a snapshot
    ForkSnapshot,
    /// 100 creates from a snapshot
    #[value(name = "forks_100")]
    Forks100,
    /// Fork of a running sandbox
    ForkLive,
    /// Snapshot of a running sandbox that has just written many files
    SnapshotLive,
    /// 500 idle sandboxes at once
    #[value(name = "idle_500")]
    Idle500,
    /// 1,000 times create and remove
    #[value(name = "cycles_1000")]
    Cycles1000,
    /// 1,000 small files in and out
    Files,
    /// A round trip to a port inside
    Dial,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::CreateExec => "create_exec",
            Self::Exec => "exec",
            Self::Pause => "pause",
            Self::Stop => "stop",
            Self::ForkSnapshot => "fork_snapshot",
            Self::Forks100 => "forks_100",
            Self::ForkLive => "fork_live",
            Self::SnapshotLive => "snapshot_live",
            Self::Idle500 => "idle_500",
            Self::Cycles1000 => "cycles_1000",
            Self::Files => "files",
            Self::Dial => "dial",
        }
    }

    async fn measure(self, bench: &mut Bench) -> Result<(), CommandError> {
        match self {
            Self::CreateExec => operations::create_exec::run(bench).await,
            Self::Exec => operations::exec::run(bench).await,
            Self::Pause => operations::pause::run(bench).await,
            Self::Stop => operations::stop::run(bench).await,
            Self::ForkSnapshot => operations::fork::from_snapshot(bench).await,
            Self::Forks100 => operations::fork::herd(bench).await,
            Self::ForkLive => operations::fork::live(bench).await,
            Self::SnapshotLive => operations::snapshot::live(bench).await,
            Self::Idle500 => operations::idle::run(bench).await,
            Self::Cycles1000 => operations::cycles::run(bench).await,
            Self::Files => operations::files::run(bench).await,
            Self::Dial => operations::dial::run(bench).await,
        }
    }
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Sandbox(arguments) => run_sandbox(app, &arguments).await,
        Command::Portable(arguments) => run_portable(app, &arguments).await,
        Command::Storage(arguments) => storage::run(app, &arguments),
        Command::Gateway(arguments) => gateway::run(app, &arguments).await,
        Command::Hub(arguments) => hub::run(app, &arguments).await,
        Command::Runner(arguments) => runner::run(app, &arguments).await,
        Command::Egress(arguments) => {
            egress::run(app, &arguments).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// From one throw-away home to others.
async fn run_portable(
    app: &App,
    arguments: &portable::Arguments,
) -> Result<ExitCode, CommandError> {
    let interrupt = Interrupt::listen()?;
    let configured = config::load()?.local;
    let place = Place::make(arguments.home.as_deref().unwrap_or(&configured.home))?;
    let root = place.directory.path().to_owned();
    let open = |home: &Utf8Path| {
        Local::open(&provider_local::Config {
            home: home.to_owned(),
            ..configured.clone()
        })
    };
    let local = open(&root.join("h"))?;
    let mut report = Report::new(arguments.quick, Machine::look(&root.join("h")), &[]);
    let mut ground = portable::Ground {
        local: &local,
        open: &open,
        place: &root,
        interrupt: &interrupt,
        report: &mut report,
    };
    let measured = portable::run(&mut ground, arguments).await;
    clear(&local).await?;
    drop(local);
    place.remove()?;
    measured?;
    report.machine.look_again();
    app.output.result(&report, || report.shown())?;
    Ok(ExitCode::SUCCESS)
}

async fn run_sandbox(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let interrupt = Interrupt::listen()?;
    let configured = config::load()?.local;
    let place = Place::make(arguments.home.as_deref().unwrap_or(&configured.home))?;
    let home = place.directory.path().join("h");
    let local = Local::open(&provider_local::Config {
        home: home.clone(),
        ..configured
    })?;
    say("looking for peers");
    let peers = peers::find(&place.directory.path().join("p"))?;
    let report = Report::new(arguments.quick, Machine::look(&home), &peers);
    let runs = if arguments.quick {
        Runs::quick()
    } else {
        Runs::full(arguments.runs as usize)
    };
    let mut bench = Bench {
        local,
        home,
        runs,
        peers,
        interrupt,
        report,
    };
    let measured = measure_all(&mut bench, &arguments.only).await;
    let Bench {
        local,
        peers,
        report,
        ..
    } = bench;
    drop(peers);
    if let Err(error) = clear(&local).await {
        // Without its home a sandbox that is still up could not be found any more.
        let kept = place.keep();
        return Err(error
            .context(format!("what was made in {kept} could not be removed"))
            .hint(format!(
                "`NACRE_HOME={kept}/h nacre sandbox ls --all` shows it"
            )));
    }
    drop(local);
    place.remove()?;
    measured?;
    told(app, report)
}

async fn measure_all(bench: &mut Bench, only: &[Operation]) -> Result<(), CommandError> {
    let chosen: Vec<Operation> = Operation::value_variants()
        .iter()
        .copied()
        .filter(|operation| only.is_empty() || only.contains(operation))
        .collect();
    for (index, operation) in chosen.iter().enumerate() {
        let name = operation.name();
        say(&format!("{name} ({} of {})", index + 1, chosen.len()));
        let measured = operation.measure(bench).await;
        for peer in &mut bench.peers {
            peer.stop();
        }
        let cleared = clear(&bench.local).await;
        concluded(name, measured, cleared, &bench.interrupt, &mut bench.report)?;
    }
    Ok(())
}

/// What fails is reported, and the others go on; an interrupt ends it all.
fn concluded(
    name: &'static str,
    measured: Result<(), CommandError>,
    cleared: Result<(), CommandError>,
    interrupt: &Interrupt,
    report: &mut Report,
) -> Result<(), CommandError> {
    if interrupt.is_asked() {
        cleared?;
        return Err(CommandError::failed(
            "interrupted; what was made is removed",
        ));
    }
    if let Err(error) = measured.and(cleared) {
        let reason = error.chain().join(": ");
        say(&format!("{name} failed: {reason}"));
        report.failed(name, reason);
    }
    Ok(())
}

/// Says what was found, and whether all of it could be measured.
fn told(app: &App, mut report: Report) -> Result<ExitCode, CommandError> {
    report.machine.look_again();
    app.output.result(&report, || report.shown())?;
    Ok(if report.has_failures() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Removes every sandbox and snapshot of the throw-away home, whoever made it.
async fn clear(local: &Local) -> Result<(), CommandError> {
    for sandbox in local.list(&[]).await? {
        local.remove(sandbox.id).await?;
    }
    for snapshot in local.snapshots().await? {
        local.delete_snapshot(&snapshot.id).await?;
    }
    Ok(())
}

/// A directory for this run alone, on the file system where sandboxes will live.
struct Place {
    directory: Utf8TempDir,
    /// The configured home, when there was none before us.
    made: Option<Utf8PathBuf>,
}

impl Place {
    fn make(parent: &Utf8Path) -> Result<Self, CommandError> {
        let parent =
            camino::absolute_utf8(parent).with_context(|| format!("{parent} is not a path"))?;
        let made = (!parent.exists()).then(|| parent.clone());
        fs_err::create_dir_all(&parent)?;
        let directory = camino_tempfile::Builder::new()
            .prefix("bench-")
            .rand_bytes(4)
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a throw-away home in {parent}"))?;
        Ok(Self { directory, made })
    }

    fn keep(self) -> Utf8PathBuf {
        self.directory.keep()
    }

    fn remove(self) -> Result<(), CommandError> {
        let path = self.directory.path().to_owned();
        if machine::text("/proc/self/mountinfo").contains(path.as_str()) {
            // To delete through a mount would delete what is mounted.
            let kept = self.keep();
            return Err(CommandError::failed(format!(
                "something is still mounted in {kept}: unmount it and delete the directory"
            )));
        }
        self.directory
            .close()
            .with_context(|| format!("cannot remove {path}"))?;
        if let Some(made) = self.made {
            // Only if nobody has begun to use it.
            let _ = std::fs::remove_dir(made);
        }
        Ok(())
    }
}

/// A line on stderr: a whole run takes minutes, and the result is on stdout.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "bench: {line}");
}
