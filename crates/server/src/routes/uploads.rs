//! Files that are sent to be used later: bundles of repositories, attachments.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use camino::Utf8PathBuf;
use futures::TryStreamExt as _;
use model::{Id, SignedDuration, Timestamp, Upload};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::uploads::UploadRecord;
use tokio::io::AsyncWriteExt as _;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Params};
use crate::problem::{Answer, Problem};
use crate::shown;

const LONGEST: u64 = 2 << 30;
/// Of one organisation, together.
const ALL: u64 = 8 << 30;
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 7);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct About {
    name: Option<String>,
    media_type: Option<String>,
}

/// Sends a file. It is kept for a week.
#[utoipa::path(post, path = "/v1/uploads", tag = "uploads", params(About),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = v1::Upload)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Params(about): Params<About>,
    body: Body,
) -> Answer<(StatusCode, Json<v1::Upload>)> {
    caller.may_change()?;
    let there = app.store().uploaded_bytes(caller.organisation).await?;
    let room = LONGEST.min(ALL.saturating_sub(there));
    let id: Id<Upload> = Id::new(app.clock());
    let file = Draft::new(path(&app, id));
    let (size, digest) = file.receive(body, room).await?;
    let now = app.now();
    let expires_at = now.checked_add(LIFE).unwrap_or(Timestamp::MAX);
    let record = UploadRecord {
        id,
        organisation: caller.organisation,
        created_by: caller.user,
        name: about.name.unwrap_or_default(),
        media_type: about
            .media_type
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        size,
        digest: format!("sha256:{digest}"),
        created_at: now,
        expires_at,
    };
    let mut tx = app.store().begin().await?;
    tx.create_upload(&record).await?;
    tx.commit().await?;
    file.keep();
    let body = json!({ "upload": id.to_string(), "size": size });
    app.audit(&caller, "upload.create", None, body).await?;
    let shown = v1::Upload {
        upload_id: id.to_string(),
        size,
        digest,
        expires_at: shown::time(expires_at),
    };
    Ok((StatusCode::CREATED, Json(shown)))
}

/// Where an upload lies.
pub(crate) fn path(app: &App, id: Id<Upload>) -> Utf8PathBuf {
    app.parts.uploads.join(id.to_string())
}

/// A file that goes again unless it is kept.
#[derive(Debug)]
struct Draft {
    path: Utf8PathBuf,
    is_kept: std::sync::atomic::AtomicBool,
}

impl Draft {
    fn new(path: Utf8PathBuf) -> Self {
        Self {
            path,
            is_kept: false.into(),
        }
    }

    async fn receive(&self, body: Body, room: u64) -> Answer<(u64, String)> {
        if let Some(folder) = self.path.parent() {
            fs_err::tokio::create_dir_all(folder)
                .await
                .map_err(Problem::internal)?;
        }
        let mut file = fs_err::tokio::File::create(&self.path)
            .await
            .map_err(Problem::internal)?;
        let (mut size, mut digest) = (0, Sha256::new());
        let mut body = body.into_data_stream();
        while let Some(piece) = body
            .try_next()
            .await
            .map_err(|_| Problem::invalid("the body ended early"))?
        {
            size += piece.len() as u64;
            if size > room {
                return Err(Problem::too_large(
                    "a file has at most 2 GiB, and all of them 8: what is not used goes after a week",
                ));
            }
            digest.update(&piece);
            file.write_all(&piece).await.map_err(Problem::internal)?;
        }
        file.sync_all().await.map_err(Problem::internal)?;
        let digits = digest.finalize();
        let digits = digits.iter().map(|byte| format!("{byte:02x}"));
        Ok((size, digits.collect()))
    }

    fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // It may never have come to be.
            let _ = fs_err::remove_file(&self.path);
        }
    }
}
