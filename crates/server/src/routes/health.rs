use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::Json;
use crate::problem::{Answer, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
struct Health {
    ok: bool,
    version: String,
    uptime_ms: u64,
    /// Sessions that this process serves now.
    active_sessions: usize,
}

/// Whether the server lives.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, body = Health)))]
async fn health(State(app): State<App>) -> Json<Health> {
    Json(Health {
        ok: true,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: app.uptime_ms(),
        active_sessions: app.sessions().count(),
    })
}

/// Whether it can do its work: the database answers, and it is not about to end.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, body = Health)))]
async fn ready(State(app): State<App>) -> Answer<Json<Health>> {
    if app.stopping().is_cancelled() {
        return Err(Problem::unavailable("the server ends: ask another one"));
    }
    app.store()
        .ping()
        .await
        .map_err(|_| Problem::unavailable("the database does not answer"))?;
    Ok(health(State(app)).await)
}
