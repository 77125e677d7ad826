//! What export and import share: places as people name them, a line that says how far it is, and
//! an end when somebody wants one.

use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use model::ByteCount;
use portable::place::{ReadDirectory, ReadFile, WriteDirectory, WriteFile, s3};
use portable::{Control, Place, Source, Target};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::config;
use crate::error::CommandError;

/// How often a person is told how far it is.
const TICK: Duration = Duration::from_millis(250);

pub(super) fn target(text: &str) -> Result<Box<dyn Target>, CommandError> {
    let place = Place::parse(text).map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(match &place {
        Place::File(path) => Box::new(new_file(path)?),
        Place::Directory(path) => Box::new(WriteDirectory::open(path)?),
        Place::S3 { bucket, prefix } => Box::new(s3::WriteStore::new(store(bucket, prefix)?)),
    })
}

pub(super) fn source(text: &str, snapshot: Option<&str>) -> Result<Box<dyn Source>, CommandError> {
    let place = Place::parse(text).map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(match &place {
        Place::File(path) | Place::Directory(path) if !path.exists() => {
            return Err(CommandError::not_found(format!("{path} does not exist")));
        }
        Place::File(_) if snapshot.is_some() => {
            return Err(CommandError::usage(
                "--snapshot chooses among those of a directory or store; a file holds one",
            ));
        }
        Place::File(path) => Box::new(ReadFile::open(path)?),
        Place::Directory(path) => Box::new(
            ReadDirectory::open(path, snapshot)
                .map_err(|error| CommandError::refused(error.to_string()))?,
        ),
        Place::S3 { bucket, prefix } => {
            Box::new(s3::ReadStore::new(store(bucket, prefix)?, snapshot))
        }
    })
}

fn new_file(path: &Utf8Path) -> Result<WriteFile, CommandError> {
    WriteFile::create(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CommandError::refused(error.to_string()).hint("remove it first, or choose another name")
        }
        std::io::ErrorKind::NotFound => {
            CommandError::not_found(format!("the directory of {path} does not exist"))
        }
        _ => CommandError::from(error).context(format!("cannot write {path}")),
    })
}

fn store(bucket: &str, prefix: &str) -> Result<s3::Store, CommandError> {
    s3::Store::open(bucket, prefix, config::s3_settings(), Handle::current())
        .map_err(|error| CommandError::refused(error.to_string()))
}

/// Does long work, saying how far it is; Ctrl-C and its like end it, and wait until it has tidied
/// up behind itself.
pub(super) async fn attended<T>(
    app: &App,
    doing: &'static str,
    control: &Arc<Control>,
    work: impl Future<Output = Result<T, provider::ProviderError>>,
) -> Result<T, CommandError> {
    let progress = app.output.progress(doing);
    let mut signals = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let [interrupt, terminate, hangup] = &mut signals;
    let mut tick = tokio::time::interval(TICK);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                drop(progress);
                return match result {
                    Err(_) if control.is_cancelled() => {
                        Err(CommandError::failed("interrupted; nothing half-made is left"))
                    }
                    other => Ok(other?),
                };
            }
            _ = interrupt.recv() => control.cancel(),
            _ = terminate.recv() => control.cancel(),
            _ = hangup.recv() => control.cancel(),
            _ = tick.tick() => {
                let (done, total) = control.progress();
                if total > 0 {
                    let of = |bytes| ByteCount::new(bytes).to_string();
                    progress.say(&format!("{doing}: {} of {}", of(done.min(total)), of(total)));
                }
            }
        }
    }
}
