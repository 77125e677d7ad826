use std::num::NonZero;
use std::sync::Arc;

use model::ByteCount;
use portable::{Control, Packing};

use super::place::{attended, target};
use crate::app::{App, Engine};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre snapshot export base base.nacre
  nacre snapshot export base s3://pearls/nacre --level 9

FILE is a file, which must not exist yet; a directory (one that exists, or a name with a slash at
its end); or s3://BUCKET/PREFIX. A directory and a store hold any number of snapshots; what is there
already is not sent again, so an export that was cut off goes on where it was. For S3 the usual
variables are read: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_ALLOW_HTTP and so on.")]
pub(crate) struct Arguments {
    /// Its id, name, or the beginning of its id
    snapshot: String,
    #[arg(
        value_name = "FILE",
        help = "Where to: a file, a directory, or s3://BUCKET/PREFIX"
    )]
    place: String,
    /// How hard zstd compresses
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    level: i32,
    /// How many threads compress [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

pub(super) async fn run(
    app: &App,
    engine: &Engine,
    arguments: &Arguments,
) -> Result<(), CommandError> {
    let id = engine.snapshot(&arguments.snapshot)?;
    let target = target(&arguments.place)?;
    let packing = Packing::default();
    let packing = Packing {
        level: arguments.level,
        threads: arguments.threads.unwrap_or(packing.threads),
    };
    let control = Arc::new(Control::default());
    let work = engine
        .local
        .export(&id, target, packing, Arc::clone(&control));
    let exported = attended(app, "exporting", &control, work).await?;
    app.output.result(&exported, || {
        let sent = exported.sent;
        let found = match sent.found {
            0 => String::new(),
            found => format!("; {found} blobs were there already"),
        };
        format!(
            "{id} is in {}: {} in {} layers, {} sent{found}",
            arguments.place,
            ByteCount::new(exported.bytes),
            exported.layers,
            ByteCount::new(sent.bytes),
        )
    })
}
