mod export;
mod import;
mod place;
mod verify;

use std::process::ExitCode;

use model::{ByteCount, Clock as _, SystemClock};
use provider_local::SnapshotInfo;
use serde_json::json;

use crate::app::{App, Engine};
use crate::commands::sandbox::{age, each};
use crate::error::CommandError;
use crate::output::{facts, or_dash, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show every snapshot
    #[command(after_help = "\
Examples:
  nacre snapshot ls
  nacre snapshot ls --json | jq -r '.snapshots[].id'")]
    Ls,
    /// Show one snapshot
    #[command(after_help = "\
Examples:
  nacre snapshot show base
  nacre snapshot show base --wait --json | jq -r .digest")]
    Show {
        /// Its id, name, or the beginning of its id
        snapshot: String,
        /// Wait until its digest is computed
        #[arg(long)]
        wait: bool,
    },
    /// Compare a snapshot's content with its digest
    #[command(after_help = "\
Examples:
  nacre snapshot verify base
  nacre snapshot verify --all")]
    Verify(verify::Arguments),
    /// Write a snapshot where other machines can read it
    Export(export::Arguments),
    /// Take in a snapshot that was exported
    #[command(after_help = "\
Examples:
  nacre snapshot import base.nacre
  nacre snapshot import s3://pearls/nacre --snapshot base --name base-from-there")]
    Import(import::Arguments),
    /// Remove snapshots; what others build on stays on the disk
    #[command(after_help = "\
Examples:
  nacre snapshot rm before
  nacre storage gc                      # and what nothing needs any more")]
    Rm {
        /// Ids, names, or beginnings of ids
        #[arg(required = true, value_name = "SNAPSHOT")]
        snapshots: Vec<String>,
    },
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    let engine = app.engine()?;
    match command {
        Command::Export(arguments) => export::run(app, &engine, &arguments).await?,
        Command::Import(arguments) => import::run(app, &engine, &arguments).await?,
        Command::Ls => print_all(app, &engine.local.snapshots().await?)?,
        Command::Show { snapshot, wait } => show(app, &engine, &snapshot, wait).await?,
        Command::Verify(arguments) => verify::run(app, &engine, &arguments).await?,
        Command::Rm { snapshots } => return remove(app, &engine, &snapshots).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(app: &App, engine: &Engine, text: &str, wait: bool) -> Result<(), CommandError> {
    let id = engine.snapshot(text)?;
    let progress = app.output.progress("computing the digest");
    let found = if wait {
        engine.local.digest_snapshot(&id).await
    } else {
        engine.local.show_snapshot(&id).await
    }?;
    drop(progress);
    app.output.result(&found, || shown(&found))
}

async fn remove(app: &App, engine: &Engine, texts: &[String]) -> Result<ExitCode, CommandError> {
    each(app, "removed", texts, async |text: &String| {
        let id = engine.snapshot(text)?;
        engine.provider().delete_snapshot(&id).await?;
        Ok(id.to_string())
    })
    .await
}

pub(super) fn print_all(app: &App, snapshots: &[SnapshotInfo]) -> Result<(), CommandError> {
    app.output.result(&json!({ "snapshots": snapshots }), || {
        let now = SystemClock.now();
        let rows: Vec<Vec<String>> = snapshots
            .iter()
            .map(|snapshot| {
                vec![
                    snapshot.id.to_string(),
                    or_dash(snapshot.name.as_ref()),
                    age(snapshot.created_at, now),
                    or_dash(snapshot.bytes.map(ByteCount::new).as_ref()),
                    or_dash(snapshot.sandbox.as_ref()),
                ]
            })
            .collect();
        table(&["ID", "NAME", "AGE", "SIZE", "SANDBOX"], &rows)
    })
}

pub(super) fn shown(snapshot: &SnapshotInfo) -> String {
    facts(&[
        ("id", snapshot.id.to_string()),
        ("name", or_dash(snapshot.name.as_ref())),
        ("kind", snapshot.kind.clone()),
        ("created at", snapshot.created_at.to_string()),
        ("sandbox", or_dash(snapshot.sandbox.as_ref())),
        (
            "recovered",
            if snapshot.recovered {
                "yes: its sandbox died"
            } else {
                "no"
            }
            .to_owned(),
        ),
        ("layers", snapshot.layers.len().to_string()),
        (
            "digest",
            snapshot
                .digest
                .clone()
                .unwrap_or_else(|| "not computed yet; --wait waits".to_owned()),
        ),
        ("size", or_dash(snapshot.bytes.map(ByteCount::new).as_ref())),
        ("files", or_dash(snapshot.files.as_ref())),
    ])
}
