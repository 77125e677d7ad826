use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, Sealed, Secret};
use serde_json::json;
use store::secrets::{NewSecret, Scope, SecretRecord};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::outside::spelled;
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;

const LONGEST_NAME: usize = 200;
const LONGEST_VALUE: usize = 64 << 10;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, put))
        .routes(routes!(remove))
}

/// The organisation's secrets and the caller's own; never their values.
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets", params(Paging),
    responses((status = 200, body = v1::Page<v1::SecretInfo>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::SecretInfo>>> {
    let limit = paging.limit()?;
    let found = app
        .store()
        .list_secrets(caller.organisation, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |secret| secret.id.to_string());
    let shown = found.iter().filter(|secret| is_for(&caller, &secret.scope));
    Ok(Json(v1::Page {
        items: shown.map(show).collect(),
        next_cursor,
    }))
}

/// Keeps a secret, in place of one of the same name and scope. It is not shown again.
#[utoipa::path(put, path = "/v1/secrets", tag = "secrets", request_body = v1::NewSecret,
    responses((status = 200, body = v1::SecretInfo)))]
async fn put(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<v1::NewSecret>,
) -> Answer<Json<v1::SecretInfo>> {
    caller.may_change()?;
    let scope = read_scope(&app, &caller, new.scope).await?;
    if matches!(scope, Scope::Organisation | Scope::Model(_) | Scope::Git(_)) {
        caller.must_own()?;
    }
    let is_name = |name: &str| {
        (1..=LONGEST_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    };
    if !is_name(&new.name) {
        return Err(Problem::invalid(
            "`name` is made of letters, digits, `_`, `-` and `.`",
        ));
    }
    if new.value.is_empty() || new.value.len() > LONGEST_VALUE || new.value.contains('\0') {
        return Err(Problem::invalid(
            "`value` has 1 to 65536 bytes, none of them zero",
        ));
    }
    let value = Secret::new(new.value);
    let sealed = app
        .parts
        .vault
        .seal(caller.organisation, &scope, &new.name, &value)
        .map_err(Problem::internal)?;
    let now = app.now();
    let new = NewSecret {
        id: Id::new(app.clock()),
        organisation: caller.organisation,
        scope,
        name: new.name,
        value: sealed,
        at: now,
    };
    let mut tx = app.store().begin().await?;
    let id = tx.put_secret(&new).await?;
    let body = json!({ "name": new.name, "scope": new.scope.kind(), "of": new.scope.target() });
    tx.record(&app.line(&caller, "secret.put", None, &body))
        .await?;
    tx.commit().await?;
    let found = app.store().find_secret(caller.organisation, id).await?;
    let found = found.ok_or_else(|| Problem::not_found("secret"))?;
    Ok(Json(show(&found)))
}

/// Forgets a secret.
#[utoipa::path(delete, path = "/v1/secrets/{id}", tag = "secrets", params(("id" = String, Path)),
    responses((status = 204)))]
async fn remove(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let missing = || Problem::not_found("secret");
    let id: Id<Sealed> = id.parse().map_err(|_| missing())?;
    let found = app.store().find_secret(caller.organisation, id).await?;
    let found = found.filter(|secret| is_for(&caller, &secret.scope));
    let found = found.ok_or_else(missing)?;
    if matches!(
        found.scope,
        Scope::Organisation | Scope::Model(_) | Scope::Git(_)
    ) {
        caller.must_own()?;
    }
    let mut tx = app.store().begin().await?;
    tx.remove_secret(caller.organisation, id).await?;
    let body = json!({ "name": found.name, "scope": found.scope.kind() });
    tx.record(&app.line(&caller, "secret.remove", None, &body))
        .await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is one user's, nobody else sees.
fn is_for(caller: &Caller, scope: &Scope) -> bool {
    match scope {
        Scope::UserGit { user, .. } => caller.user == Some(*user),
        _ => true,
    }
}

/// In one spelling, so that it is found in every other.
fn host_name(text: &str) -> Answer<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    if !text.bytes().all(plain) {
        return Err(Problem::invalid(
            "`user_git` names a host, as in `github.com`",
        ));
    }
    Ok(text.to_lowercase())
}

async fn read_scope(app: &App, caller: &Caller, scope: v1::SecretScope) -> Answer<Scope> {
    let named = |name: String| match name.trim() {
        name if (1..=500).contains(&name.len()) && !name.contains('\0') => Ok(name.to_owned()),
        _ => Err(Problem::invalid("the scope names nothing")),
    };
    Ok(match scope {
        v1::SecretScope::Organisation => Scope::Organisation,
        v1::SecretScope::Repository(url) => Scope::Repository(spelled(&named(url)?)),
        v1::SecretScope::Session(id) => Scope::Session(app.session(caller, &id).await?.id),
        v1::SecretScope::Model(name) => Scope::Model(named(name)?),
        // In one spelling, so that it is found in every other.
        v1::SecretScope::Git(name) => Scope::Git(named(name)?.to_lowercase()),
        v1::SecretScope::UserGit(host) => Scope::UserGit {
            user: caller.user.ok_or_else(|| {
                Problem::forbidden("a service has no tokens of its own: use the scope `git`")
            })?,
            host: host_name(&named(host)?)?,
        },
        v1::SecretScope::Unknown => {
            let words = "`scope` is organisation, repository, session, model or git";
            return Err(Problem::invalid(words));
        }
    })
}

fn show(secret: &SecretRecord) -> v1::SecretInfo {
    v1::SecretInfo {
        id: secret.id.to_string(),
        name: secret.name.clone(),
        scope: match &secret.scope {
            Scope::Organisation => v1::SecretScope::Organisation,
            Scope::Repository(url) => v1::SecretScope::Repository(url.clone()),
            Scope::Session(session) => v1::SecretScope::Session(session.to_string()),
            Scope::Model(name) => v1::SecretScope::Model(name.clone()),
            Scope::Git(name) => v1::SecretScope::Git(name.clone()),
            Scope::UserGit { host, .. } => v1::SecretScope::UserGit(host.clone()),
        },
        created_at: shown::time(secret.created_at),
        updated_at: shown::time(secret.updated_at),
    }
}
