//! `POST /v1/sessions`: a record, and a sandbox only when that is asked for.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sessions::{Machine, New, Planned, Spec};
use store::idempotency::Attempt;
use store::prompts::NewPrompt;
use store::sessions::{Channel, Type};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::link::{AgentConfig, Boot, GitIdentity, Kind, Repo};
use wire::v1;

use super::{egress, now, prompts, read_title};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, MaybeJson};
use crate::once::{self, Once};
use crate::problem::{Answer, Problem};

const REPOS: usize = 16;
const LONGEST_TITLE: usize = 200;
const LONGEST_URL: usize = 2000;
const LONGEST_NAME: usize = 200;
const LONGEST_CONTEXT: usize = 64 << 10;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create))
}

/// Makes a session.
///
/// No sandbox is made before somebody connects, prompts or resumes, unless `start` says so. The same
/// `Idempotency-Key` again answers the same session.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = Option<v1::NewSession>,
    responses((status = 201, body = v1::Session)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    MaybeJson(new): MaybeJson<v1::NewSession>,
) -> Answer<(StatusCode, Json<v1::Session>)> {
    caller.may_change()?;
    let work = Work {
        first: first_prompt(&app, &caller, &new).await?,
        is_wanted: new.start,
    };
    let record = read(&app, &caller, new.clone()).await?;
    let once = Once::begin(&app, &caller, &headers, "POST /v1/sessions", &new).await?;
    let made: Made = match once {
        Once::Do(attempt) => {
            let made = make(&app, &caller, record, attempt.as_ref()).await;
            if made.is_err() {
                once::forget(&app, attempt.as_ref()).await?;
            }
            made?
        }
        // Whoever made it may have died before it went to work: that bears being said again.
        Once::Done(made) => made,
    };
    work.begin(&app, &caller, &made.id).await?;
    let session = now(&app, &caller, &made.id).await?;
    Ok((StatusCode::CREATED, Json(session)))
}

/// What is kept for whoever asks for the same again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) id: String,
}

/// What a new session begins with.
struct Work {
    first: Option<NewPrompt>,
    is_wanted: bool,
}

/// The record, its line in the audit and the answer to the same request: all, or none.
async fn make(app: &App, caller: &Caller, record: New, attempt: Option<&Attempt>) -> Answer<Made> {
    let body = json!({ "title": record.title, "provider": record.provider });
    let planned = app.sessions().plan(record)?;
    write(app, caller, &planned, "session.create", &body, attempt).await
}

pub(super) async fn write(
    app: &App,
    caller: &Caller,
    planned: &Planned,
    action: &str,
    body: &Value,
    attempt: Option<&Attempt>,
) -> Answer<Made> {
    let made = Made {
        id: planned.record.id.to_string(),
    };
    let mut tx = app.store().begin().await?;
    planned.write(&mut tx).await?;
    tx.record(&app.line(caller, action, Some(planned.record.id), body))
        .await?;
    if let Err(problem) = once::finish(&mut tx, attempt, StatusCode::CREATED, &made).await {
        tx.rollback().await?;
        return Err(problem);
    }
    tx.commit().await?;
    Ok(made)
}

impl Work {
    /// A prompt with the same id runs once; a session that has run is not woken by this.
    async fn begin(self, app: &App, caller: &Caller, id: &str) -> Answer<()> {
        let record = app.session(caller, id).await?;
        if let Some(prompt) = self.first {
            let hub = app.sessions().open(record.id).await?;
            let line = prompts::line(app, caller, record.id, &prompt);
            hub.prompt_by(prompt, line).await?;
        } else if self.is_wanted && record.state.generation == 0 {
            // It is not waited for: clients are told as it goes.
            app.sessions().open(record.id).await?.begin().await?;
        }
        Ok(())
    }
}

/// What a new session asks first has an id of its own, so that it runs once.
async fn first_prompt(
    app: &App,
    caller: &Caller,
    new: &v1::NewSession,
) -> Answer<Option<NewPrompt>> {
    let Some(content) = &new.initial_prompt else {
        return Ok(None);
    };
    if content.trim().is_empty() {
        return Err(Problem::invalid("`initial_prompt` is empty"));
    }
    let first = v1::NewPrompt {
        id: Some("initial".to_owned()),
        content: content.clone(),
        model: new.model.clone(),
        model_preferences: new.model_preferences.clone(),
        ..v1::NewPrompt::default()
    };
    Ok(Some(prompts::read(app, caller, first).await?))
}

async fn read(app: &App, caller: &Caller, new: v1::NewSession) -> Answer<New> {
    let offer = &app.parts.offer;
    let title = match new.title.as_deref().map(str::trim) {
        None | Some("") => String::new(),
        Some(title) => read_title(title)?,
    };
    if new.prebuild_id.is_some() {
        return Err(Problem::not_found("prebuild"));
    }
    if let Some(agent) = &new.agent
        && agent != "opencode"
    {
        return Err(Problem::invalid("`agent` is `opencode`"));
    }
    let provider = match new.provider {
        Some(provider) => provider,
        None => offer.default_provider().to_owned(),
    };
    app.provider(&provider)?;
    let models = app.parts.outside.models_for(caller.organisation).await;
    let model = match new.model {
        Some(model) => Some(known_model(&models, model)?),
        None => models
            .into_iter()
            .find(|model| model.is_default)
            .map(|model| model.id),
    };
    let (network, allow) = egress::read(app, caller, new.egress)?;
    let repos = read_repos(new.repos)?;
    for repo in &repos {
        if let Some(bundle) = &repo.bundle {
            is_there(app, caller, bundle).await?;
        }
    }
    let context = new.context.filter(|context| !context.is_null());
    if context
        .as_ref()
        .is_some_and(|context| context.to_string().len() > LONGEST_CONTEXT)
    {
        return Err(Problem::invalid(format!(
            "`context` has at most {LONGEST_CONTEXT} bytes"
        )));
    }
    // Without preferences the agent's own model is the chain.
    let chain = if new.model_preferences.is_empty() {
        Vec::new()
    } else {
        gateway::prompts::chain(model.clone(), new.model_preferences)?
    };
    let user = match caller.user {
        Some(user) => app.store().find_user(user).await?,
        None => None,
    };
    let boot = Boot {
        kind: match new.r#type.unwrap_or_default() {
            v1::SessionType::Coding => Kind::Coding,
            v1::SessionType::Setup => Kind::Setup,
            v1::SessionType::Cli => Kind::Cli,
            v1::SessionType::Unknown => {
                return Err(Problem::invalid("`type` is coding, setup or cli"));
            }
        },
        git_identity: user.map(|user| GitIdentity {
            name: user.name,
            email: user.email,
        }),
        agent: AgentConfig {
            agent: new.agent,
            small_model: model.clone(),
            model,
            ..AgentConfig::default()
        },
        repos,
        ..Boot::default()
    };
    Ok(New {
        organisation: caller.organisation,
        created_by: caller.user,
        title: title_or_repo(title, &boot.repos),
        r#type: match boot.kind {
            Kind::Setup => Type::Setup,
            Kind::Cli => Type::Cli,
            Kind::Coding | Kind::Unknown => Type::Coding,
        },
        channel: read_channel(new.channel.as_deref())?,
        spec: Spec {
            base: offer.base(&provider),
            boot,
            machine: Machine {
                network,
                allow,
                ..Machine::default()
            },
            chain,
            context,
            ..Spec::default()
        },
        provider,
    })
}

fn known_model(models: &[v1::ModelInfo], model: String) -> Answer<String> {
    if models.iter().any(|known| known.id == model) {
        return Ok(model);
    }
    Err(Problem::invalid(format!(
        "no model is called `{}`: see GET /v1/models",
        model.chars().take(LONGEST_NAME).collect::<String>()
    )))
}

fn title_or_repo(title: String, repos: &[Repo]) -> String {
    if !title.is_empty() {
        return title;
    }
    let first = repos.first().map(|repo| repo.url.trim_end_matches('/'));
    let name = first.and_then(|url| url.rsplit('/').next());
    let name = name.map(|name| name.trim_end_matches(".git"));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name.chars().take(LONGEST_TITLE / 4).collect(),
        None => "New session".to_owned(),
    }
}

fn read_repos(repos: Vec<v1::NewRepo>) -> Answer<Vec<Repo>> {
    if repos.len() > REPOS {
        return Err(Problem::invalid(format!(
            "a session has at most {REPOS} repositories"
        )));
    }
    repos.into_iter().map(read_repo).collect()
}

fn read_repo(repo: v1::NewRepo) -> Answer<Repo> {
    let url = repo.url.unwrap_or_default();
    if url.is_empty() == repo.bundle.is_none() {
        return Err(Problem::invalid(
            "a repository has a `url` or a `bundle`, and not both",
        ));
    }
    if !url.is_empty() && !is_address(&url) {
        return Err(Problem::invalid(
            "`url` of a repository is as in https://host/owner/name",
        ));
    }
    let names = [&repo.branch, &repo.r#ref, &repo.path, &repo.bundle];
    if !names.into_iter().flatten().all(|name| is_name(name)) {
        return Err(Problem::invalid(
            "a name of a branch, ref or path is empty, too long or no name",
        ));
    }
    let path = repo.path.as_deref().unwrap_or("x");
    if path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(Problem::invalid(
            "`path` of a repository is below the workspace",
        ));
    }
    Ok(Repo {
        url,
        branch: repo.branch,
        reference: repo.r#ref,
        bundle: repo.bundle,
        path: repo.path,
    })
}

/// Of a branch, a ref, a path: no option of git's.
pub(in crate::routes) fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && !name.starts_with('-')
        && !name.chars().any(char::is_control)
}

/// A bundle that is not there would be found out by an agent that cannot begin.
async fn is_there(app: &App, caller: &Caller, bundle: &str) -> Answer<()> {
    let missing = || Problem::not_found("upload");
    let id = bundle.parse().map_err(|_| missing())?;
    let found = app
        .store()
        .find_upload(caller.organisation, id, app.now())
        .await?;
    found.map(drop).ok_or_else(missing)
}

/// With a host, without a user, and nothing odd in it. What it leads to is the git door's to judge.
pub(in crate::routes) fn is_address(url: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let Some((host, path)) = rest.and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '<' | '>' | '#' | '?');
    url.len() <= LONGEST_URL
        && !host.is_empty()
        && !host.contains('@')
        && !path.is_empty()
        && url.chars().all(is_plain)
}

fn read_channel(channel: Option<&str>) -> Answer<Channel> {
    Ok(match channel {
        None | Some("api") => Channel::Api,
        Some("web") => Channel::Web,
        Some("cli") => Channel::Cli,
        Some("slack") => Channel::Slack,
        Some("discord") => Channel::Discord,
        Some("telegram") => Channel::Telegram,
        Some("automation") => Channel::Automation,
        Some(_) => {
            return Err(Problem::invalid(
                "`channel` is web, cli, api, slack, discord, telegram or automation",
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_repositories() {
        for good in [
            "https://git.example/a/b",
            "https://git.example/a/b.git",
            "http://127.0.0.1:8080/r",
        ] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "https://git.example",
            "https://git.example/",
            "https://token@git.example/a/b",
            "ssh://git.example/a/b",
            "file:///etc",
            "ext::sh -c true",
            "https://git.example/a b",
            "https://git.example/a?x=1",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
    }

    #[test]
    fn a_session_without_a_title_is_called_after_its_repository() {
        let repo = |url: &str| Repo {
            url: url.to_owned(),
            ..Repo::default()
        };
        let title = |url: &str| title_or_repo(String::new(), &[repo(url)]);
        assert_eq!(title("https://git.example/a/pearl.git"), "pearl");
        assert_eq!(title_or_repo(String::new(), &[]), "New session");
    }
}
