//! What is over is taken away: uploads, codes, cookies, links, kept answers. And a change of keys that
//! was killed in the middle is gone on with.

use std::time::Duration;

use model::{SignedDuration, Timestamp};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::routes::upload_path;

/// Between two looks.
const EVERY: Duration = Duration::from_mins(10);
/// Taken away at a look; the rest at the next.
const AT_ONCE: u32 = 200;
/// Answers are kept for whoever asks again, for so long.
const ANSWERS: SignedDuration = SignedDuration::from_hours(24);
/// Links that are over are told of for so long.
const SHARES: SignedDuration = SignedDuration::from_hours(24 * 7);

pub(crate) async fn keep(app: &App, stop: CancellationToken) {
    if let Err(error) = app.parts.vault.reseal(app.store()).await {
        tracing::error!(%error, "secrets cannot be sealed anew");
    }
    loop {
        if let Err(error) = tidy(app).await {
            tracing::warn!(%error, "what is over stays for now");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(EVERY) => {}
        }
    }
}

async fn tidy(app: &App) -> Result<(), store::Error> {
    let now = app.now();
    for upload in app.store().expired_uploads(now, AT_ONCE).await? {
        // Its file first, or nobody would know of it.
        let path = upload_path(app, upload.id);
        match fs_err::tokio::remove_file(&path).await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
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
