//! `nacre bench hub`: what sessions cost: their records, their memory, the way of an event from a
//! runner to whoever watches, and how soon they are served again after a kill.

mod events;
mod herd;
mod ready;
mod world;

use std::process::ExitCode;

use camino::Utf8PathBuf;
use prove::FakeGround;
use serde::Serialize;

pub(super) use self::world::World;
use super::machine::Machine;
use super::{Place, say};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Few of everything: shows that it works, not how fast it is
    #[arg(long)]
    quick: bool,
    /// A base with an agent, for what is measured with real sandboxes
    #[arg(long, value_name = "SNAPSHOT")]
    base: Option<String>,
    /// Where the throw-away database is made [default: in the configured home]
    #[arg(long, value_name = "DIR")]
    home: Option<Utf8PathBuf>,
}

/// What was found, beside what is asked for.
#[derive(Debug, Serialize)]
struct Report {
    quick: bool,
    machine: Machine,
    figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// At most this is asked for; none where it is told for comparison.
    goal: Option<f64>,
    detail: String,
}

impl Report {
    fn shown(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .figures
            .iter()
            .map(|figure| {
                let goal = figure.goal.map_or("-".to_owned(), |goal| {
                    let is_met = if figure.value <= goal {
                        "met"
                    } else {
                        "NOT met"
                    };
                    format!("{goal} {is_met}")
                });
                vec![
                    figure.name.to_owned(),
                    format!("{:.2} {}", figure.value, figure.unit),
                    goal,
                    figure.detail.clone(),
                ]
            })
            .collect();
        crate::output::table(&["WHAT", "FOUND", "GOAL", ""], &rows)
    }
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let configured = config::load()?.local;
    let place = Place::make(arguments.home.as_deref().unwrap_or(&configured.home))?;
    let directory = place.directory.path().to_owned();
    let mut figures = Vec::new();
    let sizes = if arguments.quick {
        Sizes {
            records: 20,
            herd: 20,
            rate: 200,
            sessions: 10,
            seconds: 1,
            restart: 10,
            starts: 1,
        }
    } else {
        Sizes {
            records: 500,
            herd: 1000,
            rate: 1000,
            sessions: 100,
            seconds: 10,
            restart: 200,
            starts: 21,
        }
    };
    say("records");
    let world = World::open(&directory.join("records.db")).await?;
    figures.push(world.records(sizes.records).await?);
    world.close().await?;
    say("a herd of sessions");
    figures.extend(herd::run(&directory, sizes.herd).await?);
    say("events");
    figures.extend(events::run(&directory, &sizes).await?);
    say("a kill");
    let program = std::env::current_exe()?;
    let ground = FakeGround::start(program, &directory).await?;
    let took = prove::restart(&ground, directory.clone(), sizes.restart).await?;
    drop(ground);
    figures.push(Figure {
        name: "served_again",
        value: took.as_secs_f64(),
        unit: "s",
        goal: Some(5.0),
        detail: format!("{} live sessions after kill -9", sizes.restart),
    });
    if let Some(base) = &arguments.base {
        say("starts on real sandboxes");
        figures.extend(ready::run(app, &directory, base, sizes.starts).await?);
    }
    place.remove()?;
    let mut machine = Machine::look(&configured.home);
    machine.look_again();
    let report = Report {
        quick: arguments.quick,
        machine,
        figures,
    };
    app.output.result(&report, || report.shown())?;
    Ok(ExitCode::SUCCESS)
}

/// How much of everything.
#[derive(Debug)]
struct Sizes {
    records: usize,
    herd: usize,
    /// Events in a second, over so many sessions, for so long.
    rate: usize,
    sessions: usize,
    seconds: usize,
    restart: usize,
    starts: usize,
}

/// Counts are small here.
#[expect(clippy::cast_precision_loss, reason = "counts of sessions and events")]
fn number(count: usize) -> f64 {
    count as f64
}

/// The value below which so many hundredths are.
fn percentile(sorted: &[f64], hundredths: usize) -> f64 {
    let place = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}
