use axum::extract::State;
use axum::http::StatusCode;
use model::Id;
use serde_json::json;
use store::accounts::Role;
use store::audit::Line;
use store::members::OrganisationRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::{Caller, shown_role};
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

/// Of one user.
const MOST: u32 = 100;
const LONGEST_NAME: usize = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(me))
        .routes(routes!(list, create))
        .routes(routes!(get, change))
        .routes(routes!(audit))
}

/// Who asks, and as what.
#[utoipa::path(get, path = "/v1/me", tag = "organisations",
    responses((status = 200, body = v1::Caller)))]
async fn me(State(app): State<App>, caller: Caller) -> Answer<Json<v1::Caller>> {
    let user = match caller.user {
        Some(user) => app.store().find_user(user).await?,
        None => None,
    };
    Ok(Json(v1::Caller {
        org_id: caller.organisation.to_string(),
        role: caller.shown_role(),
        user: user.map(|user| v1::User {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
        }),
    }))
}

/// The organisations that the caller is a member of. A service is of its own alone.
#[utoipa::path(get, path = "/v1/orgs", tag = "organisations",
    responses((status = 200, body = v1::Page<v1::Organisation>), (status = "4XX", body = v1::Problem)))]
async fn list(State(app): State<App>, caller: Caller) -> Answer<Json<v1::Page<v1::Organisation>>> {
    let found = if let Some(user) = caller.user {
        app.store().organisations_of(user, MOST).await?
    } else {
        let own = app.store().find_organisation(caller.organisation).await?;
        own.map(|own| (own, caller.role)).into_iter().collect()
    };
    let items = found.into_iter().map(|(one, role)| show(one, role));
    Ok(Json(v1::Page {
        items: items.collect(),
        next_cursor: None,
    }))
}

/// Makes an organisation that the caller owns.
#[utoipa::path(post, path = "/v1/orgs", tag = "organisations", request_body = v1::NewOrganisation,
    responses((status = 201, body = v1::Organisation), (status = "4XX", body = v1::Problem)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<v1::NewOrganisation>,
) -> Answer<(StatusCode, Json<v1::Organisation>)> {
    caller.must_own()?;
    let user = caller
        .user
        .ok_or_else(|| Problem::forbidden("a service makes no organisations"))?;
    let name = read_name(&new.name)?;
    let known = app.store().organisations_of(user, MOST).await?;
    if u32::try_from(known.len()).unwrap_or(MOST) >= MOST {
        return Err(Problem::conflict(
            "too-many-organisations",
            "nobody is a member of more than 100",
        ));
    }
    let (id, now) = (Id::new(app.clock()), app.now());
    let mut tx = app.store().begin().await?;
    tx.create_organisation(id, name, now).await?;
    tx.set_role(id, user, Role::Owner, now).await?;
    let body = json!({ "organisation": id.to_string(), "name": name });
    tx.record(&app.line(&caller, "organisation.create", None, &body))
        .await?;
    tx.commit().await?;
    let made = v1::Organisation {
        id: id.to_string(),
        name: name.to_owned(),
        role: v1::Role::Owner,
        created_at: shown::time(now),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// An organisation that the caller is a member of.
#[utoipa::path(get, path = "/v1/orgs/{id}", tag = "organisations", params(("id" = String, Path)),
    responses((status = 200, body = v1::Organisation)))]
async fn get(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Organisation>> {
    let caller = caller.in_organisation(&app, &id).await?;
    Ok(Json(find(&app, &caller).await?))
}

/// Gives it another name.
#[utoipa::path(patch, path = "/v1/orgs/{id}", tag = "organisations", params(("id" = String, Path)),
    request_body = v1::ChangeOrganisation,
    responses((status = 200, body = v1::Organisation)))]
async fn change(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(change): Json<v1::ChangeOrganisation>,
) -> Answer<Json<v1::Organisation>> {
    let caller = caller.in_organisation(&app, &id).await?;
    caller.must_own()?;
    let name = read_name(&change.name)?;
    let mut tx = app.store().begin().await?;
    tx.rename_organisation(caller.organisation, name).await?;
    let body = json!({ "name": name });
    tx.record(&app.line(&caller, "organisation.change", None, &body))
        .await?;
    tx.commit().await?;
    Ok(Json(find(&app, &caller).await?))
}

/// Who did what in it, the newest first: for its owners.
#[utoipa::path(get, path = "/v1/orgs/{id}/audit", tag = "organisations",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::Page<v1::AuditLine>)))]
async fn audit(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::AuditLine>>> {
    let caller = caller.in_organisation(&app, &id).await?;
    caller.must_own()?;
    let limit = paging.limit()?;
    let found = app
        .store()
        .audit_lines(caller.organisation, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |line| line.id.to_string());
    Ok(Json(v1::Page {
        items: found.into_iter().map(show_line).collect(),
        next_cursor,
    }))
}

async fn find(app: &App, caller: &Caller) -> Answer<v1::Organisation> {
    let found = app.store().find_organisation(caller.organisation).await?;
    let found = found.ok_or_else(|| Problem::not_found("organisation"))?;
    Ok(show(found, caller.role))
}

fn read_name(name: &str) -> Answer<&str> {
    let name = name.trim();
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(Problem::invalid(format!(
            "`name` has 1 to {LONGEST_NAME} bytes"
        )));
    }
    Ok(name)
}

fn show(one: OrganisationRecord, role: Role) -> v1::Organisation {
    v1::Organisation {
        id: one.id.to_string(),
        name: one.name,
        role: shown_role(role),
        created_at: shown::time(one.created_at),
    }
}

fn show_line(line: Line) -> v1::AuditLine {
    v1::AuditLine {
        id: line.id.to_string(),
        actor: line.actor,
        action: line.action,
        session_id: line.session.map(|id| id.to_string()),
        details: serde_json::from_str(&line.body).unwrap_or_default(),
        at: shown::time(line.at),
    }
}
