use std::fmt::Write as _;
use std::process::ExitCode;

use model::ByteCount;
use provider_local::{Local, Usage, UsagePart};

use crate::app::App;
use crate::config;
use crate::error::CommandError;
use crate::output::{facts, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// What sandboxes, layers and removed things take
    Usage,
    /// Remove what nothing needs any more
    Gc,
    /// Move the store onto a file system of its own, in one file
    ///
    /// On btrfs a snapshot of a running sandbox takes milliseconds however large its disk is, and
    /// disk limits are kept by the kernel. Stop or remove running sandboxes first. The file takes
    /// only what is in it.
    Init {
        /// Make a btrfs that can grow to this size
        #[arg(long, value_name = "SIZE")]
        btrfs: ByteCount,
    },
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Usage => usage(app).await?,
        Command::Gc => collect(app).await?,
        Command::Init { btrfs } => init(app, btrfs)?,
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

fn init(app: &App, size: ByteCount) -> Result<(), CommandError> {
    let config = config::load()?.local;
    let progress = app.output.progress("moving the store");
    let moved = Local::move_onto_btrfs(&config, size, &|step| progress.say(step))?;
    drop(progress);
    app.output.result(&moved, || {
        facts(&[
            (
                "store",
                format!("{} of {}", moved.image, ByteCount::new(moved.size_bytes)),
            ),
            (
                "moved",
                format!(
                    "{} layers, {} snapshots, {} sandboxes, {}, compared",
                    moved.layers,
                    moved.snapshots,
                    moved.sandboxes,
                    ByteCount::new(moved.bytes)
                ),
            ),
        ])
    })
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
