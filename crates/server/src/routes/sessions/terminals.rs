//! Terminals that run in a sandbox. `…/terminal` is the socket to one.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use gateway::encode;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::devtools::{PATIENCE, inside, look};
use crate::extract::{Json, Named};
use crate::problem::Answer;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(close))
}

/// Terminals that run, whether anybody looks or not.
#[utoipa::path(get, path = "/v1/sessions/{id}/terminals", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::TerminalList)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::TerminalList>> {
    let hub = app.hub(&caller, &id).await?;
    Ok(Json(look(&app, &hub, "/api/terminals").await?))
}

/// Ends a terminal, with everything that runs in it.
#[utoipa::path(delete, path = "/v1/sessions/{id}/terminals/{name}", tag = "inside",
    params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 204)))]
async fn close(
    State(app): State<App>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "terminal": name });
    app.audit(&caller, "session.close_terminal", Some(hub.session()), body)
        .await?;
    let inside = inside(&app, &hub).await?;
    let path = format!("/api/terminals/{}", encode(&name));
    let _: Value = inside.ask(Method::DELETE, &path, None, PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}
