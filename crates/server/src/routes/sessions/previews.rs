//! Where a browser finds parts of a session: links that are good once, and links to give away.

use axum::extract::State;
use axum::http::StatusCode;
use gateway::preview::{Address, Target};
use model::{Id, Share as ShareKind, SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;
use store::accounts::TokenHash;
use store::logins::Login;
use store::shares::ShareRecord;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;
use wire::workplace::OUR_PORTS;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Json, Named};
use crate::problem::{Answer, Problem};
use crate::shown;
use crate::vault::tokens::{self, Kind};

/// A link to give away lasts a week at most.
const LONGEST: u64 = 7 * 24 * 60 * 60 * 1000;

/// Of one session, in a list.
const MOST: u32 = 200;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(open))
        .routes(routes!(shares, share))
        .routes(routes!(revoke))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// A port, or `app` (what the session exposes), `editor`, `desktop` or `terminal`.
    target: String,
}

/// A link that opens a preview, the editor, the desktop or the terminal: good once, for a minute.
#[utoipa::path(post, path = "/v1/sessions/{id}/open", tag = "previews",
    params(("id" = String, Path)), request_body = Wanted,
    responses((status = 201, body = v1::Endpoint)))]
async fn open(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(wanted): Json<Wanted>,
) -> Answer<(StatusCode, Json<v1::Endpoint>)> {
    let session = app.session(&caller, &id).await?.id;
    let wrong = || Problem::invalid("`target` is a port, app, editor, desktop or terminal");
    let target: Target = wanted.target.parse().map_err(|_| wrong())?;
    if !matches!(target, Target::Port(_) | Target::Exposed) {
        caller.may_change()?;
    }
    may_be_shown(target)?;
    let user = caller.user.ok_or_else(|| {
        Problem::forbidden("a service's token lets no browser in: use one of a person")
    })?;
    let login = Login {
        organisation: caller.organisation,
        user,
    };
    let body = json!({ "target": wanted.target });
    app.audit(&caller, "session.open", Some(session), body)
        .await?;
    let to = Address { target, session };
    let (code, until) = app.admission().code(login, to).await?;
    let url = app.site().url(target, session);
    let endpoint = v1::Endpoint {
        url: format!("{url}?nacre_code={}", code.expose()),
        expires_at: shown::time(until),
    };
    Ok((StatusCode::CREATED, Json(endpoint)))
}

/// Links that were given away, the newest first; never the links themselves.
#[utoipa::path(get, path = "/v1/sessions/{id}/shares", tag = "previews",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::Page<v1::ShareInfo>)))]
async fn shares(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::Page<v1::ShareInfo>>> {
    let session = app.session(&caller, &id).await?.id;
    let found = app.store().session_shares(session, MOST).await?;
    let items = found.into_iter().map(|share| v1::ShareInfo {
        id: share.id.to_string(),
        port: share.port,
        created_by: share.created_by.map(|user| user.to_string()),
        created_at: shown::time(share.created_at),
        expires_at: shown::time(share.expires_at),
        revoked_at: share.revoked_at.map(shown::time),
    });
    Ok(Json(v1::Page {
        items: items.collect(),
        next_cursor: None,
    }))
}

/// A link that lets anybody in who has it, to one port, for a while.
#[utoipa::path(post, path = "/v1/sessions/{id}/shares", tag = "previews",
    params(("id" = String, Path)), request_body = v1::Share,
    responses((status = 201, body = v1::ShareMade)))]
async fn share(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(wanted): Json<v1::Share>,
) -> Answer<(StatusCode, Json<v1::ShareMade>)> {
    caller.may_change()?;
    let session = app.session(&caller, &id).await?.id;
    if wanted.expires_in_ms == 0 || wanted.expires_in_ms > LONGEST {
        return Err(Problem::invalid("`expires_in_ms` is at most a week"));
    }
    let target = Target::Port(wanted.port);
    may_be_shown(target)?;
    let link = tokens::make(Kind::Share).map_err(Problem::internal)?;
    let now = app.now();
    let lasts = SignedDuration::from_millis(i64::try_from(wanted.expires_in_ms).unwrap_or(0));
    let share = ShareRecord {
        id: Id::new(app.clock()),
        session,
        port: wanted.port,
        created_by: caller.user,
        created_at: now,
        expires_at: now.checked_add(lasts).unwrap_or(Timestamp::MAX),
        revoked_at: None,
    };
    let mut tx = app.store().begin().await?;
    tx.create_share(&TokenHash::of(&link), &share).await?;
    let body = json!({ "share": share.id.to_string(), "port": share.port });
    tx.record(&app.line(&caller, "session.share", Some(session), &body))
        .await?;
    tx.commit().await?;
    let url = app.site().url(target, session);
    let made = v1::ShareMade {
        id: share.id.to_string(),
        url: format!("{url}?nacre_share={}", link.expose()),
        expires_at: shown::time(share.expires_at),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Takes a link back, at once: sockets that it opened are closed.
#[utoipa::path(delete, path = "/v1/sessions/{id}/shares/{share}", tag = "previews",
    params(("id" = String, Path), ("share" = String, Path)),
    responses((status = 204)))]
async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Named((id, share)): Named<(String, String)>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let session = app.session(&caller, &id).await?.id;
    let share: Id<ShareKind> = share.parse().map_err(|_| Problem::not_found("share"))?;
    let mut tx = app.store().begin().await?;
    tx.revoke_share(session, share, app.now()).await?;
    let body = json!({ "share": share.to_string() });
    tx.record(&app.line(&caller, "session.unshare", Some(session), &body))
        .await?;
    tx.commit().await?;
    app.look_around().await;
    Ok(StatusCode::NO_CONTENT)
}

fn may_be_shown(target: Target) -> Answer<()> {
    match target {
        Target::Port(0) => Err(Problem::invalid("`port` is 1 to 65535")),
        Target::Port(port) if OUR_PORTS.contains(&port) => {
            Err(Problem::forbidden("this port is not shown to anybody"))
        }
        _ => Ok(()),
    }
}
