use std::str::FromStr;

use axum::extract::State;
use axum::http::StatusCode;
use model::Timestamp;
use serde_json::json;
use store::snapshots::{Before, Needed, Snapshot};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, remove))
}

/// What was kept of the organisation's sessions, the newest first.
#[utoipa::path(get, path = "/v1/snapshots", tag = "snapshots", params(Paging),
    responses((status = 200, body = v1::Page<v1::SnapshotInfo>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::SnapshotInfo>>> {
    let (limit, before) = (paging.limit()?, before(&paging)?);
    let found = app
        .store()
        .organisation_snapshots(caller.organisation, before.as_ref(), limit + 1)
        .await?;
    Ok(Json(page(found, limit)))
}

/// Where a listing goes on, as its cursor says: when, and after which.
struct Cursor(Before);

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (at, id) = text.split_once('.').ok_or(())?;
        let at = at.parse().map_err(drop)?;
        let at = Timestamp::from_millisecond(at).map_err(drop)?;
        let is_id = (1..=200).contains(&id.len()) && !id.contains('\0');
        let id = id.to_owned();
        is_id.then_some(Self(Before { at, id })).ok_or(())
    }
}

pub(super) fn before(paging: &Paging) -> Answer<Option<Before>> {
    let cursor: Option<Cursor> = paging.cursor()?;
    Ok(cursor.map(|Cursor(before)| before))
}

pub(super) fn page(found: Vec<Snapshot>, limit: u32) -> v1::Page<v1::SnapshotInfo> {
    let cursor = |last: &Snapshot| format!("{}.{}", last.created_at.as_millisecond(), last.id);
    let (found, next_cursor) = cut(found, limit, cursor);
    v1::Page {
        items: found.iter().map(shown::snapshot).collect(),
        next_cursor,
    }
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
    let given_up = tx
        .give_up_snapshot(&snapshot.id, Needed::ByRunnable, app.now())
        .await?;
    if !given_up {
        tx.rollback().await?;
        return Err(Problem::conflict(
            "snapshot-in-use",
            "a session goes on from it: stop that one first",
        ));
    }
    let body = json!({ "snapshot": snapshot.id });
    tx.record(&app.line(&caller, "snapshot.remove", snapshot.session, &body))
        .await?;
    tx.commit().await?;
    // What its provider does not give up now it is asked for again.
    app.sessions()
        .give_up(&snapshot.provider, &snapshot.id)
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
