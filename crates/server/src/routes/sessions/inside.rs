//! What goes on inside a session's sandbox: commands, files, ports, services, git. To look at it
//! wakes nobody; to do something does.

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use gateway::encode;
use gateway::preview::Target;
use provider::{Exec, ExecInput, ExecOutput, ExecSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::v1;
use wire::workplace::{USER, WORKSPACE};

use crate::app::App;
use crate::auth::Caller;
use crate::body;
use crate::devtools::{PATIENCE, act, awake, inside, look};
use crate::extract::{Json, Named, Params};
use crate::problem::{Answer, Problem};

/// Of a command that says nothing else.
const COMMAND: Duration = Duration::from_mins(1);
const LONGEST_PATIENCE: Duration = Duration::from_mins(10);
/// Of each stream of a command.
const OUTPUT: usize = 1 << 20;
const LONGEST_FILE: usize = 16 << 20;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(exec))
        .routes(routes!(read_file, write_file))
        .routes(routes!(list_files))
        .routes(routes!(ports))
        .routes(routes!(tunnels))
        .routes(routes!(close_tunnel))
        .routes(routes!(services))
        .routes(routes!(act_on_service))
        .routes(routes!(service_log))
        .routes(routes!(git_status))
        .routes(routes!(git_diff))
}

/// Runs a command as the agent's user, and answers when it has ended.
#[utoipa::path(post, path = "/v1/sessions/{id}/exec", tag = "inside",
    params(("id" = String, Path)), request_body = v1::ExecRequest,
    responses((status = 200, body = v1::ExecAnswer)))]
async fn exec(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Json(request): Json<v1::ExecRequest>,
) -> Answer<Json<v1::ExecAnswer>> {
    caller.may_change()?;
    let (spec, argv) = command(request, Some(COMMAND))?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "argv": argv });
    app.audit(&caller, "session.exec", Some(hub.session()), body)
        .await?;
    let inside = inside(&app, &hub).await?;
    let exec = inside.provider().exec(inside.place().sandbox, spec).await?;
    Ok(Json(collect(exec).await?))
}

/// What is run for a request, as the agent's user. Without a time limit of its own it has the usual.
pub(super) fn command(
    request: v1::ExecRequest,
    usual: Option<Duration>,
) -> Answer<(ExecSpec, Vec<String>)> {
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(Problem::invalid("`argv` names a program first"));
    }
    let is_odd = |text: &String| text.contains('\0');
    if request.argv.iter().any(is_odd)
        || request
            .env
            .iter()
            .any(|(key, value)| is_odd(key) || is_odd(value))
    {
        return Err(Problem::invalid("arguments and values have no zero bytes"));
    }
    let timeout = request.timeout_ms.map(Duration::from_millis).or(usual);
    if timeout.is_some_and(|timeout| timeout.is_zero() || timeout > LONGEST_PATIENCE) {
        return Err(Problem::invalid("`timeout_ms` is 1 to 600000"));
    }
    let env = request.env.into_iter();
    let spec = ExecSpec {
        user: Some(USER.to_owned()),
        cwd: Some(request.cwd.map_or(WORKSPACE.into(), String::into_bytes)),
        env: env.map(|(key, value)| (key.into(), value.into())).collect(),
        timeout,
        ..ExecSpec::new(&request.argv)
    };
    Ok((spec, request.argv))
}

/// All that it printed, up to a limit. It ends with its caller.
async fn collect(mut exec: Exec) -> Answer<v1::ExecAnswer> {
    // A command that has ended reads nothing more.
    let _ = exec.input.send(ExecInput::Eof).await;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut truncated = false;
    let mut keep = |kept: &mut Vec<u8>, bytes: &[u8]| {
        let room = OUTPUT.saturating_sub(kept.len()).min(bytes.len());
        truncated |= room < bytes.len();
        kept.extend_from_slice(&bytes[..room]);
    };
    let exit = loop {
        match exec.output.recv().await {
            Some(Ok(ExecOutput::Stdout(bytes))) => keep(&mut stdout, &bytes),
            Some(Ok(ExecOutput::Stderr(bytes))) => keep(&mut stderr, &bytes),
            Some(Ok(ExecOutput::Exit(exit))) => break exit,
            Some(Err(error)) => return Err(error.into()),
            None => {
                return Err(Problem::unavailable(
                    "the sandbox went away before the command ended",
                ));
            }
        }
    };
    Ok(v1::ExecAnswer {
        exit_code: exit.code,
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        timed_out: exit.timed_out,
        truncated,
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct AtPath {
    /// Below the workspace.
    #[serde(default)]
    path: String,
}

/// A file of the workspace, as it is.
#[utoipa::path(get, path = "/v1/sessions/{id}/files", tag = "inside",
    params(("id" = String, Path), AtPath),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
async fn read_file(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(at): Params<AtPath>,
) -> Answer<Response> {
    let hub = app.hub(&caller, &id).await?;
    let inside = awake(&app, &hub)?;
    let path = format!("/api/files?path={}", encode(&at.path));
    let answer = inside.send(Method::GET, &path, "", PATIENCE).await?;
    // It is shown by no browser as anything but bytes.
    let kind = [
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
        ("content-disposition", "attachment"),
    ];
    Ok((kind, Body::new(answer.into_body())).into_response())
}

/// Writes a file of the workspace, whole or not at all.
#[utoipa::path(put, path = "/v1/sessions/{id}/files", tag = "inside",
    params(("id" = String, Path), AtPath),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204)))]
async fn write_file(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(at): Params<AtPath>,
    body: Body,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let body = body::whole(body, LONGEST_FILE, "a file has at most 16 MiB here").await?;
    let about = json!({ "path": at.path });
    app.audit(&caller, "session.write_file", Some(hub.session()), about)
        .await?;
    let inside = inside(&app, &hub).await?;
    let path = format!("/api/files?path={}", encode(&at.path));
    inside.read(Method::PUT, &path, body, PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is in a directory of the workspace.
#[utoipa::path(get, path = "/v1/sessions/{id}/files/list", tag = "inside",
    params(("id" = String, Path), AtPath),
    responses((status = 200, body = v1::FileList)))]
async fn list_files(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(at): Params<AtPath>,
) -> Answer<Json<v1::FileList>> {
    let hub = app.hub(&caller, &id).await?;
    let path = format!("/api/files/list?path={}", encode(&at.path));
    let listed: Listed = look(&app, &hub, &path).await?;
    Ok(Json(listed.shown()))
}

/// As the tools inside say it: a mode as people write it.
#[derive(Debug, Deserialize)]
struct Listed {
    entries: Vec<ListedEntry>,
}

#[derive(Debug, Deserialize)]
struct ListedEntry {
    name: String,
    kind: String,
    size: u64,
    mode: String,
    modified_ms: i64,
}

impl Listed {
    fn shown(self) -> v1::FileList {
        let entries = self.entries.into_iter().map(|entry| v1::FileEntry {
            name: entry.name,
            kind: match &*entry.kind {
                "symlink" => "link".to_owned(),
                _ => entry.kind,
            },
            size: entry.size,
            mode: u32::from_str_radix(&entry.mode, 8).unwrap_or(0),
            modified_ms: entry.modified_ms,
        });
        v1::FileList {
            entries: entries.collect(),
        }
    }
}

/// Ports that something listens on, and where a browser finds them.
#[utoipa::path(get, path = "/v1/sessions/{id}/ports", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::PortList)))]
async fn ports(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::PortList>> {
    #[derive(Deserialize)]
    struct Found {
        ports: Vec<Port>,
        exposed_port: Option<u16>,
    }
    #[derive(Deserialize)]
    struct Port {
        port: u16,
        reach: String,
    }
    let hub = app.hub(&caller, &id).await?;
    let found: Found = look(&app, &hub, "/api/ports").await?;
    let ports = found.ports.into_iter().map(|port| v1::PortInfo {
        url: app.site().url(Target::Port(port.port), hub.session()),
        port: port.port,
        reach: port.reach,
    });
    Ok(Json(v1::PortList {
        ports: ports.collect(),
        exposed_port: found.exposed_port,
    }))
}

/// Ports that somebody in the sandbox gave names, and where a browser finds them.
#[utoipa::path(get, path = "/v1/sessions/{id}/tunnels", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::TunnelList)))]
async fn tunnels(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::TunnelList>> {
    #[derive(Deserialize)]
    struct Found {
        tunnels: Vec<Tunnel>,
    }
    #[derive(Deserialize)]
    struct Tunnel {
        name: String,
        port: u16,
        protocol: String,
    }
    let hub = app.hub(&caller, &id).await?;
    let found: Found = look(&app, &hub, "/api/tunnels").await?;
    let tunnels = found.tunnels.into_iter().map(|tunnel| v1::TunnelInfo {
        url: app.site().url(Target::Port(tunnel.port), hub.session()),
        name: tunnel.name,
        port: tunnel.port,
        protocol: tunnel.protocol,
    });
    Ok(Json(v1::TunnelList {
        tunnels: tunnels.collect(),
    }))
}

/// Takes the name of a port away again.
#[utoipa::path(delete, path = "/v1/sessions/{id}/tunnels/{name}", tag = "inside",
    params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 204)))]
async fn close_tunnel(
    State(app): State<App>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
) -> Answer<StatusCode> {
    caller.may_change()?;
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "tunnel": name });
    app.audit(&caller, "session.tunnel", Some(hub.session()), body)
        .await?;
    let path = format!("/api/tunnels/{}", encode(&name));
    let inside = inside(&app, &hub).await?;
    inside.read(Method::DELETE, &path, "", PATIENCE).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What is kept running.
#[utoipa::path(get, path = "/v1/sessions/{id}/services", tag = "inside",
    params(("id" = String, Path)),
    responses((status = 200, body = v1::ServiceList)))]
async fn services(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
) -> Answer<Json<v1::ServiceList>> {
    let hub = app.hub(&caller, &id).await?;
    Ok(Json(look(&app, &hub, "/api/services").await?))
}

/// Starts, stops or restarts a service.
#[utoipa::path(post, path = "/v1/sessions/{id}/services/{name}/{action}", tag = "inside",
    params(("id" = String, Path), ("name" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = Value)))]
async fn act_on_service(
    State(app): State<App>,
    caller: Caller,
    Named((id, name, action)): Named<(String, String, String)>,
) -> Answer<Json<Value>> {
    caller.may_change()?;
    if !matches!(&*action, "start" | "stop" | "restart") {
        return Err(Problem::not_found("thing to do to a service"));
    }
    let hub = app.hub(&caller, &id).await?;
    let body = json!({ "service": name, "action": action });
    app.audit(&caller, "session.service", Some(hub.session()), body)
        .await?;
    let path = format!("/api/services/{}/{action}", encode(&name));
    Ok(Json(act(&app, &hub, &path, &json!({})).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Tail {
    /// The last bytes of it.
    tail: Option<u64>,
}

/// What a service printed.
#[utoipa::path(get, path = "/v1/sessions/{id}/services/{name}/logs", tag = "inside",
    params(("id" = String, Path), ("name" = String, Path), Tail),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
async fn service_log(
    State(app): State<App>,
    caller: Caller,
    Named((id, name)): Named<(String, String)>,
    Params(tail): Params<Tail>,
) -> Answer<Response> {
    let hub = app.hub(&caller, &id).await?;
    let inside = awake(&app, &hub)?;
    let tail = tail.tail.unwrap_or(64 << 10).min(4 << 20);
    let name = encode(&name);
    let path = format!("/api/services/{name}/logs?tail={tail}");
    let log = inside.read(Method::GET, &path, "", PATIENCE).await?;
    let kind = [
        ("content-type", "application/octet-stream"),
        ("x-content-type-options", "nosniff"),
    ];
    Ok((kind, log).into_response())
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct InRepo {
    /// Below the workspace; the only one there is, if none is named.
    repo: Option<String>,
    path: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Since {
    /// The whole id of a commit to compare with, whatever was committed after it; the last one, if
    /// none is named.
    base: Option<String>,
    /// Below the workspace; the only one there is, if none is named.
    repo: Option<String>,
    path: Option<String>,
}

impl InRepo {
    fn query(&self) -> String {
        let mut query = format!("repo={}", encode(self.repo.as_deref().unwrap_or(".")));
        if let Some(path) = &self.path {
            query.push_str("&path=");
            query.push_str(&encode(path));
        }
        query
    }
}

/// Branch, changes and commits of a repository.
#[utoipa::path(get, path = "/v1/sessions/{id}/git/status", tag = "inside",
    params(("id" = String, Path), InRepo),
    responses((status = 200, body = Value)))]
async fn git_status(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(at): Params<InRepo>,
) -> Answer<Json<Value>> {
    let hub = app.hub(&caller, &id).await?;
    let path = format!("/api/git/status?{}", at.query());
    Ok(Json(look(&app, &hub, &path).await?))
}

/// What changed against the last commit, or since another.
#[utoipa::path(get, path = "/v1/sessions/{id}/git/diff", tag = "inside",
    params(("id" = String, Path), Since),
    responses((status = 200, body = Value)))]
async fn git_diff(
    State(app): State<App>,
    caller: Caller,
    Named(id): Named<String>,
    Params(Since { base, repo, path }): Params<Since>,
) -> Answer<Json<Value>> {
    let hub = app.hub(&caller, &id).await?;
    let mut path = format!("/api/git/diff?{}", InRepo { repo, path }.query());
    if let Some(base) = base {
        path.push_str("&base=");
        path.push_str(&encode(&base));
    }
    Ok(Json(look(&app, &hub, &path).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_files_is_read_as_the_tools_inside_say_it() {
        let said =
            r#"{"entries":[{"name":"a.sh","kind":"file","size":3,"mode":"0755","modified_ms":1}]}"#;
        let listed: Listed = serde_json::from_str(said).unwrap();
        assert_eq!(listed.shown().entries[0].mode, 0o755);
    }
}
