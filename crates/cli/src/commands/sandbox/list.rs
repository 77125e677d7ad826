use model::{ByteCount, Clock as _, SystemClock, Timestamp};
use provider::{Kept, Runtime, Sandbox, SandboxState};
use provider_local::Details;
use serde_json::json;

use super::key_and_value;
use crate::app::App;
use crate::error::CommandError;
use crate::output::{facts, or_dash, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Show stopped ones too
    #[arg(long)]
    all: bool,
    /// Only those with this label
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    label: Vec<(String, String)>,
}

pub(super) async fn list(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let mut sandboxes = engine.provider().list(&arguments.label).await?;
    if !arguments.all {
        sandboxes.retain(|sandbox| !matches!(sandbox.state, SandboxState::Stopped { .. }));
    }
    app.output.result(&json!({ "sandboxes": sandboxes }), || {
        let now = SystemClock.now();
        let rows: Vec<Vec<String>> = sandboxes.iter().map(|sandbox| row(sandbox, now)).collect();
        table(&["ID", "NAME", "STATUS", "AGE", "RUNTIME"], &rows)
    })
}

fn row(sandbox: &Sandbox, now: Timestamp) -> Vec<String> {
    vec![
        sandbox.id.to_string(),
        or_dash(sandbox.name.as_ref()),
        status(&sandbox.state).to_owned(),
        age(sandbox.created_at, now),
        runtime(sandbox.runtime).to_owned(),
    ]
}

pub(super) async fn show(app: &App, text: &str) -> Result<(), CommandError> {
    let engine = app.engine()?;
    let id = engine.sandbox(text)?;
    let details = engine.local.show(id).await?;
    app.output.result(&details, || shown(&details))
}

fn shown(details: &Details) -> String {
    let sandbox = &details.sandbox;
    let size = |bytes: Option<u64>| or_dash(bytes.map(ByteCount::new).as_ref());
    let mut lines = vec![
        ("id", sandbox.id.to_string()),
        ("name", or_dash(sandbox.name.as_ref())),
        ("status", status(&sandbox.state).to_owned()),
    ];
    if let SandboxState::Stopped { snapshot } = &sandbox.state {
        lines.push(("snapshot", snapshot.to_string()));
    }
    if let Some(reason) = &details.reason {
        lines.push(("reason", reason.clone()));
    }
    lines.extend([
        ("created at", sandbox.created_at.to_string()),
        ("generation", sandbox.generation.to_string()),
        ("runtime", runtime(sandbox.runtime).to_owned()),
        ("isolation", sandbox.isolation.to_string()),
        ("layers", details.layers.to_string()),
        ("first id", details.first_id.to_string()),
        ("pid", or_dash(details.pid.as_ref())),
        ("memory", size(details.memory)),
        ("pids", or_dash(details.pids.as_ref())),
        (
            "cpus",
            or_dash(
                details
                    .cpu_millis
                    .map(|millis| format!("{}.{:03}", millis / 1000, millis % 1000))
                    .as_ref(),
            ),
        ),
        ("disk", size(details.disk)),
    ]);
    if !sandbox.labels.is_empty() {
        let labels: Vec<String> = sandbox
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        lines.push(("labels", labels.join(" ")));
    }
    facts(&lines)
}

fn status(state: &SandboxState) -> &'static str {
    match state {
        SandboxState::Running => "running",
        SandboxState::Paused { kept: Kept::Memory } => "paused",
        SandboxState::Paused { kept: Kept::Disk } => "paused on disk",
        SandboxState::Ended => "ended",
        SandboxState::Stopped { .. } => "stopped",
    }
}

fn runtime(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Native => "native",
        Runtime::Runsc => "runsc",
    }
}

/// In the largest unit that leaves a number.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    // A clock that was set back makes no negative age.
    let seconds = (now.as_second() - since.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_one_number_and_one_letter() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, shown) in [
            (-5, "0s"),
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (7200, "2h"),
            (200_000, "2d"),
        ] {
            assert_eq!(age(at(1_000_000), at(1_000_000 + seconds)), shown);
        }
    }
}
