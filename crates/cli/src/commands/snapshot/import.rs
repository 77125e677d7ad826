use std::sync::Arc;

use portable::Control;

use super::place::{attended, source};
use super::shown;
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(
        value_name = "FILE",
        help = "Where from: a file, a directory, or s3://BUCKET/PREFIX, as export wrote it"
    )]
    place: String,
    /// The one to take from a directory or store that holds several: its id or name
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// A name for it [default: the one it has]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

pub(super) async fn run(
    app: &App,
    engine: &Engine,
    arguments: &Arguments,
) -> Result<(), CommandError> {
    let source = source(&arguments.place, arguments.snapshot.as_deref())?;
    let control = Arc::new(Control::default());
    let name = arguments.name.as_deref();
    let work = engine.local.import(source, name, Arc::clone(&control));
    let imported = attended(app, "importing", &control, work)
        .await
        .map_err(|error| error.context(format!("cannot import {}", arguments.place)))?;
    app.output.result(&imported, || shown(&imported))
}
