use std::process::ExitCode;
use std::sync::Arc;

use provider_local::{Built, Flavour, Part};

use crate::app::App;
use crate::commands::snapshot;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Build what sandboxes start from with `--from base`: Debian, the agent and its tools
    ///
    /// The recipe runs in a sandbox with a way out; its disk is kept. What is built already is not
    /// built again.
    #[command(after_help = "\
Examples:
  nacre base build --slim               # quick to make, enough for sessions
  nacre base build --with browser,services")]
    Build {
        /// Agent, git, ripgrep, Node and Caddy alone: for quick starts
        #[arg(long)]
        slim: bool,
        /// As `--slim`, and these: browser, desktop, editor, services
        #[arg(long, value_name = "PART", value_delimiter = ',', conflicts_with = "slim", value_parser = part)]
        with: Vec<Part>,
    },
    /// Show the bases there are
    #[command(after_help = "\
Examples:
  nacre base ls")]
    Ls,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Build { slim, with } => build(app, flavour(slim, with)).await?,
        Command::Ls => list(app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn flavour(slim: bool, with: Vec<Part>) -> Flavour {
    match (slim, with.is_empty()) {
        (true, _) => Flavour::Slim,
        (false, true) => Flavour::Full,
        (false, false) => Flavour::With(with.into_iter().collect()),
    }
}

fn part(name: &str) -> Result<Part, String> {
    let known = Part::ALL.into_iter().find(|part| part.name() == name);
    known.ok_or_else(|| {
        let names = Part::ALL.map(Part::name);
        format!("the parts are {}", names.join(", "))
    })
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
