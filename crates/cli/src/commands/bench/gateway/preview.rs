//! Small bodies from a server in a sandbox: asked there, through a preview of ours, and through
//! Caddy in the same sandbox.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use provider::{Provider as _, SandboxId, Stream};
use provider_local::Local;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wire::v1::NewSession;

use super::super::load;
use super::super::runner::aside::{Aside, listen_inside};
use super::super::runner::caddy;
use super::super::stats::middle;
use super::Ground;
use super::front::{Server, nacre};
use crate::config;
use crate::error::CommandError;

const BODY: usize = 1 << 10;
static BODIES: [usize; 1] = [BODY];
const CONNECTIONS: usize = 8;
const CADDY_PORT: u16 = 8398;

pub(super) async fn run(ground: &mut Ground) -> Result<(), CommandError> {
    let home = ground.directory.join("h");
    fs_err::create_dir_all(&home)?;
    let base = ground.base.clone().unwrap_or_else(|| "base".to_owned());
    bring(&base, ground).await?;
    let server = Server::start(&home).await?;
    let configured = config::load()?.local;
    let local = Local::open(&provider_local::Config {
        home: home.clone(),
        ..configured
    })?;
    let session = server
        .client
        .create_session(&NewSession::default())
        .await?
        .id;
    let measured = ground
        .interrupt
        .or(measure(
            &server,
            &local,
            &session,
            ground.runs.rounds,
            ground.runs.each,
        ))
        .await;
    let removed = server.client.delete_session(&session).await;
    let [direct, ours, theirs] = measured?;
    removed?;
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
    let ratio = middle(ratios.collect());
    let report = &mut ground.report;
    for (name, rates) in [("direct", direct), ("preview", ours), ("caddy", theirs)] {
        let name = format!("{name}: 1 KiB bodies");
        report.value(&name, middle(rates).round(), "requests/s");
    }
    report.goal_at_least("preview: 1 KiB bodies", "of Caddy's", ratio, 1.0, "");
    Ok(())
}

/// The base of the configured home, in the throw-away one.
async fn bring(base: &str, ground: &Ground) -> anyhow::Result<()> {
    let file = ground.directory.join("base.nacre");
    let mut export = tokio::process::Command::new(std::env::current_exe()?);
    export.args(["snapshot", "export", base, file.as_str()]);
    let mut import = nacre(&ground.directory.join("h"))?;
    import.args(["snapshot", "import", file.as_str(), "--name", "base"]);
    for mut command in [export, import] {
        let done = command.stdin(Stdio::null()).output().await?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
            bail!("the base `{base}` cannot be brought along: {said}");
        }
    }
    Ok(fs_err::remove_file(file)?)
}

/// Requests a second: directly, through the preview, through Caddy; a round each.
async fn measure(
    server: &Server,
    local: &Local,
    session: &str,
    rounds: usize,
    each: Duration,
) -> Result<[Vec<f64>; 3], CommandError> {
    let session = server.client.resume(session).await?;
    let sandbox = session.sandbox_id.context("the session has no sandbox")?;
    let sandbox: SandboxId = sandbox.parse().map_err(anyhow::Error::from)?;
    let pid = local.show(sandbox).await?.pid;
    let listener = listen_inside(pid.context("the sandbox has no processes")?)?;
    let port = listener.local_addr()?.port();
    let _program = Aside::start(listener, |listener| load::serve(listener, &BODIES))?;
    let path = format!("/{BODY}");
    caddy::start(local, sandbox, CADDY_PORT, port, &path).await?;
    let (host, cookie) = enter(server, &session.id, port).await?;
    let plain = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let shown = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (way, rates) in rates.iter_mut().enumerate() {
            let mut streams: Vec<Box<dyn Stream>> = Vec::with_capacity(CONNECTIONS);
            for _ in 0..CONNECTIONS {
                streams.push(match way {
                    0 => local.dial(sandbox, port).await?,
                    1 => Box::new(connect(server).await?),
                    _ => local.dial(sandbox, CADDY_PORT).await?,
                });
            }
            let request = if way == 1 { &shown } else { &plain };
            rates.push(load::rate(streams, request, BODY, each).await?);
        }
    }
    Ok(rates)
}

async fn connect(server: &Server) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// As a browser is let in: by a link that is good once, and then by what it was given.
async fn enter(server: &Server, session: &str, port: u16) -> anyhow::Result<(String, String)> {
    let path = ["v1", "sessions", session, "open"];
    let target = json!({ "target": port.to_string() });
    let open: Value = server.client.post_json(&path, &target).await?;
    let url = open["url"].as_str().context("no address was given")?;
    let (host, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .context("the address is none")?;
    let mut stream = connect(server).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let cookie = answer
        .lines()
        .find_map(|line| {
            line.to_ascii_lowercase()
                .starts_with("set-cookie: ")
                .then(|| &line[12..])
        })
        .and_then(|cookie| cookie.split(';').next())
        .with_context(|| format!("not let in: {}", answer.lines().next().unwrap_or_default()))?;
    Ok((host.to_owned(), cookie.to_owned()))
}
