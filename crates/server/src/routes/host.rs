//! The machine under the sessions.

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::Json;
use crate::problem::{Answer, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(storage))
        .routes(routes!(doctor))
        .routes(routes!(egress))
}

/// What is on the disk under all sandboxes. For owners.
#[utoipa::path(get, path = "/v1/storage", tag = "machine",
    responses((status = 200, body = v1::Storage)))]
async fn storage(State(app): State<App>, caller: Caller) -> Answer<Json<v1::Storage>> {
    caller.must_own()?;
    let storage = app.parts.offer.storage().await?;
    Ok(Json(storage.ok_or_else(elsewhere)?))
}

/// Whether the machine can run sandboxes, and what to do if not. For owners.
#[utoipa::path(get, path = "/v1/doctor", tag = "machine",
    responses((status = 200, body = v1::Doctor)))]
async fn doctor(State(app): State<App>, caller: Caller) -> Answer<Json<v1::Doctor>> {
    caller.must_own()?;
    let findings = app.parts.offer.doctor().await?;
    let findings = findings.ok_or_else(elsewhere)?;
    let is_missing = |finding: &v1::Finding| finding.status == v1::FindingStatus::Missing;
    Ok(Json(v1::Doctor {
        ok: !findings.iter().any(is_missing),
        findings,
    }))
}

fn elsewhere() -> Problem {
    Problem::not_found("machine of sandboxes that this server looks after")
}

/// What sessions of the organisation reach that say nothing of it.
#[utoipa::path(get, path = "/v1/egress", tag = "egress",
    responses((status = 200, body = v1::EgressDefaults)))]
async fn egress(State(app): State<App>, caller: Caller) -> Json<v1::EgressDefaults> {
    let offer = &app.parts.offer;
    let usual = offer.egress(caller.organisation);
    Json(v1::EgressDefaults {
        policy: usual.policy.unwrap_or_default(),
        allow: usual.allow,
        everywhere: offer.reached_everywhere(),
    })
}
