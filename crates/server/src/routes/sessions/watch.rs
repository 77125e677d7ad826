//! Everything that a session tells, as it comes: by socket, as events, as a terminal.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use gateway::{Audited, Terminal, Visit, Watched};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::inside;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Named, Params};
use crate::problem::{Answer, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(connect))
        .routes(routes!(events))
        .routes(routes!(terminal))
        .routes(routes!(port))
        .routes(routes!(command))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct From {
    /// The number of the last event that the client has; from the newest on, if it is not said.
    since: Option<u64>,
    /// Whether the session is woken.
    resume: Option<bool>,
}

/// A socket: all that the session tells, and all that it can be asked.
#[utoipa::path(get, path = "/v1/sessions/{id}/connect", tag = "watch",
    params(("id" = String, Path), From),
    responses((status = 101, description = "A WebSocket, JSON frames")))]
async fn connect(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(from): Params<From>,
    mut request: Request,
) -> Answer<Response> {
    let watched = watched(&app, &caller, &id, &from, true).await?;
    let answer = app.gateway().socket(&mut request, watched).await;
    Ok(answer.map(Body::new))
}

/// The same as events that the server sends, without gap from `since` on. It wakes nobody unless
/// `resume` says so.
#[utoipa::path(get, path = "/v1/sessions/{id}/events", tag = "watch",
    params(("id" = String, Path), From),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
async fn events(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(from): Params<From>,
    request: Request,
) -> Answer<Response> {
    let watched = watched(&app, &caller, &id, &from, false).await?;
    let answer = app.gateway().events(request.headers(), watched).await;
    Ok(answer.map(Body::new))
}

async fn watched(
    app: &App,
    caller: &Caller,
    id: &str,
    from: &From,
    wakes: bool,
) -> Answer<Watched> {
    Ok(Watched {
        session: app.session(caller, id).await?.id,
        caller: known(app, caller).await?,
        since: from.since,
        resume: from.resume.unwrap_or(wakes),
        leave: app.guests().enter(caller),
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Screen {
    /// Which of several; `main`, if it is not said.
    name: Option<String>,
    columns: Option<u16>,
    rows: Option<u16>,
}

/// A terminal in the sandbox: a WebSocket of keystrokes and output.
#[utoipa::path(get, path = "/v1/sessions/{id}/terminal", tag = "watch",
    params(("id" = String, Path), Screen),
    responses((status = 101, description = "A WebSocket, bytes both ways")))]
async fn terminal(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(screen): Params<Screen>,
    request: Request,
) -> Answer<Response> {
    let visit = visit(&app, &caller, &id).await?;
    let terminal = Terminal {
        name: screen.name,
        columns: screen.columns,
        rows: screen.rows,
    };
    // Its body is none: what follows is a socket.
    let mut request = request.map(drop);
    let answer = app
        .gateway()
        .terminal(&mut request, &visit, &terminal)
        .await;
    Ok(answer.map(Body::new))
}

/// A port of the sandbox: a WebSocket of bytes both ways. The text frame `{"type":"eof"}` ends one way.
#[utoipa::path(get, path = "/v1/sessions/{id}/ports/{port}", tag = "inside",
    params(("id" = String, Path), ("port" = u16, Path)),
    responses((status = 101, description = "A WebSocket, bytes both ways")))]
async fn port(
    State(app): State<App>,
    caller: Caller,
    Named((id, port)): Named<(String, u16)>,
    request: Request,
) -> Answer<Response> {
    caller.may_change()?;
    let visit = visit(&app, &caller, &id).await?;
    let body = json!({ "port": port });
    app.audit(&caller, "session.port", Some(visit.session), body)
        .await?;
    let mut request = request.map(drop);
    let answer = app.gateway().port(&mut request, &visit, port);
    Ok(answer.await.map(Body::new))
}

/// A command with its input and output: a WebSocket. The first frame is the request, as text; then
/// binary frames are its input, and `{"type":"eof"}` ends that. What it prints comes as binary frames
/// that begin with 1, or 2 for errors; `{"type":"exit","exit_code":0}` is the last. It ends with its
/// client.
#[utoipa::path(get, path = "/v1/sessions/{id}/exec", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 101, description = "A WebSocket")))]
async fn command(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    request: Request,
) -> Answer<Response> {
    caller.may_change()?;
    let visit = visit(&app, &caller, &id).await?;
    let session = visit.session;
    let mut request = request.map(drop);
    let noted = app.clone();
    let admit: gateway::Admit = Box::new(move |wanted| {
        Box::pin(async move {
            let (spec, argv) = inside::command(wanted, None).map_err(Problem::refusal)?;
            let body = json!({ "argv": argv });
            let written = noted.audit(&caller, "session.exec", Some(session), body);
            written.await.map_err(Problem::refusal)?;
            Ok(spec)
        })
    });
    let answer = app.gateway().command(&mut request, &visit, admit);
    Ok(answer.await.map(Body::new))
}

async fn visit(app: &App, caller: &Caller, id: &str) -> Answer<Visit> {
    Ok(Visit {
        session: app.session(caller, id).await?.id,
        caller: known(app, caller).await?,
        leave: app.guests().enter(caller),
    })
}

/// As others who watch see them.
pub(super) async fn known(app: &App, caller: &Caller) -> Answer<gateway::Caller> {
    let user = match caller.user {
        Some(user) => app.store().find_user(user).await?,
        None => None,
    };
    let role = caller.shown_role();
    let audited = Some(Audited {
        organisation: caller.organisation,
        actor: caller.actor(),
    });
    Ok(match user {
        Some(user) => gateway::Caller {
            id: user.id.to_string(),
            name: user.name,
            email: Some(user.email),
            role,
            audited,
        },
        None => gateway::Caller {
            id: gateway::SERVICE.to_owned(),
            name: gateway::SERVICE.to_owned(),
            email: None,
            role,
            audited,
        },
    })
}
