use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::problem::{Answer, Problem};

const PAGE: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// From the page before.
    cursor: Option<String>,
    limit: Option<u32>,
}

/// The transcript, from its beginning. It needs no sandbox.
#[utoipa::path(get, path = "/v1/sessions/{id}/messages", tag = "sessions",
    params(("id" = String, Path), Wanted),
    responses((status = 200, body = v1::Page<v1::Message>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(wanted): Params<Wanted>,
) -> Answer<Json<v1::Page<v1::Message>>> {
    let session = app.session(&caller, &id).await?.id;
    let limit = wanted.limit.unwrap_or(PAGE);
    if limit == 0 || limit > PAGE {
        return Err(Problem::invalid(format!("`limit` is 1 to {PAGE}")));
    }
    let after = wanted.cursor.map(|cursor| cursor.parse::<u64>());
    let after = after
        .transpose()
        .map_err(|_| Problem::invalid("`cursor` is the `next_cursor` of the page before"))?;
    let messages = app
        .store()
        .messages_after(session, after.unwrap_or(0), limit)
        .await?;
    // A page may have been cut for its size: it is the last one only when it is empty.
    let next_cursor = messages.last().map(|last| last.position.to_string());
    let kept = messages
        .into_iter()
        .filter(|message| message.removed_seq.is_none());
    Ok(Json(v1::Page {
        items: kept.map(gateway::shown::message).collect(),
        next_cursor,
    }))
}
