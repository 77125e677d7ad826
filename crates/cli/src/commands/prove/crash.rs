use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use prove::{FakeGround, Ground, Plan, Storm};

use super::local::LocalGround;
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Makes the same choices as another storm with this seed; by default it is drawn
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How often everything is asked, hit, started again and compared
    #[arg(long, value_name = "M", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Over real sandboxes from this base, with a real agent, instead of the fake provider
    #[arg(long, value_name = "SNAPSHOT", requires = "model")]
    base: Option<String>,
    /// Where `nacre-scripted-model` listens: the model of that agent
    #[arg(long, value_name = "ADDRESS", requires = "base")]
    model: Option<SocketAddr>,
    /// Say what every round does
    #[arg(long)]
    verbose: bool,
    /// Leave the database and the provider's files where they are, and say where
    #[arg(long)]
    keep: bool,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let directory = camino_tempfile::Builder::new()
        .prefix("nacre-prove-")
        .tempdir()
        .context("there is no room for a storm")?;
    let seed = arguments.seed.unwrap_or_else(drawn);
    let path = directory.path().to_owned();
    let program = std::env::current_exe().context("this program cannot be found")?;
    let storm = async {
        let ground: Arc<dyn Ground> = match (&arguments.base, arguments.model) {
            (Some(base), Some(model)) => Arc::new(local(app, program, base, model)?),
            _ => Arc::new(FakeGround::start(program, &path).await?),
        };
        let storm = Storm::new(ground, path.clone(), seed).await?;
        let rounds = arguments.rounds;
        let progress = app.output.progress("raging");
        let report = storm
            .rage(Plan { seed, rounds }, |round| {
                progress.say(&round.to_string());
                if arguments.verbose {
                    app.output.say(&round.to_string());
                }
            })
            .await?;
        Ok::<_, CommandError>(report)
    };
    let report = tokio::select! {
        report = storm => report?,
        // Whatever was started ends with its owner.
        _ = tokio::signal::ctrl_c() => {
            return Err(CommandError::failed(format!("stopped; the seed was {seed}")));
        }
    };
    if arguments.keep || !report.broken.is_empty() {
        let kept = directory.keep();
        app.output.warning(&format!("everything is kept in {kept}"));
    }
    app.output.result(&report, || report.to_string())?;
    Ok(if report.broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn local(
    app: &App,
    program: PathBuf,
    base: &str,
    model: SocketAddr,
) -> Result<LocalGround, CommandError> {
    let engine = app.engine()?;
    Ok(LocalGround {
        program,
        home: config::load()?.local.home.clone(),
        base: engine.snapshot(base)?,
        local: engine.local,
        model,
    })
}

/// Small enough to be typed again.
fn drawn() -> u64 {
    let now = model::Clock::now(&model::SystemClock);
    u64::from(now.subsec_nanosecond().unsigned_abs()) % 1_000_000
}
