//! Files that are sent to be used later: bundles of repositories, attachments.

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use camino::Utf8PathBuf;
use model::{Id, SignedDuration, Timestamp, Upload};
use serde::Deserialize;
use serde_json::json;
use store::uploads::UploadRecord;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::draft::{Draft, Received};
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
    let room = app.arriving().one(caller.organisation);
    let mut room = room.ok_or_else(|| {
        Problem::throttled(5, "eight files arrive already: wait until one is there")
    })?;
    let there = app.store().uploaded_bytes(caller.organisation).await?;
    let most = ALL.saturating_sub(there);
    let id: Id<Upload> = Id::new(app.clock());
    let file = Draft::new(path(&app, id));
    let received = file.receive(body, |bytes| {
        let fits = room.bytes() + bytes <= LONGEST && room.grow(bytes, most);
        fits.then_some(()).ok_or_else(full)
    });
    let Received { size, digest } = received.await?;
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
    tx.hold_organisation(caller.organisation).await?;
    // Others may have arrived meanwhile, here or elsewhere.
    if tx.uploaded_bytes(caller.organisation).await? + size > ALL {
        tx.rollback().await?;
        return Err(full());
    }
    tx.create_upload(&record).await?;
    let body = json!({ "upload": id.to_string(), "size": size });
    tx.record(&app.line(&caller, "upload.create", None, &body))
        .await?;
    tx.commit().await?;
    file.keep();
    let shown = v1::Upload {
        upload_id: id.to_string(),
        size,
        digest,
        expires_at: shown::time(expires_at),
    };
    Ok((StatusCode::CREATED, Json(shown)))
}

fn full() -> Problem {
    Problem::too_large(
        "a file has at most 2 GiB, and all of them 8: what is not used goes after a week",
    )
}

/// Where an upload lies.
pub(crate) fn path(app: &App, id: Id<Upload>) -> Utf8PathBuf {
    app.parts.uploads.join(id.to_string())
}
