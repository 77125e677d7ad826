use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, MaybeJson, Named, Params};
use crate::paging::Paging;
use crate::problem::{Answer, Problem};
use crate::routes::snapshots::{before, page};
use crate::shown;

const LONGEST_MESSAGE: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, take))
}

/// What was kept of a session, the newest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::Page<v1::SnapshotInfo>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::SnapshotInfo>>> {
    let session = app.session(&caller, &id).await?.id;
    let (limit, before) = (paging.limit()?, before(&paging)?);
    let found = app
        .store()
        .session_snapshots(session, before.as_ref(), limit + 1)
        .await?;
    Ok(Json(page(found, limit)))
}

/// Keeps a running session's disk as it is now; it goes on.
#[utoipa::path(post, path = "/v1/sessions/{id}/snapshots", tag = "snapshots",
    params(("id" = String, Path)), request_body = Option<v1::NewSnapshot>,
    responses((status = 201, body = v1::Receipt)))]
async fn take(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    MaybeJson(new): MaybeJson<v1::NewSnapshot>,
) -> Answer<(StatusCode, Json<v1::Receipt>)> {
    caller.may_change()?;
    let message = new.message.as_deref().map(str::trim);
    let message = message.filter(|message| !message.is_empty());
    if message.is_some_and(|message| message.len() > LONGEST_MESSAGE) {
        return Err(Problem::invalid(format!(
            "`message` has at most {LONGEST_MESSAGE} bytes"
        )));
    }
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "message": message });
    app.audit(&caller, "session.snapshot", Some(hub.session()), body)
        .await?;
    let snapshot = match message {
        Some(message) => hub.snapshot_called(message).await?,
        None => hub.snapshot().await?,
    };
    let snapshot = snapshot.to_string();
    let taken = app.store().find_snapshot(&snapshot).await?;
    let taken = taken.ok_or_else(|| Problem::internal("a snapshot without a record"))?;
    Ok((StatusCode::CREATED, Json(shown::receipt(&taken))))
}
