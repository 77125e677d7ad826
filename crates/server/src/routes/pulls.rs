//! Pull requests of a session.

use axum::extract::State;
use axum::http::StatusCode;
use store::pulls::{PullRecord, State as PullState};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::outside::{NoPull, WantedPull};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, open))
}

/// Pull requests that came out of a session, the newest first, as their forges show them.
#[utoipa::path(get, path = "/v1/sessions/{id}/pulls", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Page<v1::Pull>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Page<v1::Pull>>> {
    let record = app.session(&caller, &id).await?;
    let mut pulls = app.store().session_pulls(record.id).await?;
    let outside = &app.parts.outside;
    let old = outside.old(&pulls);
    if !old.is_empty()
        && let Ok(hub) = app.sessions().open(record.id).await
    {
        outside.look_again(&record, &hub, &old).await;
        pulls = app.store().session_pulls(record.id).await?;
    }
    Ok(Json(v1::Page {
        items: pulls.iter().map(show).collect(),
        next_cursor: None,
    }))
}

/// Opens a pull request. The branch that is checked out is pushed first, unless one is named. If the
/// branch has one that is open, it is that one.
#[utoipa::path(post, path = "/v1/sessions/{id}/pulls", tag = "inside",
    params(("id" = String, Path)), request_body = v1::NewPull,
    responses((status = 201, body = v1::Pull)))]
async fn open(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(new): Json<v1::NewPull>,
) -> Answer<(StatusCode, Json<v1::Pull>)> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let wanted = WantedPull {
        repo: new.repo,
        branch: new.branch,
        base: new.base,
        title: new.title,
        body: new.body,
    };
    let actor = caller.actor();
    let opened = app.parts.outside.open_pull(&hub, &actor, wanted).await;
    let opened = opened.map_err(problem)?;
    Ok((StatusCode::CREATED, Json(show(&opened))))
}

fn problem(refused: NoPull) -> Problem {
    let NoPull { code, message } = refused;
    match code {
        "GH_NOT_AVAILABLE" => Problem::new(StatusCode::BAD_GATEWAY, "forge-unavailable", message),
        "AUTH_FAILED" => Problem::conflict("token-refused", message),
        "NOT_GITHUB_REMOTE" => Problem::conflict("not-a-forge", message),
        "NO_REMOTE" => Problem::conflict("no-remote", message),
        "NOT_A_REPO" => Problem::conflict("not-a-repo", message),
        "MULTIPLE_REMOTES" => Problem::conflict("which-repo", message),
        _ => Problem::conflict("pull-refused", message),
    }
}

fn show(pull: &PullRecord) -> v1::Pull {
    v1::Pull {
        number: pull.number,
        title: pull.title.clone(),
        url: pull.url.clone(),
        state: match pull.state {
            PullState::Open => v1::PullState::Open,
            PullState::Closed => v1::PullState::Closed,
            PullState::Merged => v1::PullState::Merged,
        },
        repo: format!("{}/{}", pull.host, pull.repository),
        branch: pull.branch.clone(),
        base: pull.base.clone(),
        created_at: shown::time(pull.created_at),
        seen_at: shown::time(pull.seen_at),
    }
}
