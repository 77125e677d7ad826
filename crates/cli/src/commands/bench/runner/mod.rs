//! `nacre bench runner`: what makes a sandbox a place to work in, measured in real sandboxes of the
//! configured home, because that is where a base is. Every one of them carries a label of this run,
//! and goes with it.

mod agent_ready;
pub(super) mod aside;
pub(super) mod caddy;
mod create_exec;
mod deltas;
mod entry;
mod gateway;
mod hub;
mod programs;
mod terminal;

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use model::{Clock as _, SnapshotId, SystemClock};
use provider::{LinkBy, Origin, Provider as _, SandboxId, SandboxSpec, Workplace};
use provider_local::Local;

pub(super) use self::hub::Hub;
use super::interrupt::Interrupt;
use super::machine::Machine;
use super::report::Report;
use super::{concluded, say, told};
use crate::app::{App, Engine};
use crate::config;
use crate::error::CommandError;

/// Whose sandboxes these are.
const LABEL: &str = "nacre-bench";
const SESSION: &str = "ses_bench";
/// For what should take seconds at most, on a machine that does other things, too.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The snapshot that sandboxes start from, with OpenCode and Caddy in it [default: `base`]
    #[arg(long, value_name = "SNAPSHOT")]
    base: Option<String>,
    /// How often what takes turns is measured; the middle one is told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure only these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Figure>,
    /// How many deltas the model says in a second
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_second: u32,
    /// Few runs of everything: shows that it works, not how fast it is
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Figure {
    /// How large the programs are, and how much memory they have while nothing happens
    Programs,
    /// From create, with a workplace, to the end of the first command
    CreateExec,
    /// From create to an agent that can be asked, beside OpenCode's own start
    AgentReady,
    /// Deltas of an answer through runner and link, beside OpenCode's own stream
    Deltas,
    /// The same while the link is cut again and again: is anything lost or doubled?
    Cuts,
    /// A key into a terminal and its echo
    Terminal,
    /// Bodies through port 9000, beside the way without it and beside Caddy
    Gateway,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs",
            Self::CreateExec => "create_exec",
            Self::AgentReady => "agent_ready",
            Self::Deltas => "deltas",
            Self::Cuts => "cuts",
            Self::Terminal => "terminal",
            Self::Gateway => "gateway",
        }
    }

    async fn measure(self, ground: &mut Ground) -> Result<(), CommandError> {
        match self {
            Self::Programs => programs::run(ground).await,
            Self::CreateExec => create_exec::run(ground).await,
            Self::AgentReady => agent_ready::run(ground).await,
            Self::Deltas => deltas::run(ground).await,
            Self::Cuts => deltas::run_with_cuts(ground).await,
            Self::Terminal => terminal::run(ground).await,
            Self::Gateway => gateway::run(ground).await,
        }
    }
}

/// How often, and how many.
#[derive(Debug, Clone, Copy)]
struct Runs {
    creates: usize,
    rounds: usize,
    deltas: u32,
    per_second: u32,
    cuts: u32,
    keys: usize,
    /// How long each way through the gateway is asked.
    each: Duration,
}

impl Runs {
    fn full(rounds: u32, per_second: u32) -> Self {
        Self {
            creates: 30,
            rounds: rounds as usize,
            deltas: 10_000,
            per_second,
            cuts: 100,
            keys: 400,
            each: Duration::from_secs(1),
        }
    }

    fn quick(per_second: u32) -> Self {
        Self {
            creates: 3,
            rounds: 1,
            deltas: 300,
            per_second,
            cuts: 2,
            keys: 20,
            each: Duration::from_millis(100),
        }
    }
}

/// What every measurement is given.
#[derive(Debug)]
struct Ground {
    local: Local,
    base: SnapshotId,
    /// The label's value, of this run alone.
    mark: String,
    runs: Runs,
    interrupt: Interrupt,
    report: Report,
}

impl Ground {
    /// A sandbox from the base.
    fn plain(&self) -> SandboxSpec {
        SandboxSpec {
            labels: [(LABEL.to_owned(), self.mark.clone())].into(),
            ..SandboxSpec::from(Origin::Snapshot(self.base.clone()))
        }
    }

    /// The same as a place to work in, whose hub is here.
    fn workplace(&self) -> SandboxSpec {
        SandboxSpec {
            workplace: Some(Workplace {
                session: Some(SESSION.to_owned()),
                link: LinkBy::Door,
            }),
            ..self.plain()
        }
    }

    /// A sandbox with a workplace, and its hub, which has heard it say hello.
    async fn greeted(&self) -> Result<(SandboxId, Hub), CommandError> {
        let id = self.local.create(&self.workplace()).await?.id;
        let mut hub = Hub::open(&self.local, id, None).await?;
        self.wait("the workplace's hello", PATIENCE, hub.until_greeted())
            .await?;
        Ok((id, hub))
    }

    /// Waits for something that leaves nothing behind when it is given up.
    async fn wait<T>(
        &self,
        what: &str,
        patience: Duration,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let patient = async {
            tokio::time::timeout(patience, work)
                .await
                .map_err(|_| CommandError::failed(format!("{what} did not come in {patience:?}")))?
        };
        self.interrupt.or(patient).await
    }

    /// Removes every sandbox of this run.
    async fn clear(&self) -> Result<(), CommandError> {
        let ours = [(LABEL.to_owned(), self.mark.clone())];
        for sandbox in self.local.list(&ours).await? {
            self.local.remove(sandbox.id).await?;
        }
        Ok(())
    }
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let interrupt = Interrupt::listen()?;
    let home = config::load()?.local.home;
    let engine = app.engine()?;
    let base = base(&engine, arguments.base.as_deref())?;
    let us = rustix::process::getpid().as_raw_nonzero();
    let mut ground = Ground {
        local: engine.local,
        base,
        mark: format!("{us}-{}", SystemClock.now().as_millisecond()),
        runs: if arguments.quick {
            Runs::quick(arguments.per_second)
        } else {
            Runs::full(arguments.rounds, arguments.per_second)
        },
        interrupt,
        report: Report::new(arguments.quick, Machine::look(&home), &[]),
    };
    ground.local.warm_up();
    measure_all(&mut ground, &arguments.only).await?;
    told(app, ground.report)
}

fn base(engine: &Engine, named: Option<&str>) -> Result<SnapshotId, CommandError> {
    if let Some(name) = named {
        return engine.snapshot(name);
    }
    engine.local.base()?.ok_or_else(|| {
        CommandError::not_found("there is no base to start sandboxes from")
            .hint("`nacre base build --slim` builds one, or name a snapshot with `--base`")
    })
}

async fn measure_all(ground: &mut Ground, only: &[Figure]) -> Result<(), CommandError> {
    let chosen: Vec<Figure> = Figure::value_variants()
        .iter()
        .copied()
        .filter(|figure| only.is_empty() || only.contains(figure))
        .collect();
    for (index, figure) in chosen.iter().enumerate() {
        let name = figure.name();
        say(&format!("{name} ({} of {})", index + 1, chosen.len()));
        let measured = figure.measure(ground).await;
        let cleared = ground.clear().await.map_err(|error| {
            error
                .context("what was made could not be removed")
                .hint("`nacre sandbox ls --all` shows it")
        });
        concluded(
            name,
            measured,
            cleared,
            &ground.interrupt,
            &mut ground.report,
        )?;
    }
    Ok(())
}
