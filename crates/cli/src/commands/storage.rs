use std::fmt::Write as _;
use std::process::ExitCode;

use model::ByteCount;
use provider_local::{Usage, UsagePart};

use crate::app::App;
use crate::error::CommandError;
use crate::output::{facts, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// What sandboxes, layers and removed things take
    Usage,
    /// Remove what nothing needs any more
    Gc,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Usage => usage(app).await?,
        Command::Gc => collect(app).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn usage(app: &App) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let progress = app.output.progress("adding up what is on the disk");
    let usage = engine.local.usage().await?;
    drop(progress);
    app.output.result(&usage, || shown(&usage))
}

fn shown(usage: &Usage) -> String {
    let row = |name: &str, part: UsagePart| {
        vec![
            name.to_owned(),
            part.count.to_string(),
            ByteCount::new(part.bytes).to_string(),
        ]
    };
    let rows = [
        row("sandboxes", usage.sandboxes),
        row("layers", usage.layers),
        row("trash", usage.trash),
    ];
    let free = ByteCount::new(usage.free_bytes).to_string();
    table(&["WHAT", "COUNT", "SIZE"], &rows)
        + &facts(&[("free at", format!("{}: {free}", usage.home))])
}

async fn collect(app: &App) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let progress = app.output.progress("collecting garbage");
    let collected = engine.local.collect_garbage().await?;
    drop(progress);
    app.output.result(&collected, || {
        let mut text = format!(
            "removed {} layers, {}\n",
            collected.layers,
            ByteCount::new(collected.bytes)
        );
        for snapshot in &collected.recovered {
            let _ = writeln!(text, "recovered {snapshot} from a sandbox that died");
        }
        text
    })
}
