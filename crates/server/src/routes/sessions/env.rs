//! Values that somebody was asked for: into the sandbox, and into no transcript.

use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Secret};
use serde_json::{Value, json};
use sessions::{Handle, HubError};
use store::secrets::{NewSecret, Scope};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::devtools::act;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};

const MOST: usize = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(give))
}

/// Gives values to a session's sandbox. Those in `persist` are kept as its secrets first, so that
/// they are there in the next one, too.
#[utoipa::path(post, path = "/v1/sessions/{id}/env", tag = "inside",
    params(("id" = String, Path)), request_body = v1::EnvValues,
    responses((status = 204), (status = "4XX", body = v1::Problem),
        (status = "5XX", body = v1::Problem)))]
async fn give(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(given): Json<v1::EnvValues>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let is_name = |name: &String| {
        let mut bytes = name.bytes();
        let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        name.len() <= 200
            && bytes.next().is_some_and(is_first)
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if given.values.len() > MOST || !given.values.keys().all(is_name) {
        return Err(Problem::invalid(
            "`values` has at most 100 names of letters, digits and `_`",
        ));
    }
    if let Some(missing) = given
        .persist
        .iter()
        .find(|name| !given.values.contains_key(*name))
    {
        return Err(Problem::invalid(format!(
            "`persist` names `{}`, which has no value",
            missing.chars().take(100).collect::<String>()
        )));
    }
    let session = hub.session();
    let mut tx = app.store().begin().await?;
    for name in &given.persist {
        let scope = Scope::Session(session);
        let value = Secret::new(given.values[name].clone());
        let sealed = app
            .parts
            .vault
            .seal(caller.organisation, &scope, name, &value)
            .map_err(Problem::internal)?;
        tx.put_secret(&NewSecret {
            id: Id::new(app.clock()),
            organisation: caller.organisation,
            scope,
            name: name.clone(),
            value: sealed,
            at: app.now(),
        })
        .await?;
    }
    let names: Vec<&String> = given.values.keys().collect();
    let body = json!({ "request": given.id, "names": names, "persist": given.persist });
    tx.record(&app.line(&caller, "session.env", Some(session), &body))
        .await?;
    tx.commit().await?;
    let body = json!({ "values": given.values });
    let _: Value = act(&app, &hub, "/api/env/values", &body).await?;
    if let Some(request) = &given.id {
        answered(&app, &hub, request).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Whoever watches is told that nobody need answer any more. Never what was given.
async fn answered(app: &App, hub: &Handle, request: &str) -> Answer<()> {
    let waiting = app.store().open_env_requests(hub.session()).await?;
    if !waiting.iter().any(|asked| asked.id == request) {
        return Ok(());
    }
    let frame = json!({ "type": "env_answered", "id": request });
    match hub.announce(&frame).await {
        // Somebody else gave them at the same moment.
        Err(HubError::Store(store::Error::Misfit(_))) => Ok(()),
        told => Ok(told?),
    }
}
