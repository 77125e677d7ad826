//! What came of a session: others that were made from it, what a setup found out.

use axum::extract::State;
use store::sessions::{Archived, Listing};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use super::listed;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(children))
        .routes(routes!(setup))
}

/// Sessions that were made from this one, the newest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/children", tag = "sessions",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::Page<v1::Session>)))]
async fn children(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::Session>>> {
    let parent = app.session(&caller, &id).await?.id;
    let limit = paging.limit()?;
    let listing = Listing {
        archived: Archived::Shown,
        parent: Some(parent),
        before: paging.cursor()?,
        limit: limit + 1,
        ..Listing::default()
    };
    let found = app
        .store()
        .list_sessions(caller.organisation, listing)
        .await?;
    let (found, next_cursor) = cut(found, limit, |session| session.id.to_string());
    Ok(Json(v1::Page {
        items: listed(&app, &found).await?,
        next_cursor,
    }))
}

/// What a setup session found out, as far as it said.
#[utoipa::path(get, path = "/v1/sessions/{id}/setup", tag = "tools",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Setup)))]
async fn setup(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Setup>> {
    let session = app.session(&caller, &id).await?.id;
    let Some(found) = app.store().find_setup(session).await? else {
        return Ok(Json(v1::Setup::default()));
    };
    Ok(Json(v1::Setup {
        services: read(found.services.as_deref())?,
        env_files: read(found.env_files.as_deref())?,
        updated_at: Some(shown::time(found.updated_at)),
    }))
}

fn read<T: serde::de::DeserializeOwned>(list: Option<&str>) -> Answer<Vec<T>> {
    let read = list.map(serde_json::from_str).transpose();
    Ok(read.map_err(Problem::internal)?.unwrap_or_default())
}
