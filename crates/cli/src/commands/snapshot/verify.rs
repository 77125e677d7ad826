use std::fmt::Write as _;
use std::sync::Arc;

use portable::Control;
use provider_local::Verified;
use serde_json::json;

use super::place::attended;
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Its id, name, or the beginning of its id
    #[arg(required_unless_present = "all")]
    snapshot: Option<String>,
    /// Every snapshot; what they share is read once
    #[arg(long, conflicts_with = "snapshot")]
    all: bool,
}

pub(super) async fn run(
    app: &App,
    engine: &Engine,
    arguments: &Arguments,
) -> Result<(), CommandError> {
    match &arguments.snapshot {
        Some(text) => one(app, engine, text).await,
        None => all(app, engine).await,
    }
}

async fn one(app: &App, engine: &Engine, text: &str) -> Result<(), CommandError> {
    let id = engine.snapshot(text)?;
    let progress = app.output.progress("reading every file");
    let verified = engine.local.verify_snapshot(&id).await?;
    drop(progress);
    app.output.result(&verified, || shown(&verified))?;
    if verified.ok {
        return Ok(());
    }
    Err(CommandError::failed(format!("{id} is not what it was"))
        .hint("its disk may be failing: keep it, and look there"))
}

async fn all(app: &App, engine: &Engine) -> Result<(), CommandError> {
    let control = Arc::new(Control::default());
    let work = engine.local.verify_all(Arc::clone(&control));
    let verified = attended(app, "reading every file", &control, work).await?;
    app.output.result(&json!({ "snapshots": verified }), || {
        verified
            .iter()
            .map(|one| shown(one) + "\n")
            .collect::<String>()
    })?;
    let wrong = verified.iter().filter(|one| !one.ok).count();
    if wrong == 0 {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "{wrong} of {} snapshots are not what they were",
        verified.len()
    ))
    .hint("their disk may be failing: keep them, and look there"))
}

fn shown(verified: &Verified) -> String {
    let id = &verified.id;
    let mut text = match &verified.expected {
        None => format!("{id} had no digest yet; it is {}", verified.found),
        Some(expected) if *expected != verified.found => {
            format!(
                "{id} should be {expected}\n{id} is        {}",
                verified.found
            )
        }
        Some(_) if verified.ok => format!("{id} is intact: {}", verified.found),
        Some(_) => format!("{id} is what it was, but something below it is not"),
    };
    for damaged in &verified.damaged {
        let _ = write!(text, "\n  layer {} changed:", damaged.layer);
        for path in &damaged.paths {
            let _ = write!(text, " {path}");
        }
        let more = damaged.count - damaged.paths.len() as u64;
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
    }
    text
}
