use ::metrics::gauge;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::Caller;
use crate::metrics;
use crate::problem::{Answer, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// Counters and times, as Prometheus reads them.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "text/plain")))]
async fn scrape(State(app): State<App>, _: Caller) -> Answer<Response> {
    let recorder = metrics::start();
    let recorder = recorder.ok_or_else(|| Problem::internal("nobody counts"))?;
    let live = u32::try_from(app.sessions().count()).unwrap_or(u32::MAX);
    gauge!("nacre_sessions_live").set(live);
    let sockets = u32::try_from(app.gateway().sockets()).unwrap_or(u32::MAX);
    gauge!("nacre_sockets_open").set(sockets);
    let uptime = std::time::Duration::from_millis(app.uptime_ms());
    gauge!("nacre_uptime_seconds").set(uptime.as_secs_f64());
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((kind, recorder.render()).into_response())
}
