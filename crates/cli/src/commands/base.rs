use std::process::ExitCode;

use crate::app::App;
use crate::commands::snapshot;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Build a Debian root file system and keep it as `base`
    Build {
        /// A smaller one
        #[arg(long)]
        slim: bool,
    },
    /// Show the bases there are
    Ls,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Build { slim } => build(app, slim)?,
        Command::Ls => list(app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn build(app: &App, slim: bool) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let progress = app.output.progress("building the base");
    let base = engine.local.build_base(slim, &|line| progress.say(line))?;
    drop(progress);
    app.output.result(&base, || snapshot::shown(&base))
}

async fn list(app: &App) -> Result<(), CommandError> {
    let mut bases = app.engine()?.local.snapshots().await?;
    bases.retain(|snapshot| snapshot.kind == model::SnapshotKind::Base.as_str());
    snapshot::print_all(app, &bases)
}
