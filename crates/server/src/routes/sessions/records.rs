//! Sessions as records: one, many, changed, gone.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use store::sessions::{Archived, Listing, Status};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use super::{listed, now, read_title};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, change, delete))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Only those in this status.
    status: Option<v1::Status>,
    /// Archived ones instead of the others.
    #[serde(default)]
    archived: bool,
    /// Only those with this in their title.
    search: Option<String>,
    /// Only those that were forked from this one.
    parent: Option<String>,
    /// From the page before.
    cursor: Option<String>,
    limit: Option<u32>,
}

/// The organisation's sessions, the newest first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(Wanted),
    responses((status = 200, body = v1::Page<v1::Session>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(wanted): Params<Wanted>,
) -> Answer<Json<v1::Page<v1::Session>>> {
    let paging = Paging::new(wanted.cursor, wanted.limit);
    let (limit, before) = (paging.limit()?, paging.cursor()?);
    let parent = wanted.parent.as_deref().map(str::parse);
    let parent = parent
        .transpose()
        .map_err(|_| Problem::invalid("`parent` is the id of a session"))?;
    let listing = Listing {
        status: wanted.status.map(stored).transpose()?,
        archived: if wanted.archived {
            Archived::Only
        } else {
            Archived::Hidden
        },
        parent,
        search: wanted.search.as_deref(),
        before,
        limit: limit + 1,
    };
    let records = app
        .store()
        .list_sessions(caller.organisation, listing)
        .await?;
    let (records, next_cursor) = cut(records, limit, |record| record.id.to_string());
    Ok(Json(v1::Page {
        items: listed(&app, &records).await?,
        next_cursor,
    }))
}

fn stored(status: v1::Status) -> Answer<Status> {
    Ok(match status {
        v1::Status::Starting => Status::Starting,
        v1::Status::Running => Status::Running,
        v1::Status::Migrating => Status::Migrating,
        v1::Status::Paused => Status::Paused,
        v1::Status::Suspended => Status::Suspended,
        v1::Status::Stopped => Status::Stopped,
        v1::Status::Unknown => return Err(Problem::invalid("no session is in such a `status`")),
    })
}

/// A session.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = v1::Session)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Session>> {
    Ok(Json(now(&app, &caller, &id).await?))
}

/// Gives it another title, or hides it from listings.
#[utoipa::path(patch, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    request_body = v1::ChangeSession,
    responses((status = 200, body = v1::Session)))]
async fn change(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(change): Json<v1::ChangeSession>,
) -> Answer<Json<v1::Session>> {
    caller.may_change()?;
    let title = change.title.as_deref().map(read_title).transpose()?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "title": title, "archived": change.archived });
    app.audit(&caller, "session.change", Some(hub.session()), body)
        .await?;
    if let Some(title) = &title {
        hub.rename(title).await?;
    }
    if let Some(archived) = change.archived {
        hub.archive(archived).await?;
    }
    Ok(Json(now(&app, &caller, &id).await?))
}

/// Stops it and forgets it, with all that was said.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 204)))]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let record = app.session(&caller, &id).await?;
    let body = json!({ "title": record.title });
    app.audit(&caller, "session.delete", Some(record.id), body)
        .await?;
    app.sessions().delete(record.id).await?;
    Ok(StatusCode::NO_CONTENT)
}
