//! Repositories to choose from. A session names its own by their address, known or not.

use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Repository};
use serde_json::json;
use store::repositories::RepositoryRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use super::sessions::{is_address, is_name};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(remove))
}

/// The organisation's repositories, the newest first.
#[utoipa::path(get, path = "/v1/repos", tag = "repositories", params(Paging),
    responses((status = 200, body = v1::Page<v1::Repository>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::Repository>>> {
    let limit = paging.limit()?;
    let found = app
        .store()
        .list_repositories(caller.organisation, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |record| record.id.to_string());
    Ok(Json(v1::Page {
        items: found.into_iter().map(repository).collect(),
        next_cursor,
    }))
}

/// Adds a repository to choose from.
#[utoipa::path(post, path = "/v1/repos", tag = "repositories", request_body = v1::NewRepository,
    responses((status = 201, body = v1::Repository)))]
async fn add(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<v1::NewRepository>,
) -> Answer<(StatusCode, Json<v1::Repository>)> {
    caller.may_change()?;
    let url = new.url.trim().trim_end_matches('/');
    if !is_address(url) {
        return Err(Problem::invalid(
            "`url` is as in https://host/owner/name, without a user",
        ));
    }
    let name = new.name.unwrap_or_else(|| name_of(url).to_owned());
    if !is_name(&name) || new.default_branch.as_ref().is_some_and(|it| !is_name(it)) {
        return Err(Problem::invalid(
            "`name` or `default_branch` is empty, too long or no name",
        ));
    }
    let record = RepositoryRecord {
        id: Id::new(app.clock()),
        organisation: caller.organisation,
        url: url.to_owned(),
        name,
        default_branch: new.default_branch,
        created_by: caller.user,
        created_at: app.now(),
    };
    let mut tx = app.store().begin().await?;
    if !tx.add_repository(&record).await? {
        tx.rollback().await?;
        return Err(Problem::conflict(
            "repository-known",
            "the organisation has it already",
        ));
    }
    let body = json!({ "repository": record.id.to_string(), "url": record.url });
    tx.record(&app.line(&caller, "repository.add", None, &body))
        .await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(repository(record))))
}

/// Takes a repository off the list. Sessions that have it keep it.
#[utoipa::path(delete, path = "/v1/repos/{id}", tag = "repositories",
    params(("id" = String, Path)), responses((status = 204)))]
async fn remove(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let missing = || Problem::not_found("repository");
    let id: Id<Repository> = id.parse().map_err(|_| missing())?;
    let mut tx = app.store().begin().await?;
    if !tx.remove_repository(caller.organisation, id).await? {
        tx.rollback().await?;
        return Err(missing());
    }
    let body = json!({ "repository": id.to_string() });
    tx.record(&app.line(&caller, "repository.remove", None, &body))
        .await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What follows the host, as people say it.
fn name_of(url: &str) -> &str {
    let path = url.splitn(4, '/').nth(3).unwrap_or(url);
    path.trim_end_matches(".git")
}

fn repository(record: RepositoryRecord) -> v1::Repository {
    v1::Repository {
        id: record.id.to_string(),
        url: record.url,
        name: record.name,
        default_branch: record.default_branch,
        created_at: shown::time(record.created_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_called_as_its_forge_calls_it() {
        assert_eq!(name_of("https://git.example/a/pearl.git"), "a/pearl");
        assert_eq!(
            name_of("http://10.1.2.3:3000/team/sub/pearl"),
            "team/sub/pearl"
        );
    }
}
