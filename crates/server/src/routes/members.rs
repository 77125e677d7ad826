//! Who belongs to an organisation, and as what.

use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Organisation, SignedDuration, Timestamp, User};
use serde_json::json;
use store::Tx;
use store::accounts::{Role, TokenHash, UserRecord};
use store::logins::Login;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::{Caller, shown_role};
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;
use crate::vault::tokens::{self, Kind};

/// Of one organisation.
const MOST: u64 = 1000;
const LONGEST: usize = 200;
/// For somebody new to come in.
const INVITED: SignedDuration = SignedDuration::from_hours(24);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, put))
        .routes(routes!(remove))
}

/// Who belongs to the organisation.
#[utoipa::path(get, path = "/v1/orgs/{id}/members", tag = "organisations",
    params(("id" = String, Path), Paging),
    responses((status = 200, body = v1::Page<v1::Member>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::Member>>> {
    let organisation = own(&caller, &id)?;
    let limit = paging.limit()?;
    let found = app
        .store()
        .members_of(organisation, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |(user, _)| user.id.to_string());
    let items = found.into_iter().map(|(user, role)| show(user, role));
    Ok(Json(v1::Page {
        items: items.collect(),
        next_cursor,
    }))
}

/// Makes somebody a member, or gives one another role. Somebody who was not known before gets a link
/// that signs them in once, within a day.
#[utoipa::path(put, path = "/v1/orgs/{id}/members", tag = "organisations",
    params(("id" = String, Path)), request_body = v1::NewMember,
    responses((status = 200, body = v1::MemberPut)))]
async fn put(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(new): Json<v1::NewMember>,
) -> Answer<Json<v1::MemberPut>> {
    caller.must_own()?;
    let organisation = own(&caller, &id)?;
    let (email, name) = read(&new)?;
    let role = stored_role(new.role)?;
    let now = app.now();
    // As they were written down before letters were made small.
    let known = match app.store().find_user_by_email(new.email.trim()).await? {
        None => app.store().find_user_by_email(&email).await?,
        known => known,
    };
    let is_new = known.is_none();
    let user = known.unwrap_or_else(|| UserRecord {
        id: Id::new(app.clock()),
        email,
        name,
        created_at: now,
    });
    let mut tx = app.store().begin().await?;
    tx.hold_organisation(organisation).await?;
    if is_new {
        match tx.create_user(&user).await {
            Err(store::Error::Forbidden { .. }) => {
                tx.rollback().await?;
                return Err(Problem::conflict(
                    "member-changed",
                    "somebody else adds them now: try again",
                ));
            }
            made => made?,
        }
    }
    tx.set_role(organisation, user.id, role, now).await?;
    if let Err(problem) = is_in_order(&mut tx, organisation).await {
        tx.rollback().await?;
        return Err(problem);
    }
    let login = if is_new {
        Some(invite(&app, &mut tx, organisation, user.id).await?)
    } else {
        None
    };
    let body = json!({ "user": user.id.to_string(), "role": role.as_str() });
    tx.record(&app.line(&caller, "member.put", None, &body))
        .await?;
    tx.commit().await?;
    app.look_around().await;
    Ok(Json(v1::MemberPut {
        member: show(user, role),
        login,
    }))
}

/// Lets somebody go, at once. The last owner stays.
#[utoipa::path(delete, path = "/v1/orgs/{id}/members/{user}", tag = "organisations",
    params(("id" = String, Path), ("user" = String, Path)),
    responses((status = 204)))]
async fn remove(
    State(app): State<App>,
    caller: Caller,
    Named((id, user)): Named<(String, String)>,
) -> Answer<StatusCode> {
    caller.must_own()?;
    let organisation = own(&caller, &id)?;
    let user: Id<User> = user.parse().map_err(|_| Problem::not_found("member"))?;
    let mut tx = app.store().begin().await?;
    tx.hold_organisation(organisation).await?;
    tx.remove_member(organisation, user).await?;
    if let Err(problem) = is_in_order(&mut tx, organisation).await {
        tx.rollback().await?;
        return Err(problem);
    }
    let body = json!({ "user": user.to_string() });
    tx.record(&app.line(&caller, "member.remove", None, &body))
        .await?;
    tx.commit().await?;
    app.look_around().await;
    Ok(StatusCode::NO_CONTENT)
}

/// A caller is of one organisation; others are not there.
fn own(caller: &Caller, id: &str) -> Answer<Id<Organisation>> {
    let id: Option<Id<Organisation>> = id.parse().ok();
    id.filter(|id| *id == caller.organisation)
        .ok_or_else(|| Problem::not_found("organisation"))
}

/// With what the transaction changed.
async fn is_in_order(tx: &mut Tx, organisation: Id<Organisation>) -> Answer<()> {
    if tx.count_members(organisation, Some(Role::Owner)).await? == 0 {
        return Err(Problem::conflict(
            "last-owner",
            "an organisation has an owner: make somebody else one first",
        ));
    }
    if tx.count_members(organisation, None).await? > MOST {
        return Err(Problem::conflict(
            "too-many-members",
            "the organisation has 1000 members: remove some",
        ));
    }
    Ok(())
}

/// Only for one who is nobody's yet: a link for somebody else's member would be theirs to be.
async fn invite(
    app: &App,
    tx: &mut Tx,
    organisation: Id<Organisation>,
    user: Id<User>,
) -> Answer<v1::Endpoint> {
    let code = tokens::make(Kind::Code).map_err(Problem::internal)?;
    let now = app.now();
    let until = now.checked_add(INVITED).unwrap_or(Timestamp::MAX);
    let login = Login { organisation, user };
    tx.create_login(&TokenHash::of(&code), login, now, until)
        .await?;
    Ok(v1::Endpoint {
        url: format!("{}/login#{}", app.parts.address.origin(), code.expose()),
        expires_at: shown::time(until),
    })
}

fn read(new: &v1::NewMember) -> Answer<(String, String)> {
    let email = new.email.trim().to_lowercase();
    let is_plain = |text: &str| !text.chars().any(|c| c.is_control() || c.is_whitespace());
    let parts = email.split_once('@');
    let is_address = parts.is_some_and(|(who, host)| {
        !who.is_empty() && !host.is_empty() && !host.contains('@') && is_plain(&email)
    });
    if !is_address || email.len() > LONGEST {
        return Err(Problem::invalid("`email` is as in ada@example.org"));
    }
    let before = parts.map_or("", |(who, _)| who);
    let name = new.name.as_deref().unwrap_or(before).trim().to_owned();
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        return Err(Problem::invalid(format!("`name` has 1 to {LONGEST} bytes")));
    }
    Ok((email, name))
}

fn stored_role(role: v1::Role) -> Answer<Role> {
    Ok(match role {
        v1::Role::Owner => Role::Owner,
        v1::Role::Member => Role::Member,
        v1::Role::Viewer => Role::Viewer,
        v1::Role::Unknown => {
            return Err(Problem::invalid("`role` is owner, member or viewer"));
        }
    })
}

fn show(user: UserRecord, role: Role) -> v1::Member {
    v1::Member {
        user: v1::User {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
        },
        role: shown_role(role),
    }
}
