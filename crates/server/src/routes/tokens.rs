use axum::extract::State;
use axum::http::StatusCode;
use model::{Id, SignedDuration, Token};
use serde_json::json;
use store::accounts::{NewToken, TokenHash, TokenRecord};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named, Params};
use crate::paging::{Paging, cut};
use crate::problem::{Answer, Problem};
use crate::shown;
use crate::vault::tokens::{self, Kind};

/// Of one organisation.
const MOST: u32 = 500;
const LONGEST_NAME: usize = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
}

/// Tokens of the organisation; never the tokens themselves.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", params(Paging),
    responses((status = 200, body = v1::Page<v1::Token>)))]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(paging): Params<Paging>,
) -> Answer<Json<v1::Page<v1::Token>>> {
    let limit = paging.limit()?;
    let found = app
        .store()
        .list_tokens(caller.organisation, paging.cursor()?, limit + 1)
        .await?;
    let (found, next_cursor) = cut(found, limit, |token| token.id.to_string());
    Ok(Json(v1::Page {
        items: found.iter().map(show).collect(),
        next_cursor,
    }))
}

/// Makes a token. It is shown once. With `org_id` it is one for another organisation of the caller's.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", request_body = v1::NewToken,
    responses((status = 201, body = v1::TokenMade)))]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Json(new): Json<v1::NewToken>,
) -> Answer<(StatusCode, Json<v1::TokenMade>)> {
    let caller = match &new.org_id {
        Some(id) => caller.in_organisation(&app, id).await?,
        None => caller,
    };
    caller.may_change()?;
    // What a service makes is a service's, and outlives its own token.
    if new.service || caller.user.is_none() {
        caller.must_own()?;
    }
    let name = new.name.trim();
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(Problem::invalid(format!(
            "`name` has 1 to {LONGEST_NAME} bytes"
        )));
    }
    let there = app
        .store()
        .list_tokens(caller.organisation, None, MOST)
        .await?;
    if u32::try_from(there.len()).unwrap_or(MOST) >= MOST {
        return Err(Problem::conflict(
            "too-many-tokens",
            "the organisation has 500 tokens: revoke some",
        ));
    }
    let now = app.now();
    let expires_at = new.expires_in_ms.map(|millis| {
        let after = i64::try_from(millis).unwrap_or(i64::MAX);
        now.checked_add(SignedDuration::from_millis(after))
            .map_err(|_| Problem::invalid("`expires_in_ms` is too long"))
    });
    let expires_at = expires_at.transpose()?;
    let secret = tokens::make(Kind::Token).map_err(Problem::internal)?;
    let new = NewToken {
        id: Id::new(app.clock()),
        organisation: caller.organisation,
        user: if new.service { None } else { caller.user },
        name: name.to_owned(),
        hash: TokenHash::of(&secret),
        expires_at,
        at: now,
    };
    let mut tx = app.store().begin().await?;
    tx.create_token(&new).await?;
    let body = json!({ "token": new.id.to_string(), "name": new.name });
    tx.record(&app.line(&caller, "token.create", None, &body))
        .await?;
    tx.commit().await?;
    let about = v1::Token {
        id: new.id.to_string(),
        name: new.name,
        service: new.user.is_none(),
        created_at: shown::time(now),
        expires_at: expires_at.map(shown::time),
        last_used_at: None,
    };
    let made = v1::TokenMade {
        about,
        token: secret.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revokes a token, at once: sockets that it opened are closed.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path)),
    responses((status = 204)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let missing = || Problem::not_found("token");
    let id: Id<Token> = id.parse().map_err(|_| missing())?;
    let found = app.store().load_token(id).await?;
    if found.organisation != caller.organisation {
        return Err(missing());
    }
    if found.user.is_none() || found.user != caller.user {
        caller.must_own()?;
    }
    let mut tx = app.store().begin().await?;
    tx.revoke_token(id, app.now()).await?;
    let body = json!({ "token": id.to_string() });
    tx.record(&app.line(&caller, "token.revoke", None, &body))
        .await?;
    tx.commit().await?;
    app.look_around().await;
    Ok(StatusCode::NO_CONTENT)
}

fn show(token: &TokenRecord) -> v1::Token {
    v1::Token {
        id: token.id.to_string(),
        name: token.name.clone(),
        service: token.user.is_none(),
        created_at: shown::time(token.created_at),
        expires_at: token.expires_at.map(shown::time),
        last_used_at: token.last_used_at.map(shown::time),
    }
}
