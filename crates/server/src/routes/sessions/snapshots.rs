use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, MaybeJson, Named};
use crate::problem::{Answer, Problem};
use crate::shown;

const MOST: u32 = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, take))
}

/// What was kept of a session, the newest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Page<v1::SnapshotInfo>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Page<v1::SnapshotInfo>>> {
    let session = app.session(&caller, &id).await?.id;
    let snapshots = app.store().session_snapshots(session, MOST).await?;
    Ok(Json(v1::Page {
        items: snapshots.iter().map(shown::snapshot).collect(),
        next_cursor: None,
    }))
}

/// Keeps a running session's disk as it is now; it goes on.
#[utoipa::path(post, path = "/v1/sessions/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path)), request_body = Option<v1::NewSnapshot>,
    responses((status = 201, body = v1::Receipt)))]
async fn take(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    MaybeJson(_new): MaybeJson<v1::NewSnapshot>,
) -> Answer<(StatusCode, Json<v1::Receipt>)> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let snapshot = hub.snapshot().await?.to_string();
    let body = json!({ "snapshot": snapshot });
    app.audit(&caller, "session.snapshot", Some(hub.session()), body)
        .await?;
    let taken = app.store().find_snapshot(&snapshot).await?;
    let taken = taken.ok_or_else(|| Problem::internal("a snapshot without a record"))?;
    Ok((StatusCode::CREATED, Json(shown::receipt(&taken))))
}
