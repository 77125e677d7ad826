//! Layer 0: where a root file system comes from.

pub(crate) mod debian;
mod directory;
pub(crate) mod host;
mod tarball;

use std::path::Path;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use model::Clock;
use provider::ProviderError;

use crate::error::Doing as _;
use crate::home::Home;
use crate::intent::Intent;
use crate::layer::{self, LayerId};

/// A large root file system on a slow disk takes minutes.
const IMPORT_PATIENCE: Duration = Duration::from_mins(10);

/// A directory or a tar as a layer; the same one again is found, not made again.
pub(crate) fn import(
    home: &Home,
    clock: &dyn Clock,
    path: &Path,
) -> Result<LayerId, ProviderError> {
    let path = Utf8Path::from_path(path)
        .ok_or_else(|| ProviderError::refused("the path of a root file system must be UTF-8"))?;
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ProviderError::not_found(path.to_string()));
        }
        other => other.doing(format!("reading {path}"))?,
    };
    let is_directory = metadata.is_dir();
    let fingerprint = if is_directory {
        directory::fingerprint(path)?
    } else {
        tarball::fingerprint(path, &metadata)?
    };
    let id = LayerId::named("rootfs", &fingerprint);
    fill_once(home, clock, &id, |place| {
        if is_directory {
            directory::fill(path, place)
        } else {
            tarball::fill(path, place)
        }
    })?;
    Ok(id)
}

/// Makes a layer by `fill` unless it is there; whole or not at all.
pub(crate) fn fill_once(
    home: &Home,
    clock: &dyn Clock,
    id: &LayerId,
    fill: impl FnOnce(&Utf8Path) -> Result<(), ProviderError>,
) -> Result<(), ProviderError> {
    let deadline = Instant::now() + IMPORT_PATIENCE;
    let intent = loop {
        if layer::exists(home, id) {
            return Ok(());
        }
        match (Intent::Import { layer: id.clone() }).declare(home) {
            Ok(intent) => break intent,
            // Another process is making the same layer.
            Err(ProviderError::Unavailable { .. }) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
        }
    };
    // Another process may have finished it just before.
    if layer::exists(home, id) {
        intent.done();
        return Ok(());
    }
    layer::discard(home, id)?;
    let result = layer::prepare(home, id)
        .and_then(|place| fill(&place))
        .and_then(|()| layer::seal(home, id, clock));
    if result.is_err() {
        layer::discard(home, id)?;
    }
    intent.done();
    result
}
