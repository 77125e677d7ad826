use std::process::ExitCode;
use std::time::Instant;

use provider::{Kept, Receipt};
use serde_json::json;

use super::create::New;
use super::{each, milliseconds, snapshot_name};
use crate::app::App;
use crate::commands::internal::digest_in_background;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotArguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// A name to call the snapshot by
    #[arg(long, value_parser = snapshot_name)]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ForkArguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// How many
    #[arg(short = 'n', value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    count: u16,
}

pub(super) async fn remove(app: &App, texts: &[String]) -> Result<ExitCode, CommandError> {
    let engine = app.engine()?;
    each(app, "removed", texts, async |text: &String| {
        let id = engine.sandbox(text)?;
        engine.provider().remove(id).await?;
        Ok(id.to_string())
    })
    .await
}

pub(super) async fn pause(app: &App, text: &str) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(text)?;
    let receipt = engine.provider().pause(id).await?;
    app.output.result(&receipt, || {
        format!("{id}  paused  {:.1} ms", receipt.took_ms)
    })
}

pub(super) async fn resume(app: &App, text: &str) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(text)?;
    let resumed = engine.provider().resume(id).await?;
    app.output.result(
        &json!({ "kept": resumed.kept, "took_ms": resumed.took_ms }),
        || {
            let found = match resumed.kept {
                Kept::Memory => "goes on",
                Kept::Disk => "started again on its disk",
            };
            format!("{id}  {found}  {:.1} ms", resumed.took_ms)
        },
    )
}

pub(super) async fn stop(app: &App, text: &str) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(text)?;
    let progress = app.output.progress("stopping");
    let receipt = engine.provider().stop(id).await?;
    drop(progress);
    print_receipt(app, &receipt)
}

pub(super) async fn snapshot(app: &App, arguments: &SnapshotArguments) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(&arguments.sandbox)?;
    let progress = app.output.progress("taking a snapshot");
    let receipt = engine
        .provider()
        .snapshot(id, arguments.name.as_deref())
        .await?;
    drop(progress);
    print_receipt(app, &receipt)
}

/// The receipt says what is known at once; a digest takes as long as reading every file.
fn print_receipt(app: &App, receipt: &Receipt) -> Result<(), CommandError> {
    if receipt.snapshot.is_some() && receipt.digest.is_none() {
        digest_in_background();
    }
    app.output.result(receipt, || {
        let snapshot = receipt
            .snapshot
            .as_ref()
            .map_or_else(|| "-".to_owned(), ToString::to_string);
        format!(
            "{snapshot}  {:.1} ms, {:.1} ms of it frozen",
            receipt.took_ms, receipt.frozen_ms
        )
    })
}

pub(super) async fn fork(app: &App, arguments: &ForkArguments) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(&arguments.sandbox)?;
    let progress = app.output.progress("forking");
    let started = Instant::now();
    let sandboxes = engine
        .provider()
        .fork(id, usize::from(arguments.count))
        .await?;
    let took_ms = milliseconds(started);
    drop(progress);
    let sandboxes: Vec<New> = sandboxes.into_iter().map(New::from).collect();
    app.output.result(
        &json!({ "sandboxes": sandboxes, "took_ms": took_ms }),
        || {
            let lines: Vec<String> = sandboxes.iter().map(New::shown).collect();
            lines.join("\n")
        },
    )
}
