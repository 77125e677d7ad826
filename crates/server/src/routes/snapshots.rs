use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use store::snapshots::Snapshot;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::{App, read_snapshot};
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get, remove))
}

/// One snapshot, by its id.
#[utoipa::path(get, path = "/v1/snapshots/{id}", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 200, body = v1::SnapshotInfo)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::SnapshotInfo>> {
    let snapshot = find(&app, &caller, &id).await?;
    Ok(Json(shown::snapshot(&snapshot)))
}

/// Gives up a snapshot that no session goes on from.
#[utoipa::path(delete, path = "/v1/snapshots/{id}", tag = "snapshots", params(("id" = String, Path)),
    responses((status = 204)))]
async fn remove(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let snapshot = find(&app, &caller, &id).await?;
    // Marked first: from then on nobody begins from it.
    let mut tx = app.store().begin().await?;
    if tx.snapshot_is_needed(&snapshot.id).await? {
        tx.rollback().await?;
        return Err(Problem::conflict(
            "snapshot-in-use",
            "a session goes on from it: stop that one first",
        ));
    }
    tx.snapshot_was_removed(&snapshot.id, app.now()).await?;
    tx.commit().await?;
    let provider = app.provider(&snapshot.provider)?;
    provider
        .delete_snapshot(&read_snapshot(&snapshot.id)?)
        .await?;
    let body = json!({ "snapshot": snapshot.id });
    app.audit(&caller, "snapshot.remove", snapshot.session, body)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(app: &App, caller: &Caller, id: &str) -> Answer<Snapshot> {
    let missing = || Problem::not_found("snapshot");
    let found = app.store().find_snapshot(id).await?;
    let found = found.filter(|found| found.removed_at.is_none());
    let found = found.ok_or_else(missing)?;
    let organisation = match (found.organisation, found.session) {
        (Some(organisation), _) => Some(organisation),
        (None, Some(session)) => {
            let record = app.store().find_session(session).await?;
            record.map(|record| record.organisation)
        }
        (None, None) => None,
    };
    (organisation == Some(caller.organisation))
        .then_some(found)
        .ok_or_else(missing)
}
