//! Prompts: asked, looked at, changed while they wait.

use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Session};
use serde_json::json;
use sessions::Ask;
use store::audit::Line;
use store::prompts::NewPrompt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use super::watch::known;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};
use crate::shown;

const LONGEST_ID: usize = 100;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(ask))
        .routes(routes!(get, edit, withdraw))
}

/// Asks the agent something. The same `id` again answers the same prompt, and never runs it twice.
#[utoipa::path(post, path = "/v1/sessions/{id}/prompts", tag = "prompts",
    params(("id" = String, Path)), request_body = v1::NewPrompt,
    responses((status = 202, body = v1::Prompt)))]
async fn ask(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(new): Json<v1::NewPrompt>,
) -> Answer<(StatusCode, Json<v1::Prompt>)> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let prompt = read(&app, &caller, new).await?;
    let line = line(&app, &caller, hub.session(), &prompt);
    let prompt = hub.prompt_by(prompt, line).await?;
    Ok((StatusCode::ACCEPTED, Json(shown::prompt(&prompt)?)))
}

/// As the session takes it, with who asks.
pub(super) async fn read(app: &App, caller: &Caller, new: v1::NewPrompt) -> Answer<NewPrompt> {
    let author = known(app, caller).await?.author();
    Ok(gateway::prompts::read(new, author, app.clock())?)
}

/// For the audit; never what was said.
pub(super) fn line(app: &App, caller: &Caller, session: Id<Session>, prompt: &NewPrompt) -> Line {
    let body = json!({ "prompt": prompt.id });
    app.line(caller, "session.prompt", Some(session), &body)
}

/// A prompt, and how far it is.
#[utoipa::path(get, path = "/v1/sessions/{id}/prompts/{prompt}", tag = "prompts",
    params(("id" = String, Path), ("prompt" = String, Path)),
    responses((status = 200, body = v1::Prompt)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Named((id, prompt)): Named<(String, String)>,
) -> Answer<Json<v1::Prompt>> {
    let session = app.session(&caller, &id).await?.id;
    let found = app.store().find_prompt(session, &prompt).await?;
    let found = found.ok_or_else(|| Problem::not_found("prompt"))?;
    let mut shown = shown::prompt(&found)?;
    let (total, subagents) = (
        app.store().prompt_usage(session, &found.id).await?,
        app.store().subagent_usage(session, &found.id).await?,
    );
    shown.usage = Some(v1::PromptUsage {
        total: shown::usage(&total),
        subagents: shown::usage(&subagents),
    });
    Ok(Json(shown))
}

/// Puts another text in the place of one that still waits.
#[utoipa::path(patch, path = "/v1/sessions/{id}/prompts/{prompt}", tag = "prompts",
    params(("id" = String, Path), ("prompt" = String, Path)), request_body = v1::EditPrompt,
    responses((status = 200, body = v1::Prompt)))]
async fn edit(
    State(app): State<App>,
    caller: Caller,
    Named((id, prompt)): Named<(String, String)>,
    Json(edit): Json<v1::EditPrompt>,
) -> Answer<Json<v1::Prompt>> {
    caller.may_change()?;
    if edit.content.trim().is_empty() {
        return Err(Problem::invalid("`content` is empty"));
    }
    let hub = app.hub(&caller, &id).await?;
    let found = app.store().find_prompt(hub.session(), &prompt).await?;
    let found = found.ok_or_else(|| Problem::not_found("prompt"))?;
    let mut ask: Ask = serde_json::from_str(&found.body).map_err(Problem::internal)?;
    ask.content = edit.content;
    let body = json!({ "prompt": found.id });
    app.audit(&caller, "session.prompt_edit", Some(hub.session()), body)
        .await?;
    hub.edit(&prompt, &ask).await?;
    get(State(app), caller, Named((id, prompt))).await
}

/// Takes one back that still waits.
#[utoipa::path(delete, path = "/v1/sessions/{id}/prompts/{prompt}", tag = "prompts",
    params(("id" = String, Path), ("prompt" = String, Path)),
    responses((status = 204)))]
async fn withdraw(
    State(app): State<App>,
    caller: Caller,
    Named((id, prompt)): Named<(String, String)>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "prompt": prompt.chars().take(LONGEST_ID).collect::<String>() });
    app.audit(
        &caller,
        "session.prompt_withdraw",
        Some(hub.session()),
        body,
    )
    .await?;
    hub.withdraw(&prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}
