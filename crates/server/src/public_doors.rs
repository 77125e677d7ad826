//! The doors for sandboxes that are elsewhere, and come to our address: the same doors, with a key.
//!
//! ```text
//! /doors/model/{session}/{provider}/v1/…      as the model door is asked inside
//! /doors/git/{session}/https/{host}/{repo}…   as the git door is asked inside, below `/git`
//! ```
//!
//! A key is one generation's of one session ([`crate::vault::Vault::session_key`]). It is good for as
//! long as that sandbox is the session's: paused, stopped or replaced, it opens nothing.

use ::metrics::counter;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{HeaderValue, WWW_AUTHENTICATE};
use axum::http::uri::{PathAndQuery, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use doors::Visitor;
use model::session::{Generation, Lifecycle, State as SessionState};
use model::{Id, Session};
use subtle::ConstantTimeEq as _;

use crate::app::App;
use crate::auth;
use crate::problem::{Answer, Problem};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/doors/model/{session}/{*rest}", any(model))
        .route("/doors/git/{session}/{*rest}", any(git))
}

async fn model(State(app): State<App>, request: Request) -> Response {
    match enter(&app, "/doors/model/", "", request).await {
        Ok((visitor, request)) => {
            let answer = app.parts.outside.models().handle(&visitor, request).await;
            answer.map(Body::new)
        }
        Err(problem) => problem.into_response(),
    }
}

async fn git(State(app): State<App>, request: Request) -> Response {
    match enter(&app, "/doors/git/", "/git", request).await {
        Ok((visitor, request)) => {
            let answer = app.parts.outside.git().handle(&visitor, request).await;
            answer.map(Body::new)
        }
        Err(problem) => {
            let mut answer = problem.into_response();
            // Git sends what it has only where it is asked for it like this.
            if let Some(asks) = answer.headers_mut().get_mut(WWW_AUTHENTICATE) {
                *asks = HeaderValue::from_static("Basic realm=\"nacre\"");
            }
            answer
        }
    }
}

/// Who it is by their key, and what they ask of the door. Whether the session is there, rests or is
/// another's: to whoever has no good key it is all the same.
async fn enter(app: &App, door: &str, root: &str, request: Request) -> Answer<(Visitor, Request)> {
    let (mut head, body) = request.into_parts();
    let key = doors::credential(&head.headers).unwrap_or_default();
    let from = auth::peer(&head).to_string();
    app.rate.may_try(&from, &key)?;
    // As it was sent: nothing that is decoded leads anywhere.
    let path = head.uri.path();
    let rest = path
        .strip_prefix(door)
        .and_then(|rest| rest.split_once('/'));
    let Some((visitor, rest)) = (match rest {
        Some((session, rest)) => admitted(app, session, &key)
            .await?
            .map(|visitor| (visitor, rest)),
        None => None,
    }) else {
        app.rate.failed(&from)?;
        return Err(Problem::unauthorised());
    };
    app.rate.let_in(&key);
    let name = if root.is_empty() { "model" } else { "git" };
    counter!("nacre_door_visits_total", "door" => name).increment(1);
    let asked = match head.uri.query() {
        Some(query) => format!("{root}/{rest}?{query}"),
        None => format!("{root}/{rest}"),
    };
    let asked = PathAndQuery::try_from(asked).map_err(|_| Problem::not_found("page"))?;
    head.uri = Uri::from(asked);
    Ok((visitor, Request::from_parts(head, body)))
}

async fn admitted(app: &App, session: &str, key: &str) -> Answer<Option<Visitor>> {
    let Ok(session) = session.parse::<Id<Session>>() else {
        return Ok(None);
    };
    let Some(record) = app.store().find_session(session).await? else {
        return Ok(None);
    };
    let lifecycle = record.state.lifecycle()?;
    let vault = &app.parts.vault;
    let opens = |generation: &Generation| {
        let expected = vault.session_key(session, generation.0);
        bool::from(expected.expose().as_bytes().ct_eq(key.as_bytes()))
    };
    let found = serving(&lifecycle).into_iter().find(opens);
    Ok(found.map(|generation| Visitor {
        organisation: record.organisation.to_string(),
        session: session.to_string(),
        generation: generation.0,
    }))
}

/// Sandboxes that work for the session, or are on their way to it.
fn serving(lifecycle: &Lifecycle) -> Vec<Generation> {
    match &lifecycle.state {
        SessionState::Starting(_) | SessionState::Running(_) | SessionState::Migrating(_) => {
            lifecycle.generations()
        }
        SessionState::Paused(_) | SessionState::Suspended(_) | SessionState::Stopped(_) => {
            Vec::new()
        }
    }
}
