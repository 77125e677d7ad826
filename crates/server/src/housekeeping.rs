//! What is over is taken away: uploads, codes, cookies, links, kept answers. And a change of keys that
//! was killed in the middle is gone on with.

use std::io;
use std::time::Duration;

use camino::Utf8Path;
use model::{SignedDuration, Timestamp};
use store::Store;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::outside::evidence;
use crate::routes::upload_path;

/// Between two looks.
const EVERY: Duration = Duration::from_mins(10);
/// Taken away at a look; the rest at the next.
const AT_ONCE: u32 = 200;
/// Answers are kept for whoever asks again, for so long.
const ANSWERS: SignedDuration = SignedDuration::from_hours(24);
/// Files are looked through at every so manieth look, and kept for so long without a record.
const SWEEP: u32 = 6;
const UNKNOWN: SignedDuration = SignedDuration::from_hours(1);
/// Links that are over are told of for so long.
const SHARES: SignedDuration = SignedDuration::from_hours(24 * 7);

pub(crate) async fn keep(app: &App, stop: CancellationToken) {
    if let Err(error) = app.parts.vault.reseal(app.store()).await {
        tracing::error!(%error, "secrets cannot be sealed anew");
    }
    let mut looks = 0_u32;
    loop {
        if let Err(error) = tidy(app).await {
            tracing::warn!(%error, "what is over stays for now");
        }
        if looks.is_multiple_of(SWEEP) {
            sweep(app).await;
        }
        looks = looks.wrapping_add(1);
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(EVERY) => {}
        }
    }
}

/// Files that nobody knows of: of who died while they came, and of sessions that were deleted.
pub(crate) async fn sweep(app: &App) {
    let uploads = &app.parts.uploads;
    let (store, before) = (app.store(), before(app.now(), UNKNOWN));
    let swept = async {
        sweep_folder(store, Kind::Upload, uploads, before).await?;
        let evidence = evidence::folder(uploads);
        sweep_folder(store, Kind::Evidence, &evidence, before).await
    };
    if let Err(error) = swept.await {
        tracing::warn!(%error, "files that nobody knows of stay for now");
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Upload,
    Evidence,
}

impl Kind {
    /// Whose name is none of ours is not ours to remove.
    async fn is_unknown(self, store: &Store, name: &str) -> Result<bool, store::Error> {
        let is_known = match (self, name.parse(), name.parse()) {
            (Self::Upload, Ok(id), _) => store.has_upload(id).await?,
            (Self::Evidence, _, Ok(id)) => store.has_evidence(id).await?,
            _ => return Ok(false),
        };
        Ok(!is_known)
    }
}

async fn sweep_folder(
    store: &Store,
    kind: Kind,
    folder: &Utf8Path,
    before: Timestamp,
) -> Result<(), SweepError> {
    let mut entries = match fs_err::tokio::read_dir(folder).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    while let Some(entry) = entries.next_entry().await? {
        let about = entry.metadata().await?;
        // One that still comes was written to a moment ago.
        let written = about
            .modified()
            .ok()
            .and_then(|at| Timestamp::try_from(at).ok());
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_old = about.is_file() && written.is_some_and(|at| at < before);
        if is_old && kind.is_unknown(store, name).await? {
            fs_err::tokio::remove_file(entry.path()).await?;
            tracing::info!(name, "a file that nobody knows of was removed");
        }
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

async fn tidy(app: &App) -> Result<(), store::Error> {
    let now = app.now();
    for upload in app.store().expired_uploads(now, AT_ONCE).await? {
        // Its file first, or nobody would know of it.
        let path = upload_path(app, upload.id);
        match fs_err::tokio::remove_file(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, "an upload that is over stays");
                continue;
            }
        }
        let mut tx = app.store().begin().await?;
        tx.remove_upload(upload.id).await?;
        tx.commit().await?;
    }
    let mut tx = app.store().begin().await?;
    tx.remove_expired_logins(now).await?;
    tx.remove_expired_shares(before(now, SHARES)).await?;
    tx.expire_requests(before(now, ANSWERS), now).await?;
    tx.commit().await?;
    if let Err(error) = app.parts.vault.drop_unused(app.store(), now).await {
        tracing::warn!(%error, "keys that nothing uses stay");
    }
    Ok(())
}

fn before(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
