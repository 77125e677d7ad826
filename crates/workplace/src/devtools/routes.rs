//! Which request is whose.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request};
use serde_json::json;

use super::answer::{Answer, Failure, json};
use super::ask::{Ask, decode};
use super::{
    Door, HubRequest, Picture, Tools, VERSION, environment, files, git, services, terminal, tunnels,
};

pub(super) async fn answer(tools: Rc<Tools>, door: &Door, request: Request<Incoming>) -> Answer {
    // The path without its query: the query may hold what no log should.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answer = match route(tools, door, request).await {
        Ok(answer) => answer,
        Err(failure) => failure.answer(),
    };
    let status = answer.status().as_u16();
    tracing::info!(component = "api", %method, path, status, "answered");
    answer
}

async fn route(
    tools: Rc<Tools>,
    door: &Door,
    request: Request<Incoming>,
) -> Result<Answer, Failure> {
    let method = request.method().clone();
    // Decoded piece by piece, so that no encoded slash makes two of one. A plus is one only here.
    let pieces = request.uri().path().split('/').skip(1);
    let path: Vec<String> = pieces
        .map(|piece| decode(&piece.replace('+', "%2B")))
        .collect();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_health = method == Method::GET && matches!(path[..], ["api", "health"] | ["health"]);
    match door {
        Door::Closed => return Err(Failure::forbidden()),
        Door::Open => {}
        Door::Token(_) if is_health && path.len() == 2 => {}
        Door::Token(token) => {
            let given = request.headers().get(AUTHORIZATION);
            let given = given.map(hyper::header::HeaderValue::as_bytes);
            if !token.as_ref().is_some_and(|token| token.admits(given)) {
                return Err(Failure::unauthorized());
            }
        }
    }
    if is_health {
        let version = env!("CARGO_PKG_VERSION");
        return Ok(json(
            &json!({"status": "ok", "version": version, "api": VERSION}),
        ));
    }
    let ["api", area, rest @ ..] = &path[..] else {
        return Err(Failure::no_route());
    };
    let ask = Ask { request };
    match (*area, rest) {
        ("auth", ["check"]) => Ok(json(&json!({"status": "ok"}))),
        ("services", rest) => services::answer(&tools, ask, &method, rest).await,
        ("logs", [name]) => services::answer(&tools, ask, &method, &[name, "logs"]).await,
        ("expose", []) => services::expose(&tools, ask, &method).await,
        ("ports", []) if method == Method::GET => {
            let exposed = tools.services.exposed();
            let ports = tools.ports.list();
            Ok(json(&json!({"ports": ports, "exposed_port": exposed})))
        }
        ("tunnels", rest) => tunnels::answer(&tools, ask, &method, rest).await,
        ("git", [what]) => git::answer(&tools, ask, &method, what).await,
        ("files", rest) => files::answer(&tools, ask, &method, rest).await,
        ("evidence", []) if method == Method::GET => files::evidence(&tools, &ask).await,
        ("terminal", []) if method == Method::GET => terminal::upgrade(&tools, ask),
        ("terminals", rest) => terminal::answer(&tools, &method, rest).await,
        ("env", [what]) if method == Method::POST => environment::answer(&tools, ask, what).await,
        ("image", []) if method == Method::POST => image(&tools, ask).await,
        ("snapshot" | "actions", rest) => hub(&tools, ask, &method, area, rest).await,
        _ => Err(Failure::no_route()),
    }
}

#[derive(serde::Deserialize)]
struct Snapshot {
    #[serde(default)]
    message: Option<String>,
}

#[derive(serde::Deserialize)]
struct Invocation {
    integration: String,
    action: String,
    #[serde(default)]
    params: serde_json::Value,
}

#[derive(serde::Deserialize)]
struct Image {
    data: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    mime_type: String,
}

async fn image(tools: &Tools, ask: Ask) -> Result<Answer, Failure> {
    let asked: Image = ask.json().await?;
    let picture = Picture {
        media_type: asked.mime_type,
        data: asked.data,
        description: asked.description,
    };
    tools.hub.show(picture).await?;
    Ok(json(&json!({"ok": true})))
}

async fn hub(
    tools: &Tools,
    ask: Ask,
    method: &Method,
    area: &str,
    rest: &[&str],
) -> Result<Answer, Failure> {
    let request = match (method.as_str(), area, rest) {
        ("POST", "snapshot", []) => {
            let Snapshot { message } = ask.json().await?;
            HubRequest::Snapshot { message }
        }
        ("GET", "actions", []) => HubRequest::Actions,
        ("GET", "actions", ["guide", integration]) => HubRequest::ActionGuide {
            integration: (*integration).to_owned(),
        },
        ("POST", "actions", ["invoke"]) => {
            let Invocation {
                integration,
                action,
                params,
            } = ask.json().await?;
            HubRequest::InvokeAction {
                integration,
                action,
                params,
            }
        }
        ("GET", "actions", ["invocations", id]) => HubRequest::Invocation {
            id: (*id).to_owned(),
        },
        _ => return Err(Failure::no_route()),
    };
    Ok(json(&tools.hub.ask(request).await?))
}
