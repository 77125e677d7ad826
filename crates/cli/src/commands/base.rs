use std::process::ExitCode;
use std::sync::Arc;

use provider_local::{Built, Flavour};

use crate::app::App;
use crate::commands::snapshot;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Build what sandboxes start from with `--from base`: Debian, the agent and its tools
    ///
    /// The recipe runs in a sandbox with a way out; its disk is kept. What is built already is not
    /// built again.
    Build {
        /// Agent, git, ripgrep, Node and Caddy alone: for quick starts
        #[arg(long)]
        slim: bool,
    },
    /// Show the bases there are
    Ls,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Build { slim: false } => build(app, Flavour::Full).await?,
        Command::Build { slim: true } => build(app, Flavour::Slim).await?,
        Command::Ls => list(app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn build(app: &App, flavour: Flavour) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let progress = Arc::new(app.output.progress("building the base"));
    let said = Arc::clone(&progress);
    let built = engine
        .local
        .build_base(flavour, Arc::new(move |line: &str| said.say(line)))
        .await?;
    drop(progress);
    let (Built::New(base) | Built::Known(base)) = &built;
    app.output.result(base, || match &built {
        Built::New(base) => snapshot::shown(base),
        Built::Known(base) => format!("built already\n{}", snapshot::shown(base)),
    })
}

async fn list(app: &App) -> Result<(), CommandError> {
    let mut bases = app.engine()?.local.snapshots().await?;
    bases.retain(|snapshot| snapshot.kind == model::SnapshotKind::Base.as_str());
    snapshot::print_all(app, &bases)
}
