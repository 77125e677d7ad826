//! Signing in: a one-time code becomes a cookie, a cookie a token that lives for minutes. No
//! address ever holds more than a code that is good once.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use model::{Secret, SignedDuration, Timestamp};
use serde_json::json;
use store::accounts::TokenHash;
use store::logins::Login;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::keys::user;
use wire::v1;

use crate::app::App;
use crate::auth::{Caller, Peer, by_cookie};
use crate::cookie;
use crate::extract::{Json, MaybeJson};
use crate::problem::{Answer, Problem};
use crate::vault::tokens::{self, Kind};

/// A code is used at once, or not at all.
const CODE: SignedDuration = SignedDuration::from_mins(10);
/// A browser stays signed in for so long.
const BROWSER: SignedDuration = SignedDuration::from_hours(24 * 30);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(sign_in))
        .routes(routes!(token))
        .routes(routes!(code))
        .routes(routes!(sign_out))
}

/// Exchanges a one-time code for the cookie of a browser.
#[utoipa::path(post, path = "/v1/login", tag = "login", security(()), request_body = v1::LoginCode,
    responses((status = 200, body = v1::Login)))]
async fn sign_in(
    State(app): State<App>,
    Peer(peer): Peer,
    headers: HeaderMap,
    Json(given): Json<v1::LoginCode>,
) -> Answer<Response> {
    // A page elsewhere could sign somebody in as somebody else.
    if headers.contains_key(header::ORIGIN)
        && !cookie::is_from_our_page(&headers, &app.parts.address)
    {
        return Err(Problem::forbidden("this page is none of ours"));
    }
    let wrong = || {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "bad-code",
            "the code was used, is too old or is none: `nacre login` makes another",
        )
    };
    let from = format!("codes {peer}");
    if !tokens::is_well_formed(Kind::Code, &given.code) {
        app.rate.failed(&from)?;
        return Err(wrong());
    }
    app.rate.may_try(&from, &given.code)?;
    let now = app.now();
    let browser = tokens::make(Kind::Browser).map_err(Problem::internal)?;
    let mut tx = app.store().begin().await?;
    let hash = TokenHash::of(&Secret::new(given.code));
    let Some(login) = tx.take_login(&hash, now).await? else {
        tx.rollback().await?;
        app.rate.failed(&from)?;
        return Err(wrong());
    };
    let until = later(now, BROWSER);
    tx.create_browser_session(&TokenHash::of(&browser), login, now, until)
        .await?;
    let caller = Caller {
        organisation: login.organisation,
        user: Some(login.user),
        role: store::accounts::Role::Viewer,
        token: None,
    };
    tx.record(&app.line(&caller, "login", None, &json!({})))
        .await?;
    tx.commit().await?;
    let shown = issue(&app, login).await?;
    let cookie = cookie::set(&browser, BROWSER.as_secs());
    let cookie = cookie.ok_or_else(|| Problem::internal("a cookie that is no header"))?;
    Ok(with_cookie(Json(shown).into_response(), cookie))
}

/// A short-lived token for a page of ours whose browser is signed in.
#[utoipa::path(post, path = "/v1/login/token", tag = "login", security(()),
    responses((status = 200, body = v1::Login)))]
async fn token(
    State(app): State<App>,
    Peer(peer): Peer,
    headers: HeaderMap,
) -> Answer<Json<v1::Login>> {
    if !cookie::is_from_our_page(&headers, &app.parts.address) {
        return Err(Problem::forbidden("this page is none of ours"));
    }
    let from = peer.to_string();
    let brought = cookie::read(&headers).ok_or_else(Problem::unauthorised)?;
    app.rate.may_try(&from, brought.expose())?;
    let Some(caller) = by_cookie(&app, &headers).await? else {
        app.rate.failed(&from)?;
        return Err(Problem::unauthorised());
    };
    app.rate.let_in(brought.expose());
    let user = caller.user.ok_or_else(Problem::unauthorised)?;
    let login = Login {
        organisation: caller.organisation,
        user,
    };
    Ok(Json(issue(&app, login).await?))
}

/// A one-time code that signs a browser in as the caller, here or in another organisation of theirs.
#[utoipa::path(post, path = "/v1/login/codes", tag = "login",
    request_body = Option<v1::NewLoginCode>,
    responses((status = 201, body = v1::Endpoint)))]
async fn code(
    State(app): State<App>,
    caller: Caller,
    MaybeJson(new): MaybeJson<v1::NewLoginCode>,
) -> Answer<(StatusCode, Json<v1::Endpoint>)> {
    let caller = match &new.org_id {
        Some(id) => caller.in_organisation(&app, id).await?,
        None => caller,
    };
    let user = caller.user.ok_or_else(|| {
        Problem::forbidden("a service's token signs nobody in: use one of a person")
    })?;
    let now = app.now();
    let code = tokens::make(Kind::Code).map_err(Problem::internal)?;
    let login = Login {
        organisation: caller.organisation,
        user,
    };
    let until = later(now, CODE);
    let mut tx = app.store().begin().await?;
    tx.create_login(&TokenHash::of(&code), login, now, until)
        .await?;
    tx.record(&app.line(&caller, "login.code", None, &json!({})))
        .await?;
    tx.commit().await?;
    // After the mark, which no server sees and no log keeps.
    let url = format!("{}/login#{}", app.parts.address.origin(), code.expose());
    let endpoint = v1::Endpoint {
        url,
        expires_at: until.to_string(),
    };
    Ok((StatusCode::CREATED, Json(endpoint)))
}

/// Forgets the browser.
#[utoipa::path(post, path = "/v1/logout", tag = "login", security(()),
    responses((status = 204)))]
async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Answer<Response> {
    if !cookie::is_from_our_page(&headers, &app.parts.address) {
        return Err(Problem::forbidden("this page is none of ours"));
    }
    if let Some(secret) = cookie::read(&headers) {
        let caller = by_cookie(&app, &headers).await?;
        let mut tx = app.store().begin().await?;
        if let Some(caller) = caller {
            tx.record(&app.line(&caller, "logout", None, &json!({})))
                .await?;
        }
        tx.remove_browser_session(&TokenHash::of(&secret)).await?;
        tx.commit().await?;
    }
    let gone = StatusCode::NO_CONTENT.into_response();
    Ok(with_cookie(gone, cookie::clear()))
}

async fn issue(app: &App, login: Login) -> Answer<v1::Login> {
    let role = app
        .store()
        .find_role(login.organisation, login.user)
        .await?;
    let role = role.ok_or_else(Problem::unauthorised)?;
    let now = app.now();
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let organisation = login.organisation.to_string();
    let claims = user::Claims::new(&login.user.to_string(), &organisation, seconds);
    let life = i64::try_from(user::LIFE_SECONDS).unwrap_or(0);
    let caller = Caller {
        organisation: login.organisation,
        user: Some(login.user),
        role,
        token: None,
    };
    Ok(v1::Login {
        token: claims.sign(&app.parts.vault.user_key()),
        expires_at: later(now, SignedDuration::from_secs(life)).to_string(),
        org_id: organisation,
        role: caller.shown_role(),
    })
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
}
