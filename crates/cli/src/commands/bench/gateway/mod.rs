//! `nacre bench gateway`: what it costs to tell many, beside a relay of Node's `ws` that does the
//! same; and what a whole server costs those who only wait, who begin, and who look at a preview.

mod clients;
mod fanout;
mod front;
mod preview;
mod relay;
mod served;

use std::process::ExitCode;
use std::time::Duration;

use camino::Utf8PathBuf;
use clap::ValueEnum;

pub(crate) use self::served::{Arguments as ServedArguments, serve};
use super::interrupt::Interrupt;
use super::machine::Machine;
use super::report::Report;
use super::stats::number as count;
use super::{Place, concluded, say, told};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often what takes turns is measured; the middle one is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure only these
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Figure>,
    /// A snapshot with an agent and Caddy in it, for previews [default: `base`]
    #[arg(long, value_name = "SNAPSHOT")]
    base: Option<String>,
    /// Few of everything: shows that it works, not how fast it is
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Where the throw-away home is made [default: in the configured home]
    #[arg(long, value_name = "DIR")]
    home: Option<Utf8PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Figure {
    /// Events to 1, 100 and 1,000 clients, for each second of the processor, beside Node
    Deliveries,
    /// How old an event is when it comes, and whether a client that stalls changes that
    Latency,
    /// Sockets on which nothing happens
    Idle,
    /// A session's record, asked for over HTTP
    Create,
    /// Small bodies through a preview, beside Caddy
    Preview,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Latency => "latency",
            Self::Idle => "idle",
            Self::Create => "create",
            Self::Preview => "preview",
        }
    }

    async fn measure(self, ground: &mut Ground) -> Result<(), CommandError> {
        match self {
            Self::Deliveries => fanout::deliveries(ground).await,
            Self::Latency => fanout::latency(ground).await,
            Self::Idle => front::idle(ground).await,
            Self::Create => front::create(ground).await,
            Self::Preview => preview::run(ground).await,
        }
    }
}

/// How often, and how many.
#[derive(Debug, Clone, Copy)]
struct Runs {
    rounds: usize,
    /// Of one event in each write; other loads are shares of it.
    deliveries: usize,
    /// Who stand for a thousand.
    crowd: usize,
    /// Events of which each has an age.
    paced: usize,
    idle: usize,
    creates: usize,
    /// How long each way to a preview is asked.
    each: Duration,
}

impl Runs {
    fn full(rounds: u32) -> Self {
        Self {
            rounds: rounds as usize,
            deliveries: 60_000,
            crowd: 1000,
            paced: 5000,
            idle: 10_000,
            creates: 300,
            each: Duration::from_secs(1),
        }
    }

    fn quick() -> Self {
        Self {
            rounds: 1,
            deliveries: 2000,
            crowd: 20,
            paced: 100,
            idle: 50,
            creates: 20,
            each: Duration::from_millis(100),
        }
    }
}

/// What every measurement is given.
struct Ground {
    directory: Utf8PathBuf,
    base: Option<String>,
    runs: Runs,
    interrupt: Interrupt,
    report: Report,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let interrupt = Interrupt::listen()?;
    let configured = config::load()?.local;
    let place = Place::make(arguments.home.as_deref().unwrap_or(&configured.home))?;
    let directory = place.directory.path().to_owned();
    let chosen: Vec<Figure> = Figure::value_variants()
        .iter()
        .copied()
        .filter(|figure| arguments.only.is_empty() || arguments.only.contains(figure))
        .collect();
    let mut ground = Ground {
        base: arguments.base.clone(),
        runs: if arguments.quick {
            Runs::quick()
        } else {
            Runs::full(arguments.rounds)
        },
        interrupt,
        report: Report::new(arguments.quick, Machine::look(&directory), &[]),
        directory: directory.clone(),
    };
    if chosen
        .iter()
        .any(|figure| matches!(figure, Figure::Deliveries | Figure::Latency))
    {
        say("fetching Node's ws");
        relay::install(&directory.join("node")).await?;
    }
    for (index, figure) in chosen.iter().enumerate() {
        let name = figure.name();
        say(&format!("{name} ({} of {})", index + 1, chosen.len()));
        let measured = figure.measure(&mut ground).await;
        concluded(
            name,
            measured,
            Ok(()),
            &ground.interrupt,
            &mut ground.report,
        )?;
    }
    place.remove()?;
    told(app, ground.report)
}
