//! What the agent asked to have done outside, and what people say to it.

use axum::extract::State;
use model::{Action, Id};
use serde_json::json;
use store::actions::{ActionRecord, Decision, Status};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::actions::{Actions, offers};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, MaybeJson, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};

const LONGEST_MESSAGE: usize = 1000;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(approve))
        .routes(routes!(deny))
}

/// What can be asked for, and what was, the newest first.
#[utoipa::path(get, path = "/v1/sessions/{id}/actions", tag = "tools",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::ActionList)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::ActionList>> {
    let session = app.session(&caller, &id).await?.id;
    let limit = paging.limit()?;
    let found = app
        .store()
        .list_actions(session, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |action| action.id.to_string());
    let now = app.now();
    let items = found
        .iter()
        .map(|action| gateway::shown::action(action, now));
    Ok(Json(v1::ActionList {
        available: offers(),
        items: items.collect(),
        next_cursor,
    }))
}

/// Has it done. Said twice it is done once.
#[utoipa::path(post, path = "/v1/sessions/{id}/actions/{invocation}/approve", tag = "tools",
    params(("id" = String, Path), ("invocation" = String, Path)),
    responses((status = 200, body = v1::Action)))]
async fn approve(
    State(app): State<App>,
    caller: Caller,
    Named((id, invocation)): Named<(String, String)>,
) -> Answer<Json<v1::Action>> {
    decide(&app, &caller, &id, &invocation, Status::Approved, None).await
}

/// Does not let it be done.
#[utoipa::path(post, path = "/v1/sessions/{id}/actions/{invocation}/deny", tag = "tools",
    params(("id" = String, Path), ("invocation" = String, Path)),
    request_body = Option<v1::Decision>,
    responses((status = 200, body = v1::Action)))]
async fn deny(
    State(app): State<App>,
    caller: Caller,
    Named((id, invocation)): Named<(String, String)>,
    MaybeJson(said): MaybeJson<v1::Decision>,
) -> Answer<Json<v1::Action>> {
    let message = said.message.as_deref();
    if message.is_some_and(|message| message.len() > LONGEST_MESSAGE) {
        return Err(Problem::invalid(format!(
            "`message` has at most {LONGEST_MESSAGE} bytes"
        )));
    }
    decide(&app, &caller, &id, &invocation, Status::Denied, message).await
}

async fn decide(
    app: &App,
    caller: &Caller,
    id: &str,
    invocation: &str,
    status: Status,
    message: Option<&str>,
) -> Answer<Json<v1::Action>> {
    caller.may_change()?;
    let hub = app.hub(caller, id).await?;
    let user = caller
        .user
        .ok_or_else(|| Problem::forbidden("a person decides: use one's own token"))?;
    let action: Id<Action> = invocation
        .parse()
        .map_err(|_| Problem::not_found("action"))?;
    let decision = Decision {
        status,
        by: &user.to_string(),
        message,
        at: app.now(),
    };
    let mut tx = app.store().begin().await?;
    let (found, is_decided) = tx.decide_action(hub.session(), action, decision).await?;
    if is_decided {
        let body = json!({ "action": found.id.to_string(), "decision": status.as_str() });
        let line = app.line(caller, "session.action", Some(hub.session()), &body);
        tx.record(&line).await?;
    }
    tx.commit().await?;
    was_it_that(&found, status)?;
    let actions = Actions {
        store: app.store(),
        clock: app.clock(),
        session: &hub,
    };
    let settled = actions.settle(found).await?;
    if is_decided && status == Status::Denied {
        actions.tell_decision(&settled).await?;
    }
    Ok(Json(gateway::shown::action(&settled, app.now())))
}

/// Decided here, or alike before.
fn was_it_that(action: &ActionRecord, wanted: Status) -> Answer<()> {
    match (action.status, wanted) {
        (Status::Pending, _) => Err(Problem::conflict(
            "action-expired",
            "nobody decided in time: the agent may ask again",
        )),
        (Status::Denied, Status::Approved) => Err(Problem::conflict(
            "action-decided",
            "somebody denied it before",
        )),
        (Status::Approved | Status::Completed | Status::Failed, Status::Denied) => Err(
            Problem::conflict("action-decided", "somebody approved it before"),
        ),
        _ => Ok(()),
    }
}
