use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use model::{Clock as _, SystemClock};
use provider_local::Edge;
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;
use tokio::net::TcpListener;
use wire::keys::{Key, Purpose, code};
use wire::workplace::GATEWAY_PORT;

use super::port;
use super::terminal::Endings;
use crate::app::App;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// What to look at: /vscode/, /vnc/, /ttyd/, /preview/, /t/NAME/
    #[arg(default_value = "/ttyd/", value_parser = path)]
    path: String,
}

/// Whom the gateway takes those for who come this way.
const USER: &str = "owner";

/// Leads a port of this machine to the sandbox's gateway until it is ended, and says where a browser
/// is let in.
pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let engine = Arc::new(app.engine()?);
    let id = engine.sandbox(&arguments.sandbox)?;
    let edge = engine.local.edge(id)?.ok_or_else(|| {
        CommandError::refused(format!("sandbox {id} has no workplace"))
            .hint("`nacre sandbox create --workplace` makes one that has")
    })?;
    let mut endings = Endings::listen()?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .context("cannot listen on this machine's loopback")?;
    let port = listener.local_addr()?.port();
    // A host of its own: browsers keep cookies by host, whatever the port.
    let host = format!(
        "{}.nacre.localhost:{port}",
        id.to_string().replace('_', "-")
    );
    let code = one_time_code(&edge, &arguments.path)?;
    let mark = if arguments.path.contains('?') {
        '&'
    } else {
        '?'
    };
    let url = format!(
        "http://{host}{}{mark}{}={code}",
        arguments.path,
        code::PARAMETER
    );
    app.output
        .result(&json!({ "url": url, "sandbox": id }), || url.clone())?;
    tokio::select! {
        error = port::forward(app, &engine, &listener, id, GATEWAY_PORT) => Err(error),
        _ = endings.next() => Ok(()),
    }
}

/// Good once, for a minute, for the path and what is below it.
fn one_time_code(edge: &Edge, path: &str) -> Result<String, CommandError> {
    let key = Key::derive(edge.secret.expose(), Purpose::Code).context("the secret is empty")?;
    let mut nonce = [0; 16];
    getrandom(&mut nonce, GetRandomFlags::empty()).context("the kernel has no randomness")?;
    let now = u64::try_from(SystemClock.now().as_second()).context("the clock is before 1970")?;
    let path = path.split('?').next().unwrap_or(path);
    Ok(code::Claims::new(USER, &edge.session, path, nonce, now).sign(&key))
}

fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let is_plain = text.chars().all(|c| c.is_ascii_graphic() && c != '#');
    if is_path && is_plain {
        return Ok(text.to_owned());
    }
    Err("a path begins with one slash and has no spaces: /vscode/".to_owned())
}
