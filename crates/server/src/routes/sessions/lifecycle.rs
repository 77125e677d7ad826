//! What can be done to a session as a whole.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use model::session::{Lifecycle, PauseReason, State as At, StopReason};
use model::{Id, Origin, Session};
use serde::Deserialize;
use serde_json::json;
use store::idempotency::Attempt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use super::create::{Made, write};
use super::{now, read_title};
use crate::app::{App, read_snapshot, read_spec};
use crate::auth::Caller;
use crate::extract::{Json, MaybeJson, Named};
use crate::once::{self, Once};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(migrate))
        .routes(routes!(stop))
        .routes(routes!(fork))
        .routes(routes!(recover))
}

#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Which {
    /// On all channels, unless one is named.
    channel: Option<String>,
}

/// Ends the turn under way.
#[utoipa::path(post, path = "/v1/sessions/{id}/cancel", tag = "sessions",
    params(("id" = String, Path)), request_body = Option<Which>,
    responses((status = 200, body = v1::Session)))]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    MaybeJson(which): MaybeJson<Which>,
) -> Answer<Json<v1::Session>> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "channel": which.channel });
    app.audit(&caller, "session.cancel", Some(hub.session()), body)
        .await?;
    hub.cancel(which.channel.as_deref()).await?;
    Ok(Json(now(&app, &caller, &id).await?))
}

/// Ends the turn, keeps everything, and lets the sandbox rest.
#[utoipa::path(post, path = "/v1/sessions/{id}/pause", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::SessionWithReceipt)))]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::SessionWithReceipt>> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    app.audit(&caller, "session.pause", Some(hub.session()), json!({}))
        .await?;
    let receipt = hub.pause(PauseReason::Manual).await?;
    Ok(Json(v1::SessionWithReceipt {
        session: now(&app, &caller, &id).await?,
        receipt: Some(shown::receipt(&receipt)),
    }))
}

/// Has it run again, and answers when it does.
#[utoipa::path(post, path = "/v1/sessions/{id}/resume", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Session)))]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Session>> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    app.audit(&caller, "session.resume", Some(hub.session()), json!({}))
        .await?;
    hub.ensure_ready().await?;
    Ok(Json(now(&app, &caller, &id).await?))
}

/// Moves it to a new sandbox with all that is on its disk, and answers when it runs there. A turn
/// under way is interrupted: what it said stays, and it is never run a second time.
#[utoipa::path(post, path = "/v1/sessions/{id}/migrate", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Session)))]
async fn migrate(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Session>> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    app.audit(&caller, "session.migrate", Some(hub.session()), json!({}))
        .await?;
    hub.migrate().await?;
    Ok(Json(now(&app, &caller, &id).await?))
}

/// Ends it for good. Its transcript stays, and a fork goes on from its last snapshot.
#[utoipa::path(post, path = "/v1/sessions/{id}/stop", tag = "sessions",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::SessionWithReceipt)))]
async fn stop(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::SessionWithReceipt>> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    app.audit(&caller, "session.stop", Some(hub.session()), json!({}))
        .await?;
    hub.stop(StopReason::Manual).await?;
    hub.is_over().await?;
    let session = now(&app, &caller, &id).await?;
    let receipt = match &session.snapshot_id {
        Some(snapshot) => app.store().find_snapshot(snapshot).await?,
        None => None,
    };
    Ok(Json(v1::SessionWithReceipt {
        session,
        receipt: receipt.as_ref().map(shown::receipt),
    }))
}

/// Another session that goes on from this one's files, and begins with what was said by then.
#[utoipa::path(post, path = "/v1/sessions/{id}/fork", tag = "sessions",
    params(("id" = String, Path)), request_body = Option<v1::Fork>,
    responses((status = 201, body = v1::Session)))]
async fn fork(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Named(id): Named<String>,
    MaybeJson(fork): MaybeJson<v1::Fork>,
) -> Answer<(StatusCode, Json<v1::Session>)> {
    caller.may_change()?;
    let parent = app.session(&caller, &id).await?.id;
    let title = fork.title.as_deref().map(read_title).transpose()?;
    let what = format!("POST /v1/sessions/{parent}/fork");
    let made: Made = match Once::begin(&app, &caller, &headers, &what, &fork).await? {
        Once::Do(attempt) => {
            let made = make_fork(&app, &caller, parent, &fork, title, attempt.as_ref()).await;
            if made.is_err() {
                once::forget(&app, attempt.as_ref()).await?;
            }
            made?
        }
        Once::Done(made) => made,
    };
    let session = now(&app, &caller, &made.id).await?;
    Ok((StatusCode::CREATED, Json(session)))
}

async fn make_fork(
    app: &App,
    caller: &Caller,
    parent: Id<Session>,
    fork: &v1::Fork,
    title: Option<String>,
    attempt: Option<&Attempt>,
) -> Answer<Made> {
    let snapshot = fork.snapshot_id.as_deref().map(read_snapshot).transpose()?;
    let planned = app.sessions().plan_fork(parent, snapshot, caller.user);
    let mut planned = planned.await?;
    if let Some(title) = title {
        planned.record.title = title;
    }
    let body = json!({ "parent": parent.to_string() });
    write(app, caller, &planned, "session.fork", &body, attempt).await
}

/// Consents to what a degraded session lost, and has it run from what was kept.
#[utoipa::path(post, path = "/v1/sessions/{id}/recover", tag = "sessions",
    params(("id" = String, Path)), request_body = v1::Recover,
    responses((status = 200, body = v1::Session)))]
async fn recover(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(consent): Json<v1::Recover>,
) -> Answer<Json<v1::Session>> {
    caller.may_change()?;
    let record = app.session(&caller, &id).await?;
    if !consent.accept {
        return Err(Problem::invalid(
            "only `accept: true` recovers: what was lost stays lost",
        ));
    }
    let spec = read_spec(&record)?;
    let lifecycle = record.state.lifecycle()?;
    let origin = match kept(&lifecycle) {
        Some(kept) => Origin::Session(kept),
        None => spec.base.map_or(Origin::Bare, Origin::Base),
    };
    let hub = app.sessions().open(record.id).await?;
    app.audit(&caller, "session.recover", Some(record.id), json!({}))
        .await?;
    hub.recover(origin).await?;
    Ok(Json(now(&app, &caller, &id).await?))
}

fn kept(lifecycle: &Lifecycle) -> Option<model::SnapshotId> {
    let resting = match &lifecycle.state {
        At::Paused(paused) => &paused.resting,
        At::Suspended(suspended) => &suspended.resting,
        _ => return None,
    };
    resting.degraded.as_ref().and_then(|one| one.kept.clone())
}
