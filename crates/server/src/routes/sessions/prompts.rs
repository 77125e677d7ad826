//! Prompts: asked, looked at, changed while they wait.

use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Prompt as PromptKind};
use sessions::Ask;
use store::prompts::{Mode, NewPrompt};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::link::{Author, DEFAULT_CHANNEL, MAX_INLINE};
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};
use crate::shown;

const LONGEST_ID: usize = 100;
const CHAIN: usize = 8;
const ATTACHMENTS: usize = 8;

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
    let prompt = hub.prompt(read(&app, &caller, new).await?).await?;
    Ok((StatusCode::ACCEPTED, Json(shown::prompt(&prompt)?)))
}

/// As the session takes it, with who asks.
pub(crate) async fn read(app: &App, caller: &Caller, new: v1::NewPrompt) -> Answer<NewPrompt> {
    if new.content.trim().is_empty() {
        return Err(Problem::invalid("`content` is empty"));
    }
    if new.content.len() > MAX_INLINE {
        return Err(Problem::too_large(format!(
            "`content` has at most {MAX_INLINE} bytes: upload the rest"
        )));
    }
    if new.attachments.len() > ATTACHMENTS {
        return Err(Problem::invalid(format!(
            "a prompt has at most {ATTACHMENTS} attachments"
        )));
    }
    let is_name = |name: &str| {
        (1..=LONGEST_ID).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let id = match new.id {
        Some(id) if is_name(&id) => id,
        Some(_) => {
            return Err(Problem::invalid(format!(
                "`id` has 1 to {LONGEST_ID} printable characters"
            )));
        }
        None => Id::<PromptKind>::new(app.clock()).to_string(),
    };
    let channel = new.channel.unwrap_or_else(|| DEFAULT_CHANNEL.to_owned());
    if !is_name(&channel) {
        return Err(Problem::invalid("`channel` is as in `web:default`"));
    }
    let ask = Ask {
        content: new.content,
        attachments: new.attachments,
        chain: chain(new.model, new.model_preferences)?,
        author: author(app, caller).await?,
        reply_channel: None,
    };
    Ok(NewPrompt {
        id,
        channel,
        mode: match new.mode.unwrap_or_default() {
            v1::PromptMode::Followup => Mode::Followup,
            v1::PromptMode::Steer => Mode::Steer,
            v1::PromptMode::Collect => Mode::Collect,
        },
        body: serde_json::to_string(&ask).map_err(Problem::internal)?,
    })
}

/// The model first, then what is preferred, each once.
fn chain(model: Option<String>, preferences: Vec<String>) -> Answer<Vec<String>> {
    let mut chain: Vec<String> = Vec::new();
    for name in model.into_iter().chain(preferences) {
        let name = name.trim();
        if name.is_empty() || name.len() > 200 || !name.contains('/') {
            return Err(Problem::invalid("a model is as in `provider/model`"));
        }
        if !chain.iter().any(|known| known == name) {
            chain.push(name.to_owned());
        }
    }
    if chain.len() > CHAIN {
        return Err(Problem::invalid(format!(
            "a prompt names at most {CHAIN} models"
        )));
    }
    Ok(chain)
}

async fn author(app: &App, caller: &Caller) -> Answer<Option<Author>> {
    let Some(user) = caller.user else {
        return Ok(None);
    };
    let user = app.store().find_user(user).await?;
    Ok(user.map(|user| Author {
        id: user.id.to_string(),
        email: Some(user.email),
        name: Some(user.name),
        ..Author::default()
    }))
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
    hub.withdraw(&prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}
