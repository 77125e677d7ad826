use std::fmt::Write as _;
use std::process::ExitCode;

use model::ByteCount;
use provider_local::{Duplicates, Local, Usage, UsagePart};
use serde::Serialize;

use crate::app::App;
use crate::config;
use crate::error::CommandError;
use crate::output::{facts, or_dash, table};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// What sandboxes, layers and removed things take
    #[command(after_help = "\
Examples:
  nacre storage usage
  nacre storage usage --duplicates")]
    Usage {
        /// Look for equal files in the layers too, which reads those of equal size
        #[arg(long)]
        duplicates: bool,
    },
    /// Remove what nothing needs any more
    #[command(after_help = "\
Examples:
  nacre storage gc")]
    Gc,
    /// Move the store onto a file system of its own, in one file
    ///
    /// On btrfs a snapshot of a running sandbox takes milliseconds however large its disk is, and
    /// disk limits are kept by the kernel. Stop or remove running sandboxes first. The file takes
    /// only what is in it.
    #[command(after_help = "\
Examples:
  nacre storage init --btrfs 100G")]
    Init {
        /// Make a btrfs that can grow to this size
        #[arg(long, value_name = "SIZE")]
        btrfs: ByteCount,
    },
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Usage { duplicates } => usage(app, duplicates).await?,
        Command::Gc => collect(app).await?,
        Command::Init { btrfs } => init(app, btrfs)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is printed: the usage, and the duplicates where they were looked for.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<Duplicates>,
}

async fn usage(app: &App, with_duplicates: bool) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let progress = app.output.progress("adding up what is on the disk");
    let mut report = Report {
        usage: engine.local.usage().await?,
        duplicates: None,
    };
    if with_duplicates {
        progress.say("looking for equal files");
        report.duplicates = Some(engine.local.duplicates().await?);
    }
    drop(progress);
    app.output.result(&report, || shown(&report))
}

fn shown(report: &Report) -> String {
    let usage = &report.usage;
    let size = |bytes| ByteCount::new(bytes).to_string();
    let row = |name: &str, part: UsagePart| {
        vec![name.to_owned(), part.count.to_string(), size(part.bytes)]
    };
    let rows = [
        row("sandboxes", usage.sandboxes),
        row("layers", usage.layers),
        row("snapshots", usage.snapshots),
        row("trash", usage.trash),
        row("programs", usage.programs),
        row("records", usage.records),
        vec!["all".to_owned(), String::new(), size(usage.total_bytes)],
    ];
    let mut text = table(&["WHAT", "COUNT", "SIZE"], &rows);
    if !usage.by_snapshot.is_empty() {
        let rows: Vec<Vec<String>> = usage
            .by_snapshot
            .iter()
            .map(|snapshot| {
                vec![
                    snapshot.id.to_string(),
                    or_dash(snapshot.name.as_ref()),
                    size(snapshot.own_bytes),
                    size(snapshot.shared_bytes),
                ]
            })
            .collect();
        text.push('\n');
        text += &table(&["SNAPSHOT", "NAME", "ITS OWN", "SHARED"], &rows);
    }
    if let Some(duplicates) = &report.duplicates {
        let _ = writeln!(
            text,
            "\n{} files are equal to others in the layers; one of each would take {} less",
            duplicates.files,
            size(duplicates.bytes)
        );
        for group in &duplicates.largest {
            let (copies, example) = (group.copies, &group.example);
            let _ = writeln!(text, "  {copies} of {}: {example}", size(group.size));
        }
    }
    text + "\n"
        + &facts(&[(
            "free at",
            format!("{}: {}", usage.home, size(usage.free_bytes)),
        )])
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
